#pragma once

#include <acquit/amqp/confirms.h>
#include <acquit/amqp/connection.h>
#include <acquit/amqp/detail/same_tag.h>
#include <acquit/amqp/message.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/task.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::amqp {

namespace detail {
class reply_slot;
}

/// Gets what a consumer receives. Called by the connection's reader, message by message, with views
/// that live until the call returns.
class consumer_sink {
public:
    /// `content.head_in_input` and `body_in_input` say which views point into `segment`: whoever
    /// keeps the segment keeps them.
    virtual void on_delivery(const content_event& content,
                             const runtime::segment_ref& segment) noexcept = 0;
    /// The broker ended the consumer: its queue was deleted, its leader moved, it timed out.
    virtual void on_server_cancel() noexcept = 0;
    /// The channel is gone; `why` is never null. No delivery of it can be settled any more.
    virtual void on_channel_lost(std::exception_ptr why) noexcept = 0;

protected:
    ~consumer_sink() = default;
};

struct queue_declared {
    std::string name; ///< the server's choice for a queue declared with an empty name
    std::uint32_t message_count = 0;
    std::uint32_t consumer_count = 0;
};

/// An AMQP channel with its verbs. Each verb is awaited for the broker's answer; a channel error
/// reaches every verb that is pending on the channel, as `channel_error` with code and text. After
/// that the channel is over: make a new one.
///
/// The strings and tables that a verb is given are views: they must live until it returned.
class channel {
public:
    explicit channel(connection& owner) noexcept;
    ~channel();
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;

    [[nodiscard]] runtime::task<> open();
    /// With the handshake. Idempotent; nothing is ever written for the channel afterwards.
    [[nodiscard]] runtime::task<> close();

    // Topology. `passive` in a declare checks instead of creating: a missing one is channel_error 404.
    [[nodiscard]] runtime::task<> declare_exchange(wire::exchange::declare exchange);
    [[nodiscard]] runtime::task<> delete_exchange(wire::exchange::delete_ exchange);
    [[nodiscard]] runtime::task<> bind_exchange(wire::exchange::bind binding);
    [[nodiscard]] runtime::task<> unbind_exchange(wire::exchange::unbind binding);
    [[nodiscard]] runtime::task<queue_declared> declare_queue(wire::queue::declare queue);
    [[nodiscard]] runtime::task<> bind_queue(wire::queue::bind binding);
    [[nodiscard]] runtime::task<> unbind_queue(wire::queue::unbind binding);
    /// How many messages went with it.
    [[nodiscard]] runtime::task<std::uint32_t> delete_queue(wire::queue::delete_ queue);
    [[nodiscard]] runtime::task<std::uint32_t> purge_queue(std::string_view queue);

    // Consuming.
    /// `prefetch` counts unsettled messages per consumer; 0 is no limit (RabbitMQ: 2000 on quorum queues).
    [[nodiscard]] runtime::task<> qos(std::uint16_t prefetch);
    /// `sink` must live until the consumer is cancelled or the channel lost. An empty consumer tag
    /// is chosen by us. Returns the tag.
    [[nodiscard]] runtime::task<std::string> consume(wire::basic::consume what,
                                                     consumer_sink& sink);
    /// Deliveries may arrive until it returns; those already received stay valid.
    [[nodiscard]] runtime::task<> cancel(std::string tag);
    /// One message, if the queue has one.
    [[nodiscard]] runtime::task<std::optional<received>> get(std::string_view queue,
                                                             bool no_ack = false);

    // Settling by hand; the settlement layer does it by ledger. Nothing is written on a closed channel.
    void ack(std::uint64_t delivery_tag, bool multiple = false);
    void reject(std::uint64_t delivery_tag, bool requeue);
    void nack(std::uint64_t delivery_tag, bool multiple, bool requeue);
    [[nodiscard]] runtime::task<> recover();

    // Publishing.
    /// Fire and forget: returns when the message stands in the output (which has a bound). In
    /// confirm mode it is counted; `wait_for_confirms` tells of it.
    [[nodiscard]] runtime::task<> publish(outgoing message);
    /// From here on the broker confirms each publish (RabbitMQ: publisher confirms).
    [[nodiscard]] runtime::task<> confirm_select();
    /// Publishes and waits for the broker's answer. Throws `publish_error` if the message was
    /// returned or nacked. Many may wait at the same time.
    [[nodiscard]] runtime::task<> publish_confirmed(outgoing message);
    /// Waits until nothing published is without an answer. Returns how many of the publishes made
    /// with `publish` were returned or nacked since the last call.
    [[nodiscard]] runtime::task<std::uint64_t> wait_for_confirms();
    /// Publishes at once, beyond the output's bound if need be; confirm mode only. `listener` hears
    /// what becomes of the message, not before this returned, until `forget_confirm`. Returns the
    /// number of the publish. Throws channel_error, and has published nothing then.
    std::uint64_t publish_raw(const raw_outgoing& message, confirm_listener& listener);
    /// The listener of this publish will not be there to hear the answer.
    void forget_confirm(std::uint64_t publish) noexcept { confirms_.forget(publish); }
    [[nodiscard]] std::size_t unconfirmed() const noexcept { return confirms_.outstanding(); }
    /// Called once when the channel is over, however that came, with the reason; after the consumers
    /// that were left were told. For who has deliveries of it but no consumer on it any more.
    std::function<void(std::exception_ptr)> on_lost{};
    /// Called for each returned message (`basic.return`), before its confirm.
    std::function<void(received)> on_return{};

    // Transactions (AMQP 0-9-1 1.9; RabbitMQ: publishes and settlements take effect at commit).
    [[nodiscard]] runtime::task<> tx_select();
    [[nodiscard]] runtime::task<> tx_commit();
    [[nodiscard]] runtime::task<> tx_rollback();

    /// A round trip: when it returns, the broker has handled everything written before it.
    /// (`basic.qos` with the value in force; RabbitMQ: a changed prefetch applies to new consumers only.)
    [[nodiscard]] runtime::task<> barrier();

    [[nodiscard]] bool is_open() const noexcept { return phase_ == phase::open; }
    [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
    [[nodiscard]] connection& owner() noexcept { return owner_; }
    /// What ended the channel, our own close included; null until then.
    [[nodiscard]] std::exception_ptr failure() const noexcept { return failure_; }

private:
    friend class connection;

    enum class phase : std::uint8_t { idle, opening, open, closing, over };

    struct consumer {
        std::string tag;
        consumer_sink* sink;
    };
    struct pending {
        wire::method_id expected;
        detail::reply_slot* slot; // null: nobody waits any more, the answer is skipped
        std::optional<received>*
            message; // of basic.get: where its message goes; lives as long as slot
    };

    template <class Request>
    runtime::task<std::vector<std::byte>> call(Request request, wire::method_id expected,
                                               std::optional<received>* message = nullptr);
    runtime::task<std::vector<std::byte>> answer_of(wire::method_id expected, const char* verb,
                                                    std::optional<received>* message = nullptr);
    runtime::task<std::vector<std::byte>> await_slot();
    template <class Method>
    void tell(const Method& method);
    void require_open() const;
    message_identity write_message(const outgoing& message);
    void write_raw(const raw_outgoing& message);
    void check_written(send_status status, std::string_view exchange, std::string_view routing_key);
    [[nodiscard]] static message_identity identity_of(const raw_outgoing& message) noexcept;

    // Called by the connection.
    void on_delivery(const content_event& content, const runtime::segment_ref& segment) noexcept
    {
        if (phase_ != phase::open) [[unlikely]]
            return;
        if (consumer* const c = find_consumer(content.consumer_tag)) [[likely]]
            c->sink->on_delivery(content, segment);
    }
    void on_method(const method_event& method);
    void on_content(const content_event& content, const runtime::segment_ref& segment);
    void on_opened();
    void on_close_ok();
    void on_server_cancel(std::string_view tag, bool no_wait);
    void lose(std::exception_ptr why) noexcept;
    void fail_pending(const std::exception_ptr& why) noexcept;
    void answer(wire::method_id id, std::span<const std::byte> payload);
    consumer* find_consumer(std::string_view tag) noexcept
    {
        // Nearly always the consumer of the message before.
        if (last_consumer_ != nullptr && detail::same_tag(last_consumer_->tag, tag)) [[likely]]
            return last_consumer_;
        return search_consumer(tag);
    }
    consumer* search_consumer(std::string_view tag) noexcept;
    void forget_consumer(std::string_view tag) noexcept;

    connection& owner_;
    std::deque<pending> pending_; // answers come in the order of the questions
    std::vector<consumer> consumers_;
    consumer* last_consumer_ = nullptr; // of consumers_, until they change
    confirm_tracker confirms_;
    runtime::notifier confirm_progress_;
    std::vector<std::byte> scratch_; // encoded properties of a mandatory message
    std::exception_ptr failure_;
    std::uint32_t next_consumer_ = 0;
    std::uint16_t number_ = 0;
    std::uint16_t prefetch_ = 0;
    phase phase_ = phase::idle;
    bool confirming_ = false;
};

} // namespace acquit::amqp
