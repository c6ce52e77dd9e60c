#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/amqp/publish_ticket.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timer.h>
#include <acquit/runtime/waiter.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::amqp {

struct publisher_options {
    std::string exchange{}; ///< "" is the default exchange: routes to the queue named by the key
    /// A message that no queue takes fails its publish instead of being dropped. Switch it off for
    /// exchanges of the delayed message plugin, which returns every message it delays.
    bool mandatory = true;
    /// `delivery_mode` 2 for messages that do not say otherwise.
    bool persistent = true;
    /// Without: fire and forget. Nobody learns what the broker did with a message.
    bool confirms = true;
    /// Publishes that the broker has not answered, at most; at least 1. Further ones wait.
    std::size_t window = 1024;
    /// From the call until the broker's answer.
    std::chrono::nanoseconds confirm_timeout = std::chrono::seconds(30);
};

/// One message. Everything but `body_owner` is a view that must live until the publish or send
/// returned: the connection has a copy of the bytes by then.
struct publication {
    std::string_view routing_key{}; ///< at most 255 bytes (AMQP 0-9-1 shortstr)
    /// Instead of the publisher's.
    std::optional<std::string_view> exchange{};
    std::optional<bool> mandatory{};
    wire::properties properties{};
    /// How long it may wait in a queue, in place of `properties.expiration`. RabbitMQ: at most
    /// 4294967295 ms; 0 is for consumers that have room for it at once.
    std::optional<std::chrono::milliseconds> ttl{};
    std::span<const std::byte> body{};
    /// Who keeps the body's memory, unchanged: then a large body (16 KiB or more) is not copied, the
    /// send gathers it from where it lies and lets go of its owner afterwards.
    std::shared_ptr<const void> body_owner{};
};

struct publisher_metrics {
    std::uint64_t published = 0;
    std::uint64_t confirmed = 0;
    std::uint64_t returned = 0;
    std::uint64_t nacked = 0;
    std::uint64_t timed_out = 0; ///< whatever the broker said of them later
    std::uint64_t lost = 0;
    std::size_t unanswered = 0; ///< by the broker, those that timed out included
};

/// Publishes on a channel of its own, and learns what the broker did with each message
/// (RabbitMQ: publisher confirms). How to learn it is a matter of taste; all of it may be mixed:
///
///     publisher orders{broker, {.exchange = "shop"}};
///     co_await orders.open();
///
///     co_await orders.publish({.routing_key = "new", .body = bytes});      // waits for its confirm
///
///     for (const auto& each : many)
///         co_await orders.send({.routing_key = "new", .body = each});      // does not
///     co_await orders.flush();                                             // waits for all
///
///     auto receipt = co_await orders.send({.routing_key = "new", .body = bytes});
///     co_await receipt.confirmed();                                        // waits for that one
///
///     co_await orders.send({.routing_key = "new", .body = bytes},
///                          [](const publish_answer& told) { ... });        // is called
///
///     co_await orders.close();
///
/// Messages go out in the order of the calls. A call waits while the window is full or the
/// connection's output is at its bound, so that a broker that is slow, or blocks publishing
/// (`connection.blocked`), slows its publishers down; no call waits longer than `confirm_timeout`.
///
/// Two kinds of failure. publish_error: the message was handed to the connection, and this became of
/// it. Any other error: it was not sent (`channel_error` and `connection_error`: the channel is over,
/// or the message cannot be sent at all; `timed_out`: there was no room for it in time). A call that
/// is cancelled while it waits for room has not sent; a `publish` that is cancelled while it waits for
/// its answer has.
///
/// A publisher does not reconnect: with its channel it is over, and every publish without an answer
/// is told so. Have publishers on another connection than consumers: under an alarm the broker stops
/// reading from connections that publish, and their settlements would wait too.
///
/// It may be destroyed with publishes unanswered, which are then told that they are lost, but not
/// while a call of its own is waiting (a ticket's may). One thread, that of its connection.
class publisher {
public:
    /// Called once, from the loop. It may spawn tasks, which may publish; it may neither throw nor
    /// end the publisher.
    using callback = std::function<void(const publish_answer&)>;

    /// Nothing is sent before `open`. The connection must live as long as the publisher.
    explicit publisher(connection& broker, publisher_options options = {});
    ~publisher();
    publisher(const publisher&) = delete;
    publisher& operator=(const publisher&) = delete;

    [[nodiscard]] runtime::task<> open();
    /// Waits for the answers that are missing, then closes the channel. Throws what `flush` throws.
    [[nodiscard]] runtime::task<> close();

    /// Returns when the broker has confirmed the message. Throws publish_error. Many may wait at the
    /// same time. Without confirms it returns when the message is written.
    [[nodiscard]] runtime::task<> publish(publication message);

    /// Returns when the message stands in the connection's output. The ticket tells of it; if that is
    /// dropped, `flush` does.
    [[nodiscard]] runtime::task<publish_ticket> send(publication message);
    /// The same, and `told` is called with the broker's answer, not before this returned. Returns the
    /// number of the publish, as in the answer. Not without confirms.
    [[nodiscard]] runtime::task<std::uint64_t> send(publication message, callback told);

    /// Waits until all that was sent before has its answer. Throws publish_error for the first that
    /// failed since the last flush, with the number of them; only those that nobody else was told of
    /// count. Without confirms: a round trip, after which the broker has handled all that was sent.
    [[nodiscard]] runtime::task<> flush();

    [[nodiscard]] publisher_metrics metrics() const noexcept;
    [[nodiscard]] const publisher_options& options() const noexcept { return options_; }
    /// Its channel, to be looked at, or for `on_return`: each returned message, whole, before its
    /// publish is told. Not to publish on.
    [[nodiscard]] amqp::channel& channel() noexcept { return channel_; }

private:
    friend class detail::publish_record;

    struct deadline_timer final : runtime::timer {
        explicit deadline_timer(publisher& publishing) noexcept : owner(publishing) {}
        void on_timer() noexcept override { owner.expire(); }
        publisher& owner;
    };
    class turn;
    class running_call;

    [[nodiscard]] std::size_t unanswered() const noexcept { return records_.size() - free_.size(); }
    [[nodiscard]] runtime::time_point deadline_of_now() const noexcept;
    [[nodiscard]] bool has_room() noexcept;
    [[nodiscard]] bool must_wait() noexcept;
    /// The gate belongs to the caller when it returns.
    runtime::task<> wait_for_turn(runtime::time_point deadline);
    runtime::task<> wait_for_turn();
    [[nodiscard]] outgoing complete(const publication& message, std::span<char> digits) const;
    [[nodiscard]] raw_outgoing encode(const outgoing& message);
    runtime::task<> write_unconfirmed(const publication& message);
    detail::publish_record& write(const publication& message, runtime::time_point deadline);
    void on_answer(detail::publish_record& record, publish_result result,
                   std::uint16_t code) noexcept;
    void finish(detail::publish_record& record, const publish_answer& answer) noexcept;
    void count(const publish_answer& answer) noexcept;
    void expire() noexcept;

    publisher_options options_;
    amqp::channel channel_;
    std::vector<std::unique_ptr<detail::publish_record>> records_; // never more than the window
    std::vector<detail::publish_record*> free_;                    // of these
    runtime::list_node waiting_; // those that nobody was told of, by number
    runtime::semaphore gate_{1}; // closed by the call whose turn it is, if that has to wait
    runtime::notifier room_;     // for that call
    runtime::notifier told_;     // for flush
    deadline_timer timer_{*this};
    std::vector<std::byte> scratch_; // encoded properties
    publish_answer first_failure_;   // of `failures_`
    std::uint64_t failures_ = 0;     // that nobody was told of
    std::uint64_t last_ = 0;         // number of the latest publish
    publisher_metrics counts_;
    std::size_t calls_ = 0; // that are running
    bool usable_ = false;   // opened, and not closed by us
};

} // namespace acquit::amqp
