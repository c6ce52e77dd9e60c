#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/backoff.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/subscription.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace acquit::settle {

namespace {

using namespace std::chrono_literals;

/// Between two warnings of one subscription about delays that were not kept.
constexpr auto delay_warning_interval = 60s;

/// A consumer that lived so long was not doomed from the start: the next pause is short again.
constexpr auto lasting = 5s;

/// RabbitMQ: the channel process sends at most this many settlements of a quorum queue to its leader
/// before it waits for them to be applied, and forgets the rest when the channel closes (server
/// issue 10327).
constexpr std::uint64_t quorum_commands_in_flight = 32;

std::string text_of(const std::exception_ptr& why)
{
    try {
        std::rethrow_exception(why);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

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

const char* name(health h) noexcept
{
    switch (h) {
    case health::idle:
        return "idle";
    case health::starting:
        return "starting";
    case health::consuming:
        return "consuming";
    case health::reconnecting:
        return "reconnecting";
    case health::draining:
        return "draining";
    case health::stopped:
        return "stopped";
    case health::failed:
        return "failed";
    }
    return "unknown";
}

subscription::subscription(queue_description queue, std::unique_ptr<any_handler> handler)
    : queue_(std::move(queue)), handler_(std::move(handler)), random_(std::random_device{}())
{
}

subscription::~subscription() = default;

subscription& subscription::concurrency(std::uint32_t handlers)
{
    concurrency_ = handlers;
    return *this;
}

subscription& subscription::max_attempts(std::uint32_t n)
{
    limit_.max_attempts = n;
    return *this;
}

subscription& subscription::dead_letter(std::string queue)
{
    limit_.dead_letter = std::move(queue);
    return *this;
}

subscription& subscription::on_error(on_failure policy)
{
    on_failure_ = policy;
    return *this;
}

subscription& subscription::flush(flush_policy policy)
{
    flush_policy_ = policy;
    return *this;
}

std::vector<std::string> subscription::problems(bool declare_topology) const
{
    std::vector<std::string> found = queue_.problems();
    const auto about = [this](std::string_view what) {
        return fmt::format("queue \"{}\": {}", queue_.name, what);
    };
    for (auto& problem : limit_problems(queue_, limit_, declare_topology))
        found.push_back(std::move(problem));
    if (auto problem = validate(flush_policy_, queue_.prefetch))
        found.push_back(about(*problem));
    if (concurrency_ == 0)
        found.push_back(about("concurrency(0) would handle nothing: give at least 1"));
    if (!no_ack() && concurrency_ > queue_.prefetch)
        found.push_back(
            about(fmt::format("concurrency({}) above the prefetch of {} can never be used: raise "
                              "prefetch or lower concurrency",
                              concurrency_, queue_.prefetch)));
    if (limit_.max_attempts && queue_.kind != queue_kind::quorum)
        found.push_back(
            about("max_attempts needs a quorum queue, whose server counts the deliveries; "
                  "declare it as quorum_queue, or leave max_attempts out"));
    return found;
}

void subscription::prepare()
{
    settler_ = std::make_unique<settler>(flush_policy_, queue_.prefetch);
    inbox_ = std::make_unique<inbox>(*settler_, no_ack());
    inbox_->on_end(
        [](void* self, std::exception_ptr why) noexcept {
            static_cast<subscription*>(self)->interrupted(std::move(why));
        },
        this);
    if (handler_->plain()) {
        inbox_->handle_directly(
            [](void* self, passing_delivery& d) {
                return static_cast<subscription*>(self)->handle_plain(d);
            },
            this);
    }
}

std::uint32_t subscription::workers() const noexcept
{
    return handler_->plain() ? 0 : concurrency_;
}

runtime::task<> subscription::start(amqp::connection& c, bool declare_topology)
{
    health_ = health::starting;
    interrupted_.reset();
    try {
        co_await declare_or_check(c, declare_topology);
        co_await consume_on_new_channel(c);
    } catch (...) {
        health_ = health::failed;
        throw;
    }
    health_ = health::consuming;
    runtime::log(
        runtime::log_level::info, "consuming",
        {{"queue", queue_name_},
         {"prefetch", std::to_string(queue_.prefetch)},
         {"limit", limit_.max_attempts
                       ? fmt::format("{} deliveries, counted by the broker", *limit_.max_attempts)
                       : "none"},
         {"then", limit_.dead_letter ? "to " + *limit_.dead_letter : "-"}});
}

runtime::task<> subscription::wait_for_handlers()
{
    while (inbox_->backlog() != 0 || inbox_->in_hand() != 0)
        co_await idle_.wait();
}

runtime::task<> subscription::declare_or_check(amqp::connection& c, bool declare_topology)
{
    // A queue that the server named once is kept: it has the bindings, and what was requeued.
    if (queue_.name.empty() && !queue_name_.empty() && co_await queue_exists(c, queue_name_))
        co_return;
    // Not as one expression: GCC 14 runs both arms of ?: that await a string.
    if (declare_topology)
        queue_name_ = co_await declare_queue(c, queue_, limit_);
    else
        queue_name_ = co_await check_queue(c, queue_, limit_);
}

runtime::task<> subscription::consume_on_new_channel(amqp::connection& c)
{
    channel_ = std::make_unique<amqp::channel>(c);
    try {
        co_await channel_->open();
        if (!no_ack())
            co_await channel_->qos(queue_.prefetch);
    } catch (const amqp::channel_error& refused) {
        throw start_error(fmt::format("channel for queue \"{}\": {}", queue_name_, refused.what()));
    } catch (const runtime::timed_out& late) {
        throw start_error(fmt::format("channel for queue \"{}\": {}", queue_name_, late.what()));
    }
    settler_->attach(*channel_);
    inbox_->attach(*channel_);
    // Also while no consumer is left to be told: what is in hand is stale then.
    channel_->on_lost = [this](std::exception_ptr why) { interrupted(std::move(why)); };
    // A consumer that was asked for has to be known, so that a stop can cancel it: not cancelled
    // itself, it ends by its answer, its deadline or the connection's end.
    co_await runtime::shield(consume());
}

runtime::task<> subscription::consume()
{
    try {
        consumer_tag_ = co_await channel_->consume({.queue = queue_name_,
                                                    .no_ack = no_ack(),
                                                    .arguments = queue_.consume_arguments.view()},
                                                   *inbox_);
    } catch (const amqp::channel_error& refused) {
        throw start_error(fmt::format("consume from queue \"{}\": {} ({})", queue_name_,
                                      refused.text(), refused.code()));
    } catch (const runtime::timed_out& late) {
        // The broker may still begin to deliver to a consumer that nobody here knows.
        let_go_of_channel();
        channel_.reset();
        throw start_error(fmt::format("consume from queue \"{}\": {}", queue_name_, late.what()));
    }
}

runtime::task<> subscription::keep_consuming(amqp::connection& c, bool declare_topology)
{
    const auto pause = backoff::exponential({.initial = 200ms, .factor = 2.0, .cap = 30s});
    auto& loop = runtime::loop::current();
    std::uint32_t attempt = 0;
    for (auto since = loop.now();; since = loop.now()) {
        co_await interrupted_.wait();
        // Who is interrupted again and again waits longer and longer.
        if (loop.now() - since >= lasting)
            attempt = 0;
        while (interrupted_.is_set()) {
            ++attempt;
            health_ = health::reconnecting;
            co_await runtime::sleep(pause.delay(attempt, random_()));
            if (!c.is_open())
                co_return; // the service reconnects
            interrupted_.reset();
            try {
                co_await consume_again(c, declare_topology);
            } catch (const runtime::operation_cancelled&) {
                throw;
            } catch (const std::exception& failed) {
                runtime::log(runtime::log_level::warning, "cannot consume yet",
                             {{"queue", queue_.name}, {"reason", failed.what()}});
                interrupted_.set();
            }
        }
        ++counts_.reopened;
        health_ = health::consuming;
        runtime::log(runtime::log_level::info, "consuming again", {{"queue", queue_name_}});
    }
}

runtime::task<> subscription::consume_again(amqp::connection& c, bool declare_topology)
{
    co_await declare_or_check(c, declare_topology);
    if (channel_ != nullptr && channel_->is_open()) {
        // Only the consumer was ended: what it delivered before is still ours.
        settler_->measure_anew();
        co_await runtime::shield(consume());
    } else {
        co_await consume_on_new_channel(c);
    }
}

void subscription::interrupted(std::exception_ptr why) noexcept
{
    consumer_tag_.clear();
    if (why == nullptr) {
        runtime::log(runtime::log_level::warning, "the broker ended the consumer",
                     {{"queue", queue_name_}});
    } else {
        if (!settler_->attached())
            return; // told already
        let_go_of_channel();
        if (channel_->owner().is_open())
            runtime::log(runtime::log_level::warning, "channel lost",
                         {{"queue", queue_name_}, {"reason", text_of(why)}});
    }
    if (health_ == health::consuming)
        health_ = health::reconnecting;
    interrupted_.set();
    idle_.notify_all();
}

void subscription::let_go_of_channel() noexcept
{
    counts_.dropped_unhandled += inbox_->detach();
    counts_.stale += settler_->detach();
}

void subscription::lose() noexcept
{
    let_go_of_channel();
    channel_.reset();
    consumer_tag_.clear();
    if (health_ != health::stopped && health_ != health::failed)
        health_ = health::reconnecting;
}

runtime::task<> subscription::work()
{
    while (held_delivery* d = co_await inbox_->take()) {
        std::optional<outcome> decided;
        std::exception_ptr failure;
        try {
            if (!d->body_dropped())
                decided = co_await handler_->start(*d);
        } catch (...) {
            failure = std::current_exception();
        }
        if (d->body_dropped())
            refuse_oversized(*d);
        else if (decided)
            finish(*d, *decided);
        else
            handler_failed(*d, failure);
        inbox_->release(*d);
        if (inbox_->in_hand() == 0 && inbox_->backlog() == 0)
            idle_.notify_all();
    }
}

bool subscription::handle_plain(passing_delivery& d) noexcept
{
    try {
        if (d.body_dropped())
            refuse_oversized(d);
        else
            finish(d, handler_->call(d));
    } catch (...) {
        handler_failed(d, std::current_exception());
    }
    return true;
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
    case outcome_kind::retry_after:
        ++counts_.delays_dropped;
        warn_of_dropped_delay();
        [[fallthrough]];
    case outcome_kind::retry:
        ++counts_.retried;
        break;
    }
    if (inbox_->settle(d, disposition_of(decided)) != settled::done) {
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
                  {"reason", text_of(why)}});
    switch (on_failure_) {
    case on_failure::retry:
        finish(d, retry());
        return;
    case on_failure::drop:
        finish(d, drop);
        return;
    case on_failure::stop:
        ++counts_.abandoned;
        if (stop_request_ != nullptr)
            stop_request_(stop_object_, std::move(why));
        return;
    }
}

void subscription::warn_of_dropped_delay() noexcept
{
    const auto now = runtime::loop::current().now();
    if (now < next_delay_warning_)
        return;
    next_delay_warning_ = now + delay_warning_interval;
    runtime::log(runtime::log_level::warning,
                 "retry_after on a queue without a declared delay: retried at once",
                 {{"queue", queue_name_}, {"so far", std::to_string(counts_.delays_dropped)}});
}

runtime::task<> subscription::drain(drain_policy policy)
{
    health_ = health::draining;
    if (channel_ != nullptr && channel_->is_open()) {
        try {
            if (!consumer_tag_.empty())
                co_await channel_->cancel(consumer_tag_);
        } catch (const amqp::channel_error& lost) {
            runtime::log(runtime::log_level::warning, "channel lost while draining",
                         {{"queue", queue_name_}, {"reason", lost.what()}});
        } catch (const runtime::timed_out& late) {
            // Its consumer may still get messages, and nothing says that settlements arrive.
            runtime::log(runtime::log_level::warning, "channel given up while draining",
                         {{"queue", queue_name_}, {"reason", late.what()}});
            let_go_of_channel();
            channel_.reset();
        }
    }
    // Without acknowledgements there is nobody to give anything back to.
    if (policy == drain_policy::give_back && !no_ack()) {
        const auto untouched = inbox_->withdraw_backlog();
        counts_.given_back += untouched.count;
        if (untouched.count != 0)
            settler_->give_back(untouched.first, untouched.last);
    }
    while (inbox_->backlog() != 0 || inbox_->in_hand() != 0)
        co_await idle_.wait();
    if (channel_ != nullptr && channel_->is_open()) {
        try {
            co_await settle_to_the_last();
        } catch (const amqp::channel_error& lost) {
            // The other subscriptions drain on.
            runtime::log(runtime::log_level::warning,
                         "channel lost while its last settlements were on their way",
                         {{"queue", queue_name_}, {"reason", lost.what()}});
        } catch (const runtime::timed_out& late) {
            runtime::log(runtime::log_level::warning,
                         "nothing says that the last settlements have arrived",
                         {{"queue", queue_name_}, {"reason", late.what()}});
        }
    }
    health_ = health::stopped;
}

runtime::task<> subscription::settle_to_the_last()
{
    settler_->flush();
    co_await channel_->barrier();
    if (queue_.kind != queue_kind::classic) {
        // The round trip says that the channel process has handled the frames. Of many it has
        // stashed all but the first, and nothing tells when it has sent them on: give it the time.
        // A stashed settlement frees no slot of the window, so no more than the prefetch are there.
        std::uint64_t stashed =
            std::min<std::uint64_t>(settler_->metrics().frames, queue_.prefetch);
        for (; stashed > quorum_commands_in_flight; stashed -= quorum_commands_in_flight) {
            co_await runtime::sleep(10ms);
            co_await channel_->barrier();
        }
    }
    channel_->on_lost = nullptr;
    co_await channel_->close();
    let_go_of_channel();
    channel_.reset();
    consumer_tag_.clear();
}

void subscription::abandon() noexcept
{
    if (inbox_ == nullptr)
        return;
    const auto untouched = inbox_->withdraw_backlog();
    counts_.abandoned += untouched.count;
    settler_->flush();
    cancelling_ = true;
    if (health_ != health::failed)
        health_ = health::stopped;
}

subscription_metrics subscription::metrics() const
{
    subscription_metrics now = counts_;
    if (inbox_ != nullptr) {
        now.received = inbox_->received();
        now.redelivered = inbox_->redelivered();
        now.in_handler = inbox_->in_hand();
        now.waiting = inbox_->backlog();
        now.settlement = settler_->metrics();
    }
    return now;
}

} // namespace acquit::settle
