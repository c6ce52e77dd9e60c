/// Queue descriptors: what a service consumes from, written as a chain of steps.
///
///     orders.consume(quorum_queue{"orders"}.bind("shop", "order.#").prefetch(64), on_order);
///     orders.consume(classic_queue{"audit"}.message_ttl(1h).max_priority(10), on_audit);
///     orders.consume(classic_queue{""}.exclusive().bind("news", ""), on_news);  // the server names it
///     orders.consume("legacy", on_legacy);                                      // exists already
///     orders.consume(existing_queue{"legacy"}.prefetch(10), on_legacy);         // the same, tuned
///
/// A step that a type of queue does not have does not compile: a quorum queue is always durable and
/// shared. A step with a wrong value does not throw; it is collected, and the start of the service
/// reports all problems at once (queue_description::problems). Each step returns the descriptor
/// itself, for named descriptors and temporaries alike; a descriptor converts to a
/// queue_description.
#pragma once

#include <acquit/settle/queue_description.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace acquit::settle {

namespace detail {

/// The steps' bodies, once for all types of queue.
class queue_base {
public:
    [[nodiscard]] const queue_description& description() const noexcept { return description_; }
    operator queue_description() const& { return description_; }
    operator queue_description() && { return std::move(description_); }

protected:
    queue_base(std::string name, queue_kind kind);

    void set_prefetch(std::uint32_t count);
    void set_bind(std::string exchange, std::string key, amqp::wire::table arguments);
    /// A duration as a number of milliseconds of at least `least`.
    void set_milliseconds(std::string_view argument, std::chrono::milliseconds value,
                          std::int64_t least);
    void set_number(std::string_view argument, std::int64_t value, std::int64_t least,
                    std::int64_t most);

    queue_description description_;
};

} // namespace detail

/// Steps that concern the consumer, which every queue has.
template <class Self>
class consumer_steps : public detail::queue_base {
public:
    /// Unsettled deliveries that the broker may have under way to this consumer: 1 to 65535, 256
    /// unless told. 0 would mean "no limit" to the broker and is a problem here. More than 2000 on a
    /// quorum queue counts as 2000, since the broker sends no more than that.
    Self& prefetch(std::uint32_t count) { return set_prefetch(count), self(); }

    /// RabbitMQ: x-priority of basic.consume; a larger one is served first, 0 is the default.
    Self& consumer_priority(std::int32_t priority)
    {
        return consumer_argument("x-priority", std::int64_t{priority});
    }
    template <class Value>
    Self& consumer_argument(std::string_view argument, const Value& value)
    {
        return description_.set_consume_argument(argument, value), self();
    }

protected:
    using queue_base::queue_base;
    Self& self() noexcept { return static_cast<Self&>(*this); }
};

/// Steps that classic and quorum queues share.
template <class Self>
class queue_steps : public consumer_steps<Self> {
public:
    Self& bind(std::string exchange, std::string key, amqp::wire::table arguments = {})
    {
        this->set_bind(std::move(exchange), std::move(key), std::move(arguments));
        return this->self();
    }

    /// Any argument of queue.declare, for what has no step here. An int keeps its width on the wire;
    /// RabbitMQ takes any.
    template <class Value>
    Self& argument(std::string_view argument, const Value& value)
    {
        return this->description_.set_argument(argument, value), this->self();
    }

    /// Where rejected, expired and surplus messages go; "" is the default exchange (then the routing
    /// key is the name of a queue).
    Self& dead_letter_exchange(std::string_view exchange)
    {
        return argument("x-dead-letter-exchange", exchange);
    }
    /// Needs a dead_letter_exchange; without this step a message keeps its own key.
    Self& dead_letter_routing_key(std::string_view key)
    {
        return argument("x-dead-letter-routing-key", key);
    }

    /// A message older than this expires once it reaches the head of the queue. At least 0.
    Self& message_ttl(std::chrono::milliseconds age)
    {
        return this->set_milliseconds("x-message-ttl", age, 0), this->self();
    }
    /// The queue itself goes after being unused for so long. At least 1 ms.
    Self& expires(std::chrono::milliseconds unused)
    {
        return this->set_milliseconds("x-expires", unused, 1), this->self();
    }
    Self& max_length(std::int64_t messages)
    {
        return this->set_number("x-max-length", messages, 0, INT64_MAX), this->self();
    }
    Self& max_length_bytes(std::int64_t bytes)
    {
        return this->set_number("x-max-length-bytes", bytes, 0, INT64_MAX), this->self();
    }
    Self& overflow(overflow_policy policy) { return argument("x-overflow", name(policy)); }
    /// One consumer at a time is served, the next takes over when it leaves.
    Self& single_active_consumer() { return argument("x-single-active-consumer", true); }

protected:
    using consumer_steps<Self>::consumer_steps;
};

/// A queue that exists: consumed as it is, never declared. Only the consumer can be tuned.
class existing_queue : public consumer_steps<existing_queue> {
public:
    explicit existing_queue(std::string name);
};

/// A classic queue, durable unless told. "" lets the server choose a name.
class classic_queue : public queue_steps<classic_queue> {
public:
    explicit classic_queue(std::string name);

    classic_queue& durable(bool yes = true);
    /// Belongs to the connection and goes with it.
    classic_queue& exclusive(bool yes = true);
    /// Goes when its last consumer has gone.
    classic_queue& auto_delete(bool yes = true);
    /// Message priorities 0 to `most`, 1 to 255. Each costs the broker memory: small numbers are
    /// better.
    classic_queue& max_priority(std::uint32_t most);
};

/// A quorum queue: replicated, always durable, never exclusive or auto-deleted; the server counts
/// returns.
class quorum_queue : public queue_steps<quorum_queue> {
public:
    explicit quorum_queue(std::string name);

    /// Returns after which the server dead-letters (or drops) a message: n allows n + 1 deliveries.
    /// -1: no limit; needs RabbitMQ 4.0 (before, -1 meant 0; there no limit is the default).
    /// max_attempts of a subscription sets it: use one of the two.
    quorum_queue& delivery_limit(std::int64_t returns);
    /// Members of the cluster that hold the queue at first. At least 1.
    quorum_queue& initial_group_size(std::uint32_t members);
    /// Dead letters are confirmed by their target before they leave this queue. Sets
    /// x-dead-letter-strategy and x-overflow=reject-publish, since the former is ignored silently
    /// without the latter. Needs a dead_letter_exchange.
    quorum_queue& at_least_once_dead_lettering();
    /// The server waits before it delivers a failed message again: min after the first failure,
    /// growing by min with each one, at most max. Needs RabbitMQ 4.3.
    quorum_queue& delayed_retry(std::chrono::milliseconds min, std::chrono::milliseconds max);
};

} // namespace acquit::settle
