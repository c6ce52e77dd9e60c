#include "world.h"

#include "../settle/service_support.h"
#include "entropy.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>

namespace acquit::testing {

namespace {

const std::string queue_name = "work";
const std::string dead_name = "dead";

/// Beyond its deadline, for what a drain may take: the goodbye, and what is on its way.
constexpr auto grace = 3s;
/// And where nothing is left to do.
constexpr auto in_peace = 5s;
/// In peace everything is done within this time.
constexpr auto patience = 20min;

class world {
public:
    world(const shape& s, host& there, bool print_notes)
        : shape_(s), host_(there), witness_(s, there.model),
          faults_(s, there, witness_, queue_name), random_(runtime::random_source(s.seed + 2)())
    {
        witness_.print_notes(print_notes);
        there.model.counts_nacks = s.counts_nacks();
    }

    task<world_result> run();

private:
    task<> first_life();
    task<> second_life();
    task<> feed();
    task<> beat();
    task<> until_quiet(service& s, const ran& r);
    task<> until_over(service& s, const ran& r, std::chrono::nanoseconds limit);
    void set_up(service& s);
    [[nodiscard]] bool quiet(service& s) const;
    [[nodiscard]] std::uint64_t lost_unsettled() const;
    void forgive(const report& r);
    void check_report(const ran& r, const witness::counts& before);
    void check_clean_end(const ran& r, std::uint64_t lost_before);

    task<outcome> handle(delivery& d);
    outcome handle_plainly(delivery& d);
    decision decide(delivery& d, std::chrono::nanoseconds& delay);
    static outcome told(decision what, std::chrono::nanoseconds delay);
    [[nodiscard]] bool poisoned(std::string_view body) const;
    [[nodiscard]] std::chrono::nanoseconds up_to(std::chrono::nanoseconds most);

    const shape& shape_;
    host& host_;
    witness witness_;
    faults faults_;
    runtime::random_source random_;
    world_result result_;
    std::uint64_t early_before_ = 0;
    bool fed_ = false;
};

std::chrono::nanoseconds world::up_to(std::chrono::nanoseconds most)
{
    return std::chrono::nanoseconds(random_.below(static_cast<std::uint64_t>(most.count()) + 1));
}

// ---- Handlers ------------------------------------------------------------------------------------

bool world::poisoned(std::string_view body) const
{
    runtime::random_source of_body(shape_.seed + std::hash<std::string_view>{}(body));
    return of_body.below(100) < shape_.handlers.poison;
}

decision world::decide(delivery& d, std::chrono::nanoseconds& delay)
{
    const auto& h = shape_.handlers;
    delay = {};
    const bool never = shape_.max_attempts && poisoned(d.text());
    if (!never && witness_.calls(std::string(d.text())) > h.patience)
        return decision::ack;
    auto dice = random_.below(100);
    const auto falls = [&dice](unsigned share) {
        if (dice < share)
            return true;
        dice -= share;
        return false;
    };
    if (!never && falls(h.drop))
        return decision::drop;
    if (falls(h.retry))
        return decision::retry;
    if (falls(h.retry_after)) {
        delay = up_to(h.delay_max);
        return decision::retry_after;
    }
    if (falls(h.fail))
        return decision::fail;
    return never ? decision::retry : decision::ack;
}

outcome world::told(decision what, std::chrono::nanoseconds delay)
{
    switch (what) {
    case decision::ack:
        return ack;
    case decision::drop:
        return drop;
    case decision::retry:
        return retry();
    case decision::retry_after:
        return retry_after(delay);
    case decision::fail:
        break;
    }
    throw std::runtime_error("simulated");
}

task<outcome> world::handle(delivery& d)
{
    struct call {
        witness& seen;
        std::uint64_t number;
        bool decided = false;
        ~call()
        {
            if (!decided)
                seen.give_up(number);
        }
    } running{witness_, witness_.begin(std::string(d.text()), d.tag(), d.attempt())};
    if (shape_.handlers.work_max.count() > 0 && random_.below(4) != 0)
        co_await runtime::sleep(up_to(shape_.handlers.work_max));
    std::chrono::nanoseconds delay{};
    const auto what = decide(d, delay);
    running.decided = true;
    witness_.end(running.number, what, delay);
    co_return told(what, delay);
}

outcome world::handle_plainly(delivery& d)
{
    const auto number = witness_.begin(std::string(d.text()), d.tag(), d.attempt());
    std::chrono::nanoseconds delay{};
    const auto what = decide(d, delay);
    witness_.end(number, what, delay);
    return told(what, delay);
}

// ---- A service and its messages ------------------------------------------------------------------

void world::set_up(service& s)
{
    s.declare_topology(true);
    s.start_deadline(1h);
    s.drain_deadline(shape_.drain_deadline);
    s.drain(shape_.policy);
    s.reconnect_backoff(backoff::exponential({.initial = 20ms, .factor = 2.0, .cap = 2s}));
    s.drain_timers(shape_.timers);
    const auto consume = [&](auto queue) -> auto& {
        queue.prefetch(shape_.prefetch);
        auto& added = shape_.plain
                          ? s.consume(queue, [this](delivery& d) { return handle_plainly(d); })
                          : s.consume(queue, [this](delivery& d) { return handle(d); });
        added.concurrency(shape_.concurrency)
            .on_error(shape_.on_error)
            .flush({.hold = shape_.hold})
            .delay(shape_.delay);
        if (shape_.pause)
            added.backoff(*shape_.pause);
        if (shape_.max_attempts)
            added.max_attempts(*shape_.max_attempts);
        if (shape_.dead_letter)
            added.dead_letter(dead_name);
        return added;
    };
    if (shape_.quorum)
        consume(quorum_queue(queue_name));
    else
        consume(classic_queue(queue_name)).copies(shape_.order);
}

task<> world::feed()
{
    for (std::size_t i = 0; i < shape_.messages; ++i) {
        if (shape_.feeding.count() > 0 && random_.below(3) == 0)
            co_await runtime::sleep(
                up_to(shape_.feeding * 6 / static_cast<std::int64_t>(shape_.messages)));
        std::string body = fmt::format("m{}:", i);
        body.append(random_.below(shape_.body_max + 1), 'x');
        witness_.expect(body);
        host_.model.put_body(queue_name, std::move(body));
    }
    fed_ = true;
}

/// Copies that are not answered yet, and delays.
std::uint64_t open_retries(service& s)
{
    const auto m = s[0].metrics().retries;
    return m.copies_open + m.held + m.timers_pending;
}

/// The heartbeats of a server.
task<> world::beat()
{
    static constexpr std::array<std::byte, 8> frame{std::byte{8}, {}, {}, {},
                                                    {},           {}, {}, std::byte{0xce}};
    for (;;) {
        co_await runtime::sleep(std::chrono::milliseconds(shape_.heartbeat_s * 500));
        for (std::size_t i = 0; i < host_.connects(); ++i) {
            auto& each = host_.at(i);
            if (!each.is_over() && each.session().is_open())
                each.raw(frame);
        }
    }
}

bool world::quiet(service& s) const
{
    return fed_ && witness_.in_handler() == 0 && host_.model.busy({dead_name}) == 0 &&
           witness_.nowhere() == 0 && open_retries(s) == 0;
}

task<> world::until_quiet(service& s, const ran& r)
{
    const auto limit = runtime::loop::current().now() + patience;
    co_await runtime::sleep(5s); // whatever broke last is noticed
    while (!quiet(s) && !r.over && runtime::loop::current().now() < limit)
        co_await runtime::sleep(50ms);
    if (!quiet(s) && !r.over)
        witness_.violation(
            fmt::format("it did not come to rest: {} messages left, {} in handlers, {} in no queue",
                        host_.model.busy({dead_name}), witness_.in_handler(), witness_.nowhere()));
}

task<> world::until_over(service& s, const ran& r, std::chrono::nanoseconds limit)
{
    const auto deadline = runtime::loop::current().now() + limit;
    while (!r.over && runtime::loop::current().now() < deadline)
        co_await runtime::sleep(20ms);
    if (!r.over)
        witness_.violation(fmt::format("the service has not ended {} after its stop", limit));
    else
        co_return;
    s.abort();
    for (int i = 0; i < 60 && !r.over; ++i)
        co_await runtime::sleep(1s);
    if (!r.over)
        throw std::runtime_error("the service does not even end by an abort");
}

std::uint64_t world::lost_unsettled() const
{
    std::uint64_t sum = 0;
    for (const auto& [name, q] : host_.model.queues())
        sum += q.lost_unsettled;
    return sum;
}

// ---- Two lives -----------------------------------------------------------------------------------

task<> world::first_life()
{
    service s(host_.client());
    set_up(s);
    ran r;
    std::uint64_t lost_before = 0;
    co_await runtime::with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(run_into(s, r));
        co_await runtime::with_scope([&](scope& trouble) -> task<> {
            trouble.spawn(feed());
            if (!shape_.calm())
                trouble.spawn(faults_.inject());
            if (shape_.end == ending::when_quiet)
                co_return; // joined: the faults end by themselves
            co_await runtime::sleep(shape_.end_after);
            witness_.stopping();
            s.stop();
            if (shape_.end == ending::aborted) {
                co_await runtime::sleep(up_to(200ms));
                witness_.note("abort");
                s.abort();
            }
            co_await until_over(
                s, r, shape_.end == ending::aborted ? grace : shape_.drain_deadline + grace);
            trouble.cancel();
        });
        if (shape_.end != ending::when_quiet)
            co_return;
        co_await until_quiet(s, r);
        lost_before = lost_unsettled();
        witness_.stopping();
        s.stop();
        co_await until_over(s, r, in_peace);
    });
    result_.failed_to_start = r.failure != nullptr;
    if (r.failure && faults_.total() == 0)
        witness_.violation("it failed without a cause: " + text_of(r.failure));
    check_report(r, {});
    if (shape_.end == ending::when_quiet && r.result)
        check_clean_end(r, lost_before);
    if (r.failure)
        witness_.forgive_lost(0); // it never consumed
    else if (r.result)
        forgive(*r.result);
    witness_.expect_nothing_lost(false);
    witness_.one_life_is_over();
}

/// What waits in a process alone dies with it, and the report says how much that is.
void world::forgive(const report& r)
{
    const auto& m = r.queues.at(0).metrics.retries;
    if (!r.cut_short) {
        witness_.forgive_lost(0);
        return;
    }
    const bool unconfirmed = shape_.order == settle::copies::unconfirmed;
    witness_.expect_late_arrivals(m.timers_lost + m.originals_left + m.copies_failed);
    witness_.forgive_lost(m.timers_lost + (unconfirmed ? m.copies_failed : 0));
}

task<> world::second_life()
{
    faults_.heal();
    if (!fed_)
        co_await feed(); // what was not published yet is new to the broker
    service s(host_.client());
    set_up(s);
    s.drain_deadline(30s);
    co_await runtime::sleep(5s); // what its predecessor said last has arrived
    const auto before = witness_.so_far();
    ran r;
    std::uint64_t lost_before = 0;
    co_await runtime::with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(run_into(s, r));
        co_await until_quiet(s, r);
        lost_before = lost_unsettled();
        witness_.stopping();
        s.stop();
        co_await until_over(s, r, in_peace);
    });
    if (!r.result) {
        witness_.violation("the successor failed: " + text_of(r.failure));
        co_return;
    }
    check_report(r, before);
    check_clean_end(r, lost_before);
    const auto& after = witness_.so_far();
    std::uint64_t settled = 0;
    for (std::size_t i = 0; i < std::size(after.settled); ++i)
        settled += after.settled[i] - before.settled[i];
    if (r.result->finished() + r.result->given_back() != settled)
        witness_.violation(fmt::format("the report knows of other settlements than the broker's "
                                       "{}: {}",
                                       settled, r.result->text()));
    if (r.result->unknown() != 0 || r.result->reconnects != 0)
        witness_.violation("in peace the fate of deliveries is unknown: " + r.result->text());
}

void world::check_report(const ran& r, const witness::counts& before)
{
    if (!r.result)
        return;
    const auto& m = r.result->queues.at(0).metrics;
    const auto& seen = witness_.so_far();
    const auto complain = [&](std::string_view what) {
        witness_.violation(fmt::format("the report is wrong ({}): {}", what, r.result->text()));
    };
    if (witness_.early() > m.retries.delays_dropped + early_before_)
        complain("delays were cut");
    early_before_ = witness_.early();
    if (m.received != m.acked + m.dropped + m.retried + m.given_back + m.dropped_unhandled +
                          m.abandoned + m.retries.hops)
        complain("it does not add up");
    if (m.in_handler != 0 || m.waiting != 0 || m.retries.copies_open != 0 || m.retries.held != 0 ||
        m.retries.timers_pending != 0)
        complain("something is still open");
    const auto decided = [&](decision d) {
        return seen.decided[static_cast<std::size_t>(d)] -
               before.decided[static_cast<std::size_t>(d)];
    };
    const bool drops = shape_.on_error == settle::on_failure::drop;
    if (m.acked != decided(decision::ack))
        complain("acked");
    if (m.dropped != decided(decision::drop) + (drops ? decided(decision::fail) : 0))
        complain("dropped");
    if (m.retried != decided(decision::retry) + decided(decision::retry_after) +
                         (drops ? 0 : decided(decision::fail)))
        complain("retried");
    if (m.failed != decided(decision::fail))
        complain("failed");
    result_.reconnects += r.result->reconnects;
    result_.reopened += m.reopened;
    result_.stale += m.stale;
    result_.copies_confirmed += m.retries.copies_confirmed;
    result_.copies_failed += m.retries.copies_failed;
    result_.hops += m.retries.hops;
    result_.timers_published += m.retries.timers_published;
    result_.timers_early += m.retries.timers_early;
    result_.timers_lost += m.retries.timers_lost;
    result_.delays_dropped += m.retries.delays_dropped;
    result_.cut_short = result_.cut_short || r.result->cut_short;
}

void world::check_clean_end(const ran& r, std::uint64_t lost_before)
{
    if (!r.result->clean())
        witness_.violation("a drain in peace was not clean: " + r.result->text());
    if (lost_unsettled() != lost_before)
        witness_.violation("deliveries were left unsettled by a drain in peace");
    const auto& q = host_.model[queue_name];
    if (q.unsettled != 0 || q.consumers != 0)
        witness_.violation(fmt::format("after the drain {} deliveries and {} consumers are left",
                                       q.unsettled, q.consumers));
}

task<world_result> world::run()
{
    co_await runtime::with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(beat());
        co_await first_life();
        co_await second_life();
        tasks.cancel();
    });
    witness_.expect_nothing_lost(true);
    result_.violations = witness_.violations();
    result_.seen = witness_.so_far();
    result_.injected = faults_.counts();
    result_.dead_lettered = host_.model[dead_name].ready.size();
    result_.lost_unsettled = lost_unsettled();
    co_return result_;
}

} // namespace

world_result run_world(const shape& s, bool print_notes)
{
    seed_entropy(s.seed);
    auto options = automatic(s.version.c_str());
    options.server.heartbeat_s = s.heartbeat_s;
    options.server.frame_size_max = s.frame_size_max;
    options.stream = {.capacity = s.capacity, .chunk_seed = s.chunk_seed, .delay = s.on_the_way};
    options.shuffle_seed = s.shuffle_seed;
    world_result result;
    try {
        virtually(
            [&](host& there) -> task<> {
                world w(s, there, print_notes);
                result = co_await w.run();
            },
            options);
    } catch (const std::exception& e) {
        result.violations.push_back(fmt::format("it ended by an exception: {}", e.what()));
    }
    return result;
}

} // namespace acquit::testing
