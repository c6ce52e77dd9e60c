#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/backoff.h>
#include <acquit/settle/delay_topology.h>
#include <acquit/settle/detail/exception_text.h>
#include <acquit/settle/detail/retrying.h>
#include <acquit/settle/subscription.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace acquit::settle {

namespace {

using namespace std::chrono_literals;

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
    : queue_(std::move(queue)), handler_(std::move(handler)), random_(std::random_device{}()),
      no_ack_(handler_->no_ack())
{
}

subscription::~subscription() = default;

std::vector<std::string> subscription::problems(bool declare_topology) const
{
    std::vector<std::string> found = queue_.problems();
    const auto about = [this](std::string_view what) {
        return fmt::format("queue \"{}\": {}", queue_.name, what);
    };
    for (auto& problem : limit_problems(queue_, settings_.limit, declare_topology))
        found.push_back(std::move(problem));
    if (auto problem = validate(settings_.flush, queue_.prefetch))
        found.push_back(about(*problem));
    const auto concurrency = settings_.concurrency;
    if (concurrency == 0)
        found.push_back(about("concurrency(0) would handle nothing: give at least 1"));
    if (!no_ack() && concurrency > queue_.prefetch)
        found.push_back(
            about(fmt::format("concurrency({}) above the prefetch of {} can never be used: raise "
                              "prefetch or lower concurrency",
                              concurrency, queue_.prefetch)));
    if (handler_->batches()) {
        const auto options = settings_.batch.value_or(batch_options{});
        for (const auto& problem : options.problems(queue_.prefetch))
            found.push_back(about(problem));
    } else if (settings_.batch) {
        found.push_back(about("batch(...) is for a handler that takes std::span<delivery>"));
    }
    for (auto& problem : retry_problems(declare_topology))
        found.push_back(about(problem));
    return found;
}

std::vector<std::string> subscription::retry_problems(bool declare_topology) const
{
    std::vector<std::string> found;
    const auto& limit = settings_.limit;
    const auto mode = settings_.delay.kind();
    if (no_ack() &&
        (limit.max_attempts || limit.dead_letter || settings_.pause || mode != delay::mode::none))
        found.emplace_back("a handler of messages without acknowledgements retries nothing: leave "
                           "max_attempts, dead_letter, delay and backoff out, or let the handler "
                           "take a delivery");
    if (auto problem = settings_.delay.problem(queue_, declare_topology))
        found.push_back(std::move(*problem));
    if (settings_.pause) {
        if (auto problem = settings_.pause->problem())
            found.push_back("backoff: " + *problem);
        if (mode == delay::mode::native)
            found.emplace_back("backoff beside delay::native: the server delays retries already; "
                               "keep one");
        else if (mode == delay::mode::none && queue_.kind != queue_kind::classic)
            found.emplace_back("backoff needs a delay on this type of queue: add "
                               "delay(delay::dlx_ttl()), delay::buckets() or delay::hold(n)");
    }
    if (settings_.failure && settings_.failure->kind() == outcome_kind::ack)
        found.emplace_back("on_error(ack) would lose what the handler failed at: use retry(), "
                           "retry_after(d), drop or on_failure::stop");
    if (settings_.counter_header.empty() || settings_.counter_header.size() > argument_name_max)
        found.push_back(fmt::format("counter_header has {} bytes: give a name of 1 to {}",
                                    settings_.counter_header.size(), argument_name_max));
    return found;
}

bool subscription::publishes_copies() const noexcept
{
    return settings_.delay.copies() || (queue_.kind == queue_kind::classic &&
                                        (settings_.limit.max_attempts || settings_.pause));
}

std::vector<std::string> subscription::waits_in() const
{
    const auto* beyond = settings_.delay.overflow();
    const auto& waiting = beyond != nullptr ? *beyond : settings_.delay;
    // Named after a queue that the server will name.
    if (queue_.name.empty() && waiting.target("a") != waiting.target("b"))
        return {};
    std::vector<std::string> names;
    for (auto& queue : waiting_queues(queue_, queue_.name, settings_.delay))
        names.push_back(std::move(queue.name));
    return names;
}

void subscription::prepare(copy_publisher& publisher)
{
    settler_ = std::make_unique<settler>(settings_.flush, queue_.prefetch);
    retrier_ =
        std::make_unique<retrier>(retrier::options{.rules = {.queue = queue_.name,
                                                             .kind = queue_.kind,
                                                             .limit = settings_.limit,
                                                             .delay = settings_.delay,
                                                             .pause = settings_.pause,
                                                             .hold_max = hold_max_of(queue_)},
                                                   .order = settings_.order,
                                                   .counter_header = settings_.counter_header},
                                  *settler_, publisher);
    const auto* beyond = settings_.delay.overflow();
    hops_ = (beyond != nullptr ? *beyond : settings_.delay).kind() == delay::mode::buckets;
    inbox_ = std::make_unique<inbox>(*settler_, no_ack());
    inbox_->count_by(settings_.counter_header);
    inbox_->on_end(
        [](void* self, std::exception_ptr why) noexcept {
            static_cast<subscription*>(self)->interrupted(std::move(why));
        },
        this);
    if (!no_ack()) {
        tokens_ = std::make_shared<deferrals>(
            [](void* self, delivery& d, const outcome* decided) noexcept {
                static_cast<subscription*>(self)->token_decided(d, decided);
            },
            this, settings_.counter_header);
        inbox_->defer_to(tokens_.get());
    }
    if (handler_->batches()) {
        inbox_->take_in_batches(batch_size(), settings_.batch.value_or(batch_options{}).within);
        inbox_->handle_directly(
            [](void* self, passing_delivery& d) noexcept {
                return static_cast<subscription*>(self)->disposed_of(d);
            },
            this);
    } else if (handler_->plain()) {
        inbox_->handle_directly(
            [](void* self, passing_delivery& d) noexcept {
                static_cast<subscription*>(self)->handle_plain(d);
                return true;
            },
            this);
    }
}

std::uint32_t subscription::workers() const noexcept
{
    return handler_->plain() ? 0 : settings_.concurrency;
}

std::uint32_t subscription::batch_size() const noexcept
{
    return settings_.batch.value_or(batch_options{}).size_for(queue_.prefetch);
}

void subscription::close_inbox() noexcept
{
    if (tokens_ != nullptr)
        tokens_->close();
    inbox_->close();
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
    const auto& limit = settings_.limit;
    const auto counted_by = queue_.kind == queue_kind::quorum
                                ? std::string("the broker")
                                : "the header " + settings_.counter_header;
    runtime::log(runtime::log_level::info, "consuming",
                 {{"queue", queue_name_},
                  {"prefetch", std::to_string(queue_.prefetch)},
                  {"limit", limit.max_attempts ? fmt::format("{} deliveries, counted by {}",
                                                             *limit.max_attempts, counted_by)
                                               : "none"},
                  {"then", limit.dead_letter    ? "to " + *limit.dead_letter
                           : limit.max_attempts ? "rejected"
                                                : "-"},
                  {"delay", std::string(settle::name(settings_.delay.kind()))}});
}

runtime::task<> subscription::wait_until_done()
{
    while (!nothing_in_hand())
        co_await idle_.wait();
    co_await retrier_->idle();
}

runtime::task<> subscription::declare_or_check(amqp::connection& c, bool declare_topology)
{
    // A queue that the server named once is kept: it has the bindings, and what was requeued.
    if (queue_.name.empty() && !queue_name_.empty() && co_await queue_exists(c, queue_name_))
        co_return;
    // Not as one expression: GCC 14 runs both arms of ?: that await a string.
    if (declare_topology)
        queue_name_ = co_await declare_queue(c, queue_, settings_.limit, settings_.delay);
    else
        queue_name_ = co_await check_queue(c, queue_, settings_.limit);
    retrier_->queue_name(queue_name_);
    if (declare_topology)
        co_await declare_delay(c, queue_, queue_name_, settings_.delay);
    else
        co_await check_delay(c, queue_, queue_name_, settings_.delay);
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
        if (loop.now() - since >= detail::lasting)
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
                         {{"queue", queue_name_}, {"reason", detail::text_of(why)}});
    }
    if (health_ == health::consuming)
        health_ = health::reconnecting;
    interrupted_.set();
    idle_.notify_all();
}

void subscription::let_go_of_channel() noexcept
{
    counts_.dropped_unhandled += inbox_->detach();
    retrier_->lose();
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

subscription_metrics subscription::metrics() const
{
    subscription_metrics now = counts_;
    if (inbox_ != nullptr) {
        now.received = inbox_->received();
        now.redelivered = inbox_->redelivered();
        now.in_handler = inbox_->in_hand();
        now.waiting = inbox_->backlog();
        now.settlement = settler_->metrics();
        now.retries = retrier_->metrics();
        now.stale += now.retries.stale;
        if (tokens_ != nullptr) {
            now.in_handler += tokens_->in_hand();
            now.abandoned += tokens_->abandoned();
        }
    }
    return now;
}

} // namespace acquit::settle
