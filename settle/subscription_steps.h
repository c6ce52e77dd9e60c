#pragma once

#include <acquit/settle/subscription.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

/// What `service::consume` returns: a subscription with its steps, which are for before the service
/// runs. A step that its type of queue does not have does not compile.
///
///     orders.consume(quorum_queue{"orders"}, on_order)
///         .max_attempts(5)
///         .dead_letter("orders.dead")
///         .delay(delay::dlx_ttl())
///         .concurrency(32);
namespace acquit::settle {

template <class Self>
class subscription_steps : public subscription {
public:
    using subscription::subscription;

    /// How many coroutine handlers run at the same time; 1 keeps the order of the queue. More than
    /// the prefetch is refused at start. Plain functions run one at a time whatever is said here.
    Self& concurrency(std::uint32_t handlers)
    {
        settings_.concurrency = handlers;
        return self();
    }
    /// For a handler that takes a `std::span<delivery>`: when a batch is closed. `concurrency` is how many
    /// batches are handled at the same time.
    Self& batch(batch_options options)
    {
        settings_.batch = options;
        return self();
    }
    /// For handlers that throw: `on_failure::retry` (default), `drop`, or `stop`.
    Self& on_error(on_failure policy)
    {
        settings_.failure = policy == on_failure::stop   ? std::nullopt
                            : policy == on_failure::drop ? std::optional(drop)
                                                         : std::optional(retry());
        return self();
    }
    /// The same as an outcome: `on_error(retry_after(5s))`. An ack is refused at start.
    Self& on_error(outcome decided)
    {
        settings_.failure = decided;
        return self();
    }
    /// How `retry_after(d)` keeps its delay.
    Self& delay(settle::delay how)
    {
        settings_.delay = std::move(how);
        return self();
    }
    /// Delays `retry()` as well: before the n-th new attempt by `policy.delay(n)`. Handlers need not
    /// compute it; `retry_after` says otherwise for one message.
    Self& backoff(settle::backoff policy)
    {
        settings_.pause = policy;
        return self();
    }
    /// The header of copies that counts attempts: decimal text in a long string. Default:
    /// `x-ruststream-retry-count`.
    Self& counter_header(std::string name)
    {
        settings_.counter_header = std::move(name);
        return self();
    }
    Self& flush(flush_policy policy)
    {
        settings_.flush = policy;
        return self();
    }

private:
    Self& self() noexcept { return static_cast<Self&>(*this); }

protected:
    void set_max_attempts(std::uint32_t n) { settings_.limit.max_attempts = n; }
    void set_dead_letter(std::string queue) { settings_.limit.dead_letter = std::move(queue); }
};

/// Of a queue that is only named, whatever its type.
class existing_subscription final : public subscription_steps<existing_subscription> {
public:
    using subscription_steps::subscription_steps;
};

class quorum_subscription final : public subscription_steps<quorum_subscription> {
public:
    using subscription_steps::subscription_steps;

    /// Deliveries of one message, the first included; the broker counts, by arguments of the queue
    /// (`x-delivery-limit` = n - 1), and dead-letters whether this service runs or not. Together with
    /// `dead_letter` and `declare_topology(true)`.
    quorum_subscription& max_attempts(std::uint32_t n) { return set_max_attempts(n), *this; }
    /// The queue for messages that reached the limit.
    quorum_subscription& dead_letter(std::string queue)
    {
        return set_dead_letter(std::move(queue)), *this;
    }
};

class classic_subscription final : public subscription_steps<classic_subscription> {
public:
    using subscription_steps::subscription_steps;

    /// Deliveries of one message, the first included. A classic queue counts nothing: below the limit a
    /// retry publishes a counted copy to the back of the queue and rejects the original, so that a
    /// dead-letter exchange of the queue's own sees each original.
    classic_subscription& max_attempts(std::uint32_t n) { return set_max_attempts(n), *this; }
    /// The queue for the copy of a message that reached the limit; without one it is rejected.
    classic_subscription& dead_letter(std::string queue)
    {
        return set_dead_letter(std::move(queue)), *this;
    }
    /// `copies::unconfirmed` settles originals before their copies are published: see there for what
    /// can be lost then.
    classic_subscription& copies(settle::copies order)
    {
        settings_.order = order;
        return *this;
    }
};

} // namespace acquit::settle
