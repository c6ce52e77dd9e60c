#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/flush_policy.h>
#include <acquit/settle/inbox.h>
#include <acquit/settle/outcome.h>
#include <acquit/settle/queue_description.h>
#include <acquit/settle/settled_once.h>
#include <acquit/settle/settler.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace acquit::settle {

/// What a decision is to a queue without declared delays: a retry is a return, a delay is dropped.
[[nodiscard]] constexpr disposition disposition_of(outcome decided) noexcept
{
    switch (decided.kind()) {
    case outcome_kind::ack:
        return disposition::ack;
    case outcome_kind::drop:
        return disposition::reject;
    case outcome_kind::retry:
    case outcome_kind::retry_after:
        break;
    }
    return disposition::requeue;
}

class deliveries;

/// A delivery that its owner settles: move-only, once. Destroyed without a decision it is retried,
/// and counted (`deliveries::undecided`). Empty once the deliveries have ended.
class ACQUIT_SETTLED_ONCE owned_delivery {
public:
    ACQUIT_MADE_UNSETTLED owned_delivery() noexcept = default;
    owned_delivery(owned_delivery&& other) noexcept
        : owner_(other.owner_), held_(std::exchange(other.held_, nullptr))
    {
    }
    owned_delivery& operator=(owned_delivery&& other) noexcept;
    ~owned_delivery()
    {
        if (held_ != nullptr) [[unlikely]]
            leave_undecided();
    }

    [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }
    [[nodiscard]] const delivery& operator*() const noexcept { return *held_; }
    [[nodiscard]] const delivery* operator->() const noexcept { return held_; }
    [[nodiscard]] std::span<const std::byte> body() const noexcept { return held_->body(); }
    [[nodiscard]] std::string_view text() const noexcept { return held_->text(); }

    /// The broker's answer, written at the end of this turn. The views of the message end here.
    /// Never throws, never allocates. `stale`: the channel is gone, nothing is written.
    ACQUIT_SETTLES settled settle(outcome decided) noexcept;

private:
    friend class deliveries;
    [[gnu::cold]] void leave_undecided() noexcept;
    owned_delivery(deliveries& owner, held_delivery* held) noexcept : owner_(&owner), held_(held) {}

    deliveries* owner_ = nullptr;
    held_delivery* held_ = nullptr;
};

/// The deliveries of one consumer, for who writes the loop alone: the fastest path, one coroutine
/// resumed per message.
///
///     deliveries incoming(broker, existing_queue{"orders"}.prefetch(4096));
///     co_await incoming.open();
///     while (auto message = co_await incoming.next()) {
///         work(message.body());
///         message.settle(ack);
///     }
///     co_await incoming.close();
///
/// It consumes what exists, on a channel of its own; it declares nothing and does not reconnect: that
/// is what `service` is for. A lost channel ends `next` with the channel's error.
class deliveries {
public:
    deliveries(amqp::connection& broker, queue_description queue, flush_policy flush = {});
    deliveries(const deliveries&) = delete;
    deliveries& operator=(const deliveries&) = delete;

    /// Opens the channel and begins to consume.
    [[nodiscard]] runtime::task<> open();
    /// The next message; an empty one after `stop()`, when nothing is left.
    class next_op;
    [[nodiscard]] next_op next() noexcept;
    /// The broker sends no more; what was received is still to be had from `next`.
    [[nodiscard]] runtime::task<> stop();
    /// Stops; gives back what nobody took; writes the settlements, waits for a round trip, and closes
    /// the channel. Every delivery must have been settled.
    [[nodiscard]] runtime::task<> close();

    [[nodiscard]] const settlement_metrics& metrics() const noexcept { return settler_.metrics(); }
    [[nodiscard]] std::uint64_t received() const noexcept { return inbox_.received(); }
    /// Deliveries that were destroyed without a decision: a bug in the loop.
    [[nodiscard]] std::uint64_t undecided() const noexcept { return undecided_; }

private:
    friend class owned_delivery;
    settled settle(held_delivery& d, outcome decided) noexcept
    {
        const settled result = inbox_.settle(d, disposition_of(decided));
        inbox_.release(d);
        return result;
    }
    void leave_undecided(held_delivery& d) noexcept;

    queue_description queue_;
    settler settler_;
    inbox inbox_;
    amqp::channel channel_;
    std::string tag_;
    std::exception_ptr lost_;
    std::uint64_t undecided_ = 0;
};

class [[nodiscard]] deliveries::next_op {
public:
    explicit next_op(deliveries& from) noexcept : from_(from), take_(from.inbox_.take()) {}
    [[nodiscard]] bool await_ready() noexcept { return take_.await_ready(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        return take_.await_suspend(handle);
    }
    owned_delivery await_resume()
    {
        held_delivery* const taken = take_.await_resume();
        if (taken == nullptr && from_.lost_)
            std::rethrow_exception(from_.lost_);
        return {from_, taken};
    }

private:
    deliveries& from_;
    inbox::take_op take_;
};

inline settled owned_delivery::settle(outcome decided) noexcept
{
    if (held_ == nullptr) [[unlikely]]
        return settled::already;
    return owner_->settle(*std::exchange(held_, nullptr), decided);
}

inline deliveries::next_op deliveries::next() noexcept
{
    return next_op(*this);
}

} // namespace acquit::settle
