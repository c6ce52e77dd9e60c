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
                finish(*d, *decided);
            else
                handler_failed(*d, failure);
        }
        inbox_->release(*d);
        if (inbox_->in_hand() == 0 && inbox_->backlog() == 0)
            idle_.notify_all();
    }
}

bool subscription::handle_plain(passing_delivery& d) noexcept
{
    if (disposed_of(d))
        return true;
    try {
        finish(d, handler_->call(d));
    } catch (...) {
        handler_failed(d, std::current_exception());
    }
    return true;
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
        ++counts_.abandoned;
        return;
    }
    ++counts_.failed;
    runtime::log(runtime::log_level::error, "handler failed",
                 {{"queue", queue_name_},
                  {"attempt", std::to_string(d.attempt())},
                  {"reason", detail::text_of(why)}});
    if (settings_.failure) {
        finish(d, *settings_.failure);
        return;
    }
    ++counts_.abandoned;
    if (stop_request_ != nullptr)
        stop_request_(stop_object_, std::move(why));
}

} // namespace acquit::settle
