/// A coroutine per handler that may run, and the one place where outcomes are acted on.

#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/settle/detail/exception_text.h>
#include <acquit/settle/subscription.h>

#include <utility>

namespace acquit::settle {

namespace {

bool is_cancellation(const std::exception_ptr& why) noexcept
{
    try {
        std::rethrow_exception(why);
    } catch (const runtime::operation_cancelled&) {
        return true;
    } catch (...) {
        return false;
    }
}

} // namespace

runtime::task<> subscription::work()
{
    if (handler_->batches()) {
        co_await work_in_batches();
        co_return;
    }
    while (held_delivery* d = co_await inbox_->take()) {
        if (!disposed_of(*d)) {
            std::optional<outcome> decided;
            std::exception_ptr failure;
            try {
                decided = co_await handler_->start(*d);
            } catch (...) {
                failure = std::current_exception();
            }
            if (decided)
                decide(*d, *decided);
            else
                handler_failed(*d, failure);
        }
        inbox_->release(*d);
        if (nothing_in_hand())
            idle_.notify_all();
    }
}

runtime::task<> subscription::work_in_batches()
{
    batch taken(batch_size());
    while (const std::size_t count = co_await inbox_->take_batch(taken.places())) {
        const auto all = taken.fill(count);
        std::optional<batch_outcomes> decided;
        std::exception_ptr failure;
        try {
            decided = co_await handler_->start(all);
        } catch (...) {
            failure = std::current_exception();
        }
        if (decided)
            finish_batch(all, *decided);
        else
            batch_failed(all, failure);
        taken.release(*inbox_);
        if (nothing_in_hand())
            idle_.notify_all();
    }
}

void subscription::finish_batch(std::span<delivery> all, const batch_outcomes& decided) noexcept
{
    if (const auto returned = decided.mismatch(all.size())) {
        runtime::log(runtime::log_level::error,
                     *returned < all.size() ? "fewer outcomes than deliveries: the rest is retried"
                                            : "more outcomes than deliveries: the rest is ignored",
                     {{"queue", queue_name_},
                      {"deliveries", std::to_string(all.size())},
                      {"outcomes", std::to_string(*returned)}});
    }
    for (std::size_t place = 0; place < all.size(); ++place)
        decide(all[place], decided.of(place));
}

void subscription::batch_failed(std::span<delivery> all, const std::exception_ptr& why) noexcept
{
    const bool cut_short = cancelling_ && is_cancellation(why);
    if (!cut_short) {
        counts_.failed += all.size();
        runtime::log(runtime::log_level::error, "batch handler failed",
                     {{"queue", queue_name_},
                      {"deliveries", std::to_string(all.size())},
                      {"reason", detail::text_of(why)}});
    }
    for (delivery& d : all) {
        if (cut_short)
            leave_unsettled(d);
        else
            apply_failure_policy(d, why);
    }
}

void subscription::decide(delivery& d, outcome decided) noexcept
{
    if (!d.is_deferred())
        finish(d, decided);
    else if (!handler_->defers())
        runtime::log(runtime::log_level::debug, "a token decides, not what the handler says",
                     {{"queue", queue_name_}, {"outcome", std::string(decided.name())}});
}

void subscription::token_decided(delivery& d, const outcome* decided) noexcept
{
    if (decided != nullptr) {
        finish(d, *decided);
    } else {
        ++counts_.undecided;
        const runtime::error why("a deferred delivery was destroyed without a decision");
        runtime::log(runtime::log_level::error, why.what(),
                     {{"queue", queue_name_}, {"attempt", std::to_string(d.attempt())}});
        apply_failure_policy(d, std::make_exception_ptr(why));
    }
    if (nothing_in_hand())
        idle_.notify_all();
}

bool subscription::nothing_in_hand() const noexcept
{
    return inbox_->backlog() == 0 && inbox_->in_hand() == 0 &&
           (tokens_ == nullptr || tokens_->in_hand() == 0);
}

runtime::task<> subscription::keep_tokens()
{
    if (tokens_ != nullptr)
        co_await tokens_->until_closed();
}

void subscription::handle_plain(passing_delivery& d) noexcept
{
    if (disposed_of(d))
        return;
    try {
        decide(d, handler_->call(d));
    } catch (...) {
        handler_failed(d, std::current_exception());
    }
}

bool subscription::disposed_of(delivery& d) noexcept
{
    if (d.body_dropped()) {
        refuse_oversized(d);
        return true;
    }
    return hops_ && !no_ack() && retrier_->send_on(d);
}

void subscription::refuse_oversized(delivery& d) noexcept
{
    // Nobody can handle a body that is not there; an ack by habit would lose the message.
    ++counts_.failed;
    runtime::log(runtime::log_level::error, "body above session_limits::body_size_max: dropped",
                 {{"queue", queue_name_}, {"routing key", std::string(d.routing_key())}});
    if (no_ack())
        ++counts_.dropped; // the broker has forgotten it already
    else
        finish(d, drop);
}

void subscription::finish(delivery& d, outcome decided) noexcept
{
    if (no_ack()) {
        ++counts_.acked;
        return;
    }
    switch (decided.kind()) {
    case outcome_kind::ack:
        ++counts_.acked;
        break;
    case outcome_kind::drop:
        ++counts_.dropped;
        break;
    case outcome_kind::retry:
    case outcome_kind::retry_after:
        ++counts_.retried;
        break;
    }
    if (retrier_->decide(d, decided) != settled::done) {
        ++counts_.stale;
        runtime::log(runtime::log_level::debug, "settlement came after its channel was gone",
                     {{"queue", queue_name_}, {"outcome", std::string(decided.name())}});
    }
}

void subscription::handler_failed(delivery& d, std::exception_ptr why) noexcept
{
    if (cancelling_ && is_cancellation(why)) {
        leave_unsettled(d);
        return;
    }
    ++counts_.failed;
    runtime::log(runtime::log_level::error, "handler failed",
                 {{"queue", queue_name_},
                  {"attempt", std::to_string(d.attempt())},
                  {"reason", detail::text_of(why)}});
    apply_failure_policy(d, std::move(why));
}

void subscription::apply_failure_policy(delivery& d, std::exception_ptr why) noexcept
{
    if (settings_.failure) {
        decide(d, *settings_.failure);
        return;
    }
    leave_unsettled(d);
    if (stop_request_ != nullptr)
        stop_request_(stop_object_, std::move(why));
}

void subscription::leave_unsettled(const delivery& d) noexcept
{
    if (!d.is_deferred()) // else its token decides, or is counted when the drain is over
        ++counts_.abandoned;
}

} // namespace acquit::settle
