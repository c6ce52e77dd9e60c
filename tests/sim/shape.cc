#include "shape.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace acquit::testing {

namespace {

using namespace std::chrono_literals;
using runtime::random_source;

bool chance(random_source& random, unsigned percent)
{
    return random.below(100) < percent;
}

/// 1 to `most`, small ones as likely as large ones.
std::uint64_t skewed(random_source& random, std::uint64_t most)
{
    return 1 + random.below(1 + random.below(most));
}

std::chrono::nanoseconds up_to(random_source& random, std::chrono::nanoseconds most)
{
    return std::chrono::nanoseconds(random.below(static_cast<std::uint64_t>(most.count()) + 1));
}

template <class T, std::size_t N>
T one_of(random_source& random, const T (&choices)[N])
{
    return choices[random.below(N)];
}

settle::delay waiting_queues(random_source& random)
{
    using settle::delay;
    auto d = chance(random, 50) ? delay::dlx_ttl() : delay::buckets({20ms, 100ms, 700ms, 3s});
    if (chance(random, 40))
        d = d.waiting_in(settle::queue_kind::classic);
    return d;
}

settle::delay delay_of(random_source& random, const shape& s)
{
    using settle::delay;
    switch (random.below(5)) {
    case 0:
        return delay::none();
    case 1:
    case 2:
        return waiting_queues(random);
    case 3:
        if (s.prefetch > 1) {
            const auto d =
                delay::hold(static_cast<std::uint32_t>(random.between(1, s.prefetch - 1U)));
            return chance(random, 50) ? d.overflow_to(waiting_queues(random)) : d;
        }
        return delay::none();
    default:
        return s.version.starts_with("4.3") ? delay::none() : delay::plugin_dme();
    }
}

void choose_retries(random_source& random, shape& s)
{
    using settle::backoff;
    if (chance(random, 60)) {
        s.max_attempts = static_cast<std::uint32_t>(random.between(1, 5));
        s.dead_letter = s.quorum || chance(random, 80);
    }
    s.delay = delay_of(random, s);
    const bool may_pause = !s.quorum || s.delay.kind() != settle::delay::mode::none;
    if (may_pause && chance(random, 25))
        s.pause = chance(random, 50)
                      ? backoff::fixed(50ms)
                      : backoff::exponential({.initial = 10ms, .factor = 3.0, .cap = 2s});
    if (!s.quorum && chance(random, 15))
        s.order = settle::copies::unconfirmed;
    if (chance(random, 30))
        s.timers = settle::timers_at_drain::publish_now;
}

behaviour handlers_of(random_source& random, bool plain, bool limited)
{
    behaviour b;
    if (chance(random, 70)) {
        b.drop = chance(random, 50) ? 10 : 0;
        b.retry = chance(random, 60) ? 25 : 0;
        b.retry_after = chance(random, 50) ? 25 : 0;
        b.fail = chance(random, 40) ? 10 : 0;
    }
    if (limited)
        b.poison = one_of(random, {0U, 10U, 40U});
    b.patience = static_cast<unsigned>(random.between(1, 6));
    if (!plain && chance(random, 80))
        b.work_max = one_of<std::chrono::nanoseconds>(random, {100us, 2ms, 30ms, 1s});
    b.delay_max = one_of<std::chrono::nanoseconds>(random, {1ms, 300ms, 5s});
    return b;
}

} // namespace

shape shape_of(std::uint64_t seed)
{
    random_source random{random_source(seed)()}; // neighbours share nothing
    shape s;
    s.seed = seed;

    s.quorum = chance(random, 50);
    s.prefetch = static_cast<std::uint16_t>(skewed(random, 64));
    s.concurrency = static_cast<std::uint32_t>(random.between(1, s.prefetch));
    s.plain = chance(random, 20);
    s.version = one_of<const char*>(random, {"3.10.8", "4.0.5", "4.3.6"});
    choose_retries(random, s);
    if (chance(random, 15))
        s.on_error = settle::on_failure::drop;
    if (chance(random, 40))
        s.policy = settle::drain_policy::give_back;
    s.hold = one_of<std::chrono::nanoseconds>(random, {0ns, 100us, 100us, 20ms});
    s.handlers = handlers_of(random, s.plain, s.max_attempts.has_value());

    s.heartbeat_s = one_of<std::uint16_t>(random, {60, 10, 2});
    s.frame_size_max = chance(random, 50) ? 131072 : 8192;
    s.capacity = chance(random, 70) ? 65536 : 64 + random.below(4000);
    s.chunk_seed = chance(random, 60) ? random() : 0;
    s.shuffle_seed = chance(random, 50) ? random() : 0;
    s.on_the_way = chance(random, 50) ? 0ns : up_to(random, 5ms);

    s.messages = skewed(random, 120);
    s.body_max = chance(random, 90) ? 20 : 20000;
    s.feeding = chance(random, 50) ? 0ns : up_to(random, 10s);
    if (chance(random, 85)) {
        s.trouble = 200ms + up_to(random, 20s);
        s.between_faults = one_of<std::chrono::nanoseconds>(random, {5ms, 100ms, 1s, 5s});
        s.copy_trouble = one_of(random, {0U, 10U, 50U});
    }
    if (chance(random, 40)) {
        s.end = chance(random, 70) ? ending::whenever : ending::aborted;
        s.end_after = up_to(random, chance(random, 50) ? 500ms : 15s);
    }
    // A drain in peace gets the time it needs; one among faults may be cut short.
    s.drain_deadline = s.end == ending::when_quiet || chance(random, 60) ? 30s : up_to(random, 3s);
    return s;
}

bool shape::keeps_in_process() const noexcept
{
    if (quorum)
        return false;
    return order == settle::copies::unconfirmed || delay.kind() == settle::delay::mode::none;
}

bool shape::counts_exactly() const noexcept
{
    // A quorum queue counts each copy from zero: who mixes returns and copies gets a few more.
    return max_attempts && (!quorum || !delay.copies());
}

std::string describe(const shape& s)
{
    const auto limit = s.max_attempts ? fmt::format("{} attempts{}", *s.max_attempts,
                                                    s.dead_letter ? ", then dead" : "")
                                      : std::string("no limit");
    std::string retries(settle::name(s.delay.kind()));
    if (s.delay.kind() == settle::delay::mode::hold)
        retries += fmt::format("({})", s.delay.budget());
    if (s.delay.overflow() != nullptr)
        retries += fmt::format(" then {}", settle::name(s.delay.overflow()->kind()));
    if (s.pause)
        retries += fmt::format(", pause up to {}", s.pause->ceiling(9));
    if (s.order == settle::copies::unconfirmed)
        retries += ", copies unconfirmed";
    if (s.timers == settle::timers_at_drain::publish_now)
        retries += ", timers published at the drain";
    const auto& h = s.handlers;
    return fmt::format(
        "{} queue of {}, prefetch {}, {} x {}, {}, delay {}, flush after {}; of 100 handlers "
        "{} drop, {} retry, {} "
        "retry after up to {}, {} fail, {} are poisoned, work {}, patience {}; {} "
        "messages of up to {} bytes in "
        "{}; chunks {:x}, shuffle {:x}, capacity {}, delay {}, heartbeat {} s, "
        "frames of {}; trouble for {} "
        "each {}; ends {} after {}, drain {} within {}",
        s.quorum ? "quorum" : "classic", s.version, s.prefetch, s.concurrency,
        s.plain ? "plain" : "coroutine", limit, retries, s.hold, h.drop, h.retry, h.retry_after,
        h.delay_max, h.fail, h.poison, h.work_max, h.patience, s.messages, s.body_max, s.feeding,
        s.chunk_seed, s.shuffle_seed, s.capacity, s.on_the_way, s.heartbeat_s, s.frame_size_max,
        s.trouble, s.between_faults,
        s.end == ending::when_quiet ? "when quiet"
        : s.end == ending::whenever ? "by stop"
                                    : "by abort",
        s.end_after, s.policy == settle::drain_policy::give_back ? "gives back" : "finishes",
        s.drain_deadline);
}

} // namespace acquit::testing
