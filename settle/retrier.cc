#include <acquit/amqp/wire/properties.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/attempt.h>
#include <acquit/settle/retrier.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>

namespace acquit::settle {

namespace {

using namespace std::chrono_literals;

/// Between two warnings of one subscription about the same trouble.
constexpr auto warning_interval = 60s;

/// What a broker that is slow (2000 confirms a second) takes for one of many copies.
constexpr std::chrono::nanoseconds time_per_timer = 500us;

/// Before an original is given back that cannot wait in this process.
constexpr auto give_back_pause = 1s;

/// Before an original whose copy failed is given back: a queue that is missing, or a broker that is
/// full, shall not make handlers run in a circle.
const backoff& failure_backoff()
{
    static const backoff policy =
        backoff::exponential({.initial = 100ms, .factor = 2.0, .cap = 30s});
    return policy;
}

} // namespace

/// What one delivery left open: a copy, a delay, or both.
class retrier::item final : public copy_request, private detail::retry_link {
public:
    enum class phase : std::uint8_t {
        holding,    // the original waits, unsettled
        parked,     // the copy waits, its original gone
        publishing, // submitted
        pausing,    // the copy failed
    };

    item(retrier& owner, const delivery& d, const retry_plan& plan) noexcept
        : owner(owner), tag(d.tag_), how(plan.how), after(plan.after)
    {
        epoch_ = d.epoch_;
    }
    [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }

    void link_in(runtime::list_node& list) noexcept { retry_link::insert_before(list); }
    void unlink_from() noexcept { retry_link::unlink(); }
    static item& from(runtime::list_node& node) noexcept
    {
        return static_cast<item&>(static_cast<detail::retry_link&>(node));
    }

    void wait(std::chrono::nanoseconds time, phase meanwhile) noexcept
    {
        now = meanwhile;
        arm_after(runtime::loop::current(), time);
    }
    void wait_no_longer() noexcept
    {
        if (timer::armed())
            timer::arm(runtime::loop::current(), runtime::loop::current().now());
    }
    void stop_waiting() noexcept { timer::cancel(); }

    retrier& owner;
    std::uint64_t tag;
    disposition how;
    retry_plan::step after;
    phase now = phase::publishing;
    bool alone = false;    // the original is settled: this copy is all there is
    bool orphaned = false; // the original is the broker's again, whatever becomes of the copy
    bool timed = false;    // D1: counted as a timer
    bool home = false;     // the copy goes to the queue that its original came from
    bool early = false;

private:
    [[nodiscard]] copy_publisher& publisher() const noexcept override { return owner.publisher_; }
    void on_copy_done(copy_result result) noexcept override { owner.copy_done(*this, result); }
    void on_wait_over() noexcept override { owner.wait_over(*this); }
};

retrier::retrier(options o, settler& settlements, copy_publisher& publisher)
    : options_(std::move(o)), settler_(settlements), publisher_(publisher),
      rush_timer_([](void* self) noexcept { static_cast<retrier*>(self)->rush(); }, this),
      random_(std::random_device{}())
{
    items_.next = items_.previous = &items_;
}

retrier::~retrier()
{
    ACQUIT_ASSERT(open_ == 0, "retrier destroyed while {} deliveries are open", open_);
}

settled retrier::decide(const delivery& d, outcome decided)
{
    if (decided.kind() == outcome_kind::ack)
        return settler_.settle(d.epoch_, d.tag_, disposition::ack);
    if (decided.kind() == outcome_kind::drop)
        return settler_.settle(d.epoch_, d.tag_, disposition::reject);
    // Whether there is anything left to settle comes first: a copy of what the broker delivers
    // again anyway would only be a duplicate.
    if (!settler_.attached() || d.epoch_ != settler_.epoch())
        return settled::stale;
    const std::uint32_t attempt = attempt_of(d.headers(), d.redelivered(), options_.counter_header);
    const auto plan = plan_of(options_.rules, decided, attempt,
                              static_cast<std::uint32_t>(counts_.held), random_());
    if (plan.delay_dropped)
        warn_of_dropped_delay();
    if (plan.dead_letter)
        ++counts_.dead_lettered;
    return carry_out(d, plan);
}

bool retrier::send_on(const delivery& d)
{
    const auto left = left_to_wait(d.headers());
    if (left <= 0ns)
        return false;
    const auto plan =
        next_hop(options_.rules, copies_counted(d.headers(), options_.counter_header), left);
    if (carry_out(d, plan) != settled::done)
        ++counts_.stale;
    ++counts_.hops;
    return true;
}

settled retrier::carry_out(const delivery& d, const retry_plan& plan)
{
    switch (plan.what) {
    case retry_plan::step::settle:
        return settler_.settle(d.epoch_, d.tag_, plan.how);
    case retry_plan::step::copy: {
        item& i = add(d, plan, true);
        if (options_.order == copies::unconfirmed && publishable(i.message) &&
            room_for_unconfirmed(i.message.size())) {
            settle(i, i.how);
            i.alone = true;
            alone_bytes_ += i.message.size();
            ++unconfirmed_;
        }
        submit(i);
        return settled::done;
    }
    case retry_plan::step::later: {
        item& i = add(d, plan, room_for_timer(d.body().size()));
        if (i.message.empty() || !publishable(i.message)) {
            // Its original is all there is of it: given back, but not in a circle at full speed.
            warn_of_dropped_delay();
            i.message.clear();
            i.how = disposition::requeue;
            i.after = retry_plan::step::settle;
            ++counts_.held;
            i.wait(std::min<std::chrono::nanoseconds>(plan.wait, give_back_pause),
                   item::phase::holding);
            return settled::done;
        }
        settle(i, i.how);
        i.alone = i.timed = true;
        alone_bytes_ += i.message.size();
        ++counts_.timers_pending;
        i.wait(plan.wait, item::phase::parked);
        return settled::done;
    }
    case retry_plan::step::hold: {
        item& i = add(d, plan, plan.after == retry_plan::step::copy);
        ++counts_.held;
        i.wait(plan.wait, item::phase::holding);
        return settled::done;
    }
    }
    return settled::stale;
}

bool retrier::publishable(const copy_message& m) const noexcept
{
    return amqp::wire::header_frame_size(amqp::wire::properties_view(m.view().properties)) <=
           publisher_.frame_size_max();
}

bool retrier::room_for_timer(std::size_t bytes) const noexcept
{
    return counts_.timers_pending < options_.timers_max &&
           alone_bytes_ + bytes <= options_.alone_bytes_max;
}

bool retrier::room_for_unconfirmed(std::size_t bytes) const noexcept
{
    return unconfirmed_ < options_.unconfirmed_max &&
           alone_bytes_ + bytes <= options_.alone_bytes_max;
}

retrier::item& retrier::add(const delivery& d, const retry_plan& plan, bool with_copy)
{
    auto made = std::make_unique<item>(*this, d, plan);
    if (with_copy)
        made->message = copy_of(d, plan, options_.counter_header, publisher_.frame_size_max());
    made->home = with_copy && plan.exchange.empty() && plan.routing_key == options_.rules.queue;
    item& i = *made.release();
    i.link_in(items_);
    ++open_;
    return i;
}

void retrier::remove(item& i) noexcept
{
    count_leaving(i);
    i.stop_waiting();
    if (i.submitted()) {
        --counts_.copies_open;
        publisher_.withdraw(i);
    }
    i.unlink_from();
    delete &i;
    if (--open_ == 0)
        idle_.notify_all();
}

/// Out of the numbers of its phase.
void retrier::count_leaving(item& i) noexcept
{
    if (i.now == item::phase::holding)
        --counts_.held;
    if (i.alone) {
        alone_bytes_ -= i.message.size();
        if (i.timed)
            --counts_.timers_pending;
        else
            --unconfirmed_;
    }
}

void retrier::submit(item& i) noexcept
{
    const std::string& queue = options_.rules.queue;
    if (i.home && i.message.routing_key() != queue) {
        // One that the server has named anew: the name before leads nowhere.
        if (i.alone)
            alone_bytes_ -= i.message.size();
        const auto before = i.message.view();
        i.message =
            copy_message(before.exchange, queue, before.mandatory, before.properties, before.body);
        if (i.alone)
            alone_bytes_ += i.message.size();
    }
    i.now = item::phase::publishing;
    ++counts_.copies_open;
    publisher_.submit(i);
}

void retrier::settle(item& i, disposition how) noexcept
{
    if (settler_.settle(i.epoch(), i.tag, how) != settled::done && !i.orphaned)
        ++counts_.stale;
}

void retrier::wait_over(item& i) noexcept
{
    switch (i.now) {
    case item::phase::holding:
        if (i.after == retry_plan::step::settle) {
            settle(i, i.how);
            remove(i);
            return;
        }
        --counts_.held;
        submit(i);
        return;
    case item::phase::parked:
        submit(i);
        return;
    case item::phase::pausing:
        if (i.alone) {
            submit(i);
        } else {
            settle(i, disposition::requeue);
            remove(i);
        }
        return;
    case item::phase::publishing:
        return;
    }
}

void retrier::copy_done(item& i, copy_result result) noexcept
{
    --counts_.copies_open;
    if (result == copy_result::confirmed) {
        failures_ = 0;
        ++counts_.copies_confirmed;
        if (i.timed) {
            ++counts_.timers_published;
            counts_.timers_early += i.early ? 1 : 0;
        }
        if (!i.alone)
            settle(i, i.how);
        remove(i);
        return;
    }
    ++counts_.copies_failed;
    warn_of_failed_copy(i, result);
    if (i.orphaned) {
        remove(i);
        return;
    }
    const auto pause = pause_after_failure();
    // A drain gives back at once. What has no original is tried again and again.
    i.wait(draining() && !i.alone ? 0ns : pause, item::phase::pausing);
}

std::chrono::nanoseconds retrier::pause_after_failure() noexcept
{
    // Copies that fail together, with their connection, are one failure.
    const auto now = runtime::loop::current().now();
    if (now >= next_failure_step_ || failures_ == 0) {
        ++failures_;
        next_failure_step_ = runtime::later(now, failure_backoff().ceiling(failures_));
    }
    return failure_backoff().delay(failures_, random_());
}

void retrier::warn_of_failed_copy(const item& i, copy_result result) noexcept
{
    const auto now = runtime::loop::current().now();
    if (now < next_copy_warning_)
        return;
    next_copy_warning_ = now + warning_interval;
    runtime::log(runtime::log_level::error,
                 i.alone ? "copy failed, tried again" : "copy failed, the original is given back",
                 {{"queue", options_.rules.queue},
                  {"copy to", i.message.exchange().empty()
                                  ? std::string(i.message.routing_key())
                                  : "exchange " + std::string(i.message.exchange())},
                  {"reason", name(result)},
                  {"so far", std::to_string(counts_.copies_failed)}});
}

void retrier::warn_of_dropped_delay() noexcept
{
    ++counts_.delays_dropped;
    const auto now = runtime::loop::current().now();
    if (now < next_delay_warning_)
        return;
    next_delay_warning_ = now + warning_interval;
    const auto mode = options_.rules.delay.kind();
    runtime::log(
        runtime::log_level::warning,
        mode == delay::mode::plugin_dme
            ? "delay::plugin_dme delays by 49 days at most: retried too early"
        : mode == delay::mode::hold
            ? "delay::hold cannot keep a delay: retried too early; raise its budget, or "
              "give it an overflow_to"
        : options_.rules.kind == queue_kind::classic
            ? "a delayed retry finds no room in this process, or in a frame: retried too early; "
              "declare a delay, such as delay::dlx_ttl()"
            : "retry_after on a queue without a declared delay: retried at once",
        {{"queue", options_.rules.queue}, {"so far", std::to_string(counts_.delays_dropped)}});
}

void retrier::lose() noexcept
{
    for (auto* at = items_.next; at != &items_;) {
        item& i = item::from(*at);
        at = at->next;
        if (i.alone || i.orphaned)
            continue;
        ++counts_.stale;
        i.orphaned = true;
        if (!i.in_flight())
            remove(i); // nothing of it is on its way: it needs no copy
    }
}

void retrier::finish_up(runtime::time_point until, bool now) noexcept
{
    draining_ = true;
    for (auto* at = items_.next; at != &items_; at = at->next) {
        item& i = item::from(*at);
        if (i.now == item::phase::pausing)
            i.wait_no_longer();
    }
    auto& loop = runtime::loop::current();
    if (now) {
        rush();
    } else {
        // Time to publish, and to be confirmed: the more there are, the more. Rather early than lost.
        using std::chrono::nanoseconds;
        const auto left = std::max<nanoseconds>(0ns, until - loop.now());
        const nanoseconds for_few = std::min<nanoseconds>(left / 4, 2s);
        const nanoseconds for_all = counts_.timers_pending * time_per_timer;
        rush_timer_.arm(loop, until - std::min(left - left / 4, std::max(for_few, for_all)));
    }
}

void retrier::rush() noexcept
{
    for (auto* at = items_.next; at != &items_; at = at->next) {
        item& i = item::from(*at);
        if (i.now == item::phase::publishing)
            continue;
        // One that is pausing has had its time, and is tried while there is any left.
        i.early = i.early || i.now != item::phase::pausing;
        i.wait_no_longer();
    }
    // Those that are decided from now on find no time either.
    auto& loop = runtime::loop::current();
    if (draining_)
        rush_timer_.arm_after(loop, 100ms);
}

runtime::task<> retrier::idle()
{
    while (open_ != 0)
        co_await idle_.wait();
    rush_timer_.cancel();
}

std::vector<unfinished> retrier::abandon()
{
    rush_timer_.cancel();
    std::vector<unfinished> left;
    while (items_.next != &items_) {
        item& i = item::from(*items_.next);
        if (!i.orphaned) {
            if (i.alone)
                ++(i.timed ? counts_.timers_lost : counts_.copies_failed);
            else
                ++counts_.originals_left;
            if (left.size() < names_max)
                left.push_back(
                    {.where = unfinished::stage::retry,
                     .what = i.alone ? unfinished::fate::lost : unfinished::fate::redelivered,
                     .message_id = i.message.message_id(),
                     .destination = std::string(i.message.routing_key())});
        }
        remove(i);
    }
    return left;
}

} // namespace acquit::settle
