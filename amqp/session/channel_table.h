#pragma once

#include <acquit/amqp/session/event.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// The channels of one session: their states, and the messages that are half here.
namespace acquit::amqp {

/// A message whose frames came in different calls. Method -> header -> body frames, per channel;
/// frames of other channels may lie between them (field case c37).
struct assembly {
    enum class phase : std::uint8_t { idle, want_header, want_body };

    phase now = phase::idle;
    content_event content;             ///< views point into the vectors below
    std::uint64_t remaining = 0;       ///< body bytes still to come
    std::vector<std::byte> head;       ///< arguments of the method, reused
    std::vector<std::byte> properties; ///< property part of the header frame, reused
    std::vector<std::byte> body;       ///< only for bodies of several frames

    /// A body is never reserved from its announced size beyond this many bytes (c39): 2^62 costs a
    /// peer 12 bytes to announce.
    static constexpr std::size_t reserve_ahead_max = 1024 * 1024;
    /// Scratch above this many bytes is given back after its message.
    static constexpr std::size_t kept_size_max = 64 * 1024;

    void append_body(std::span<const std::byte> bytes);
    /// Forgets the message; keeps small scratch.
    void reset() noexcept;
};

class channel_table {
public:
    [[nodiscard]] channel_state state(std::uint16_t channel) const noexcept
    {
        return channel < entries_.size() ? entries_[channel].state : channel_state::closed;
    }

    /// Grows on demand, `channel` is at least 1. Closed forgets the channel's half message.
    void set(std::uint16_t channel, channel_state state);

    /// The half message of a channel; made at the first use of that channel for content.
    [[nodiscard]] assembly& half_message(std::uint16_t channel);

    /// Open, and between two messages: what the fast path needs to know.
    [[nodiscard]] bool open_and_idle(std::uint16_t channel) const noexcept
    {
        if (channel >= entries_.size()) {
            return false;
        }
        const auto& here = entries_[channel];
        return here.state == channel_state::open &&
               (!here.half || here.half->now == assembly::phase::idle);
    }

    /// Lowest number from 1 to `channel_max` whose channel is closed; 0 = none.
    [[nodiscard]] std::uint16_t lowest_free(std::uint16_t channel_max) noexcept;

    /// Channels that are not closed.
    [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }

private:
    struct entry {
        channel_state state = channel_state::closed;
        std::unique_ptr<assembly> half;
    };

    std::vector<entry> entries_; ///< by number; [0] stays closed
    std::uint32_t in_use_ = 0;
    std::uint16_t free_hint_ = 1; ///< no lower number is free
};

} // namespace acquit::amqp
