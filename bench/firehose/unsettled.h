#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace acquit::firehose {

/// The deliveries of a channel that wait for the client's answer, as a broker keeps them: by tag,
/// each with the consumer it went to. A ring of one byte per tag from the oldest open one on.
///
/// Consumers are known by a slot from 1 to `slots_max`.
class unsettled {
public:
    static constexpr std::uint8_t slots_max = 254;
    /// Open tags at most; a client that never settles without a prefetch limit gets no more.
    static constexpr std::uint64_t window_max = std::uint64_t{1} << 24;

    enum class finding : std::uint8_t {
        open,
        unknown, ///< never sent: 0, or beyond the last
        twice    ///< settled before
    };

    /// The next `count` tags are sent, to the consumer in this slot. `room()` first.
    void add(std::uint64_t count, std::uint8_t slot);
    /// The next tag is sent and needs no answer.
    void skip(std::uint64_t count);
    [[nodiscard]] std::uint64_t room() const noexcept { return window_max - (next_ - low_); }

    [[nodiscard]] finding find(std::uint64_t tag) const noexcept;
    /// Of an open tag: closes it and returns its slot.
    std::uint8_t settle(std::uint64_t tag) noexcept;
    /// Closes every open tag up to and including `tag`, oldest first; calls f(slot, count) for runs
    /// of them, f(tag, slot) is not told. Returns how many.
    template <class F>
    std::uint64_t settle_up_to(std::uint64_t tag, F f)
    {
        std::uint64_t closed = 0;
        std::uint64_t run = 0;
        std::uint8_t slot = 0;
        for (; low_ <= tag && low_ < next_; ++low_) {
            auto& mark = ring_[low_ & mask_];
            if (mark != slot) {
                if (run != 0 && slot != 0)
                    f(slot, run);
                closed += slot != 0 ? run : 0;
                slot = mark;
                run = 0;
            }
            mark = 0;
            ++run;
        }
        if (run != 0 && slot != 0)
            f(slot, run);
        closed += slot != 0 ? run : 0;
        open_ -= closed;
        advance();
        return closed;
    }

    [[nodiscard]] std::uint64_t open() const noexcept { return open_; }
    /// The tag that the next delivery gets.
    [[nodiscard]] std::uint64_t next_tag() const noexcept { return next_; }
    /// All tags below are settled.
    [[nodiscard]] std::uint64_t low() const noexcept { return low_; }

private:
    void grow(std::uint64_t span);
    void advance() noexcept
    {
        while (low_ < next_ && ring_[low_ & mask_] == 0)
            ++low_;
    }

    std::vector<std::uint8_t> ring_ = std::vector<std::uint8_t>(64);
    std::uint64_t mask_ = 63;
    std::uint64_t low_ = 1;
    std::uint64_t next_ = 1;
    std::uint64_t open_ = 0;
};

} // namespace acquit::firehose
