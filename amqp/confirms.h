#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>

/// Which publishes of a channel in confirm mode the broker has answered.
///
/// The broker numbers publishes from 1 per channel, and answers out of order, singly or for all up
/// to a tag (`multiple`). A returned message carries no number: `basic.return` comes before the
/// confirm of its publish, but not always right before it. We match it by what it is: exchange,
/// routing key, and hashes over properties and body. Of publishes that are equal in all of that, the
/// next that is acked counts as the returned one.
///
/// RabbitMQ: a mandatory message without a route is returned, then confirmed with an ack.
namespace acquit::amqp {

enum class publish_result : std::uint8_t { pending, confirmed, nacked, returned, lost };

/// Told once, by the tracker, what became of a publish.
class confirm_listener {
public:
    /// `return_code` is the broker's reason for a return (312 no-route), else 0. Called from within
    /// the tracker: it must not publish on the same channel.
    virtual void on_confirm(publish_result result, std::uint16_t return_code) noexcept = 0;

protected:
    ~confirm_listener() = default;
};

/// What a mandatory message is known by when it comes back.
struct message_identity {
    std::uint64_t destination = 0; ///< exchange and routing key; 0: the message is not mandatory
    std::uint64_t content = 0;     ///< properties and body
    friend bool operator==(const message_identity&, const message_identity&) = default;
};

[[nodiscard]] message_identity identify(std::string_view exchange, std::string_view routing_key,
                                        std::span<const std::byte> properties,
                                        std::span<const std::byte> body) noexcept;

class confirm_tracker {
public:
    /// Counts a publish. `listener` may be null: the message is then only counted. `identity` is
    /// empty for a message that is not mandatory. Returns the tag of the publish.
    std::uint64_t add(confirm_listener* listener, message_identity identity);

    /// The listener of `tag` will not be there to hear the answer.
    void forget(std::uint64_t tag) noexcept;

    /// basic.ack or basic.nack. False for a tag that is not outstanding (nothing was changed).
    bool confirm(std::uint64_t tag, bool multiple, bool acked);

    /// basic.return: marks the oldest outstanding publish that is this message or, should the broker
    /// have encoded the properties anew, the oldest one with this destination. False if there is none.
    bool returned(message_identity identity, std::uint16_t code);

    /// The channel is gone: every outstanding listener hears `lost`.
    void fail_all() noexcept;

    /// Somebody waits for what becomes of an outstanding publish.
    [[nodiscard]] bool has_listeners() const noexcept;
    [[nodiscard]] std::size_t outstanding() const noexcept { return outstanding_; }
    /// Publishes without a listener that were nacked or returned since the last call.
    [[nodiscard]] std::uint64_t take_failures() noexcept;

private:
    struct entry {
        confirm_listener* listener;
        message_identity identity;
        std::uint16_t return_code;
        bool open;
        bool returned;
    };

    void settle_doubt(entry& e, bool acked) noexcept;
    void finish(entry& e, publish_result result) noexcept;
    void drop_finished() noexcept;

    std::deque<entry> entries_;
    std::uint64_t base_ = 1; // tag of entries_.front()
    std::size_t outstanding_ = 0;
    std::size_t returned_ = 0; // of these, marked
    std::uint64_t failures_ = 0;
};

} // namespace acquit::amqp
