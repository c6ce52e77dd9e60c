#include <acquit/settle/retry_plan.h>

#include <algorithm>
#include <utility>

namespace acquit::settle {

namespace {

using std::chrono::nanoseconds;

/// RabbitMQ: consumer_timeout unless configured.
constexpr std::chrono::milliseconds delivery_timeout = std::chrono::minutes(30);

/// The delayed-message plugin delivers at once what shall wait longer (its ERL_MAX_T).
constexpr std::chrono::milliseconds plugin_delay_max{4'294'967'295};

retry_plan settle_now(disposition how)
{
    retry_plan plan;
    plan.how = how;
    return plan;
}

retry_plan copy_to(std::string exchange, std::string key, std::uint32_t copies, disposition how)
{
    retry_plan plan;
    plan.what = retry_plan::step::copy;
    plan.how = how;
    plan.exchange = std::move(exchange);
    plan.routing_key = std::move(key);
    plan.copies = copies;
    return plan;
}

bool at_limit(const retry_rules& rules, std::uint32_t attempt)
{
    return rules.limit.max_attempts && attempt >= *rules.limit.max_attempts;
}

retry_plan give_up(const retry_rules& rules, std::uint32_t attempt)
{
    // Of a quorum queue, a reject leads to the dead-letter queue by the queue's own arguments.
    if (rules.kind == queue_kind::quorum || !rules.limit.dead_letter) {
        auto plan = settle_now(disposition::reject);
        plan.dead_letter = true;
        return plan;
    }
    auto plan = copy_to({}, *rules.limit.dead_letter, attempt, disposition::reject);
    plan.dead_letter = true;
    return plan;
}

retry_plan retry_now(const retry_rules& rules, std::uint32_t attempt)
{
    // The server counts what a quorum queue returns, but each delayed copy from zero: there the limit
    // of all attempts together is ours to keep.
    if (at_limit(rules, attempt) && (rules.kind == queue_kind::classic || rules.delay.copies()))
        return give_up(rules, attempt);
    if (rules.kind != queue_kind::classic || !rules.limit.max_attempts)
        return settle_now(disposition::requeue);
    return copy_to({}, rules.queue, attempt, disposition::reject);
}

retry_plan hop(const delay& buckets, const std::string& queue, std::uint32_t copies,
               nanoseconds left)
{
    const auto step = buckets.step_for(left);
    auto plan = copy_to({}, buckets.bucket(queue, step), copies, disposition::ack);
    plan.left = std::max(nanoseconds{}, left - step);
    return plan;
}

retry_plan in_process(const retry_rules& rules, nanoseconds wait, std::uint32_t attempt)
{
    auto plan = copy_to({}, rules.queue, attempt, disposition::reject);
    plan.what = retry_plan::step::later;
    plan.wait = wait;
    return plan;
}

retry_plan held_back(const retry_rules& rules, nanoseconds wait, std::uint32_t attempt)
{
    auto plan = retry_now(rules, attempt);
    plan.after = plan.what;
    plan.what = retry_plan::step::hold;
    plan.wait = std::min(wait, rules.hold_max);
    plan.delay_dropped = wait > rules.hold_max;
    return plan;
}

/// The delay is not kept at all.
retry_plan undelayed(const retry_rules& rules, std::uint32_t attempt)
{
    auto plan = retry_now(rules, attempt);
    plan.delay_dropped = true;
    return plan;
}

/// By a copy that waits on the broker.
retry_plan parked(const retry_rules& rules, const delay& where, nanoseconds wait,
                  std::uint32_t attempt)
{
    if (where.kind() == delay::mode::buckets)
        return hop(where, rules.queue, attempt, wait);
    if (where.kind() == delay::mode::dlx_ttl) {
        auto plan = copy_to({}, where.target(rules.queue), attempt, disposition::ack);
        plan.expiration_ms = expiration_ms(wait);
        return plan;
    }
    auto plan = copy_to(where.target(rules.queue), rules.queue, attempt, disposition::ack);
    plan.x_delay_ms =
        static_cast<std::int64_t>(expiration_ms(std::min<nanoseconds>(wait, plugin_delay_max)));
    plan.delay_dropped = wait > plugin_delay_max;
    // The plugin returns every delayed message as unroutable, and delivers it all the same.
    plan.mandatory = false;
    return plan;
}

retry_plan delayed(const retry_rules& rules, nanoseconds wait, std::uint32_t attempt,
                   std::uint32_t held)
{
    if (wait <= nanoseconds{})
        return retry_now(rules, attempt);
    const auto mode = rules.delay.kind();
    if (mode == delay::mode::native)
        return settle_now(disposition::requeue); // the server delays it, and knows the limit
    if (mode == delay::mode::none && rules.kind != queue_kind::classic)
        return undelayed(rules, attempt); // likewise
    // One that has had its attempts does not wait again.
    if (at_limit(rules, attempt))
        return give_up(rules, attempt);
    if (mode == delay::mode::none)
        return in_process(rules, wait, attempt);
    if (mode != delay::mode::hold)
        return parked(rules, rules.delay, wait, attempt);
    const bool room = held < rules.delay.budget();
    if (room && wait <= rules.hold_max)
        return held_back(rules, wait, attempt);
    if (const delay* beyond = rules.delay.overflow())
        return parked(rules, *beyond, wait, attempt);
    return room ? held_back(rules, wait, attempt) : undelayed(rules, attempt);
}

} // namespace

nanoseconds hold_max_of(const queue_description& queue) noexcept
{
    auto timeout = delivery_timeout;
    for (const auto* arguments : {&queue.arguments, &queue.consume_arguments}) {
        const auto ms = integer_argument(*arguments, "x-consumer-timeout");
        if (ms && *ms > 0)
            timeout = std::min(timeout, std::chrono::milliseconds(*ms));
    }
    return timeout * 3 / 4;
}

retry_plan plan_of(const retry_rules& rules, outcome decided, std::uint32_t attempt,
                   std::uint32_t held, std::uint64_t random)
{
    switch (decided.kind()) {
    case outcome_kind::ack:
        return settle_now(disposition::ack);
    case outcome_kind::drop:
        return settle_now(disposition::reject);
    case outcome_kind::retry:
        if (rules.pause)
            return delayed(rules, rules.pause->delay(attempt, random), attempt, held);
        return retry_now(rules, attempt);
    case outcome_kind::retry_after:
        return delayed(rules, decided.delay(), attempt, held);
    }
    return settle_now(disposition::requeue);
}

retry_plan next_hop(const retry_rules& rules, std::uint32_t copies, nanoseconds left)
{
    const bool overflowed = rules.delay.overflow() != nullptr;
    return hop(overflowed ? *rules.delay.overflow() : rules.delay, rules.queue, copies, left);
}

} // namespace acquit::settle
