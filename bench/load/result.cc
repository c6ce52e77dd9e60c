#include "result.h"

#include <algorithm>
#include <map>

namespace acquit::bench {

namespace {

/// The values that came to `h` after it was `before`, by bucket. Their largest is that of `h` when it
/// is new; else the middle of its bucket.
histogram difference(const histogram& h, const histogram& before)
{
    std::map<std::int64_t, std::uint64_t> old;
    before.for_each_bucket([&](auto lower, auto, std::uint64_t n) { old[lower.count()] = n; });
    histogram out;
    h.for_each_bucket([&](auto lower, auto upper, std::uint64_t n) {
        const auto more = n - std::min(old[lower.count()], n);
        if (more == 0)
            return;
        // The largest of all lies in the last bucket; it is one of these where it is new.
        const bool holds_max = h.max() > before.max() && lower <= h.max() && h.max() < upper;
        out.record(std::min(lower + (upper - lower) / 2, h.max()), more - (holds_max ? 1 : 0));
        if (holds_max)
            out.record(h.max());
    });
    return out;
}

five weighted(const five& a, double seconds_a, const five& b, double seconds_b)
{
    five out{};
    const double all = seconds_a + seconds_b;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const double mean = (static_cast<double>(a[i].count()) * seconds_a +
                             static_cast<double>(b[i].count()) * seconds_b) /
                            (all > 0 ? all : 1);
        out[i] = std::chrono::nanoseconds(static_cast<std::int64_t>(mean));
    }
    return out;
}

void merge(five& mine, bool& have, double seconds, const five& other, bool others, double more)
{
    if (have && others)
        mine = weighted(mine, seconds, other, more);
    else if (others)
        mine = other;
    have = have || others;
}

sample merged(const sample& a, const sample& b)
{
    sample out = a;
    out.at = b.at;
    out.done.add(b.done);
    out.settled += b.settled;
    out.frames += b.frames;
    out.cpu_seconds += b.cpu_seconds;
    out.warm_up = a.warm_up && b.warm_up;
    merge(out.consumer_latency, out.has_consumer_latency, a.seconds, b.consumer_latency,
          b.has_consumer_latency, b.seconds);
    merge(out.confirm_latency, out.has_confirm_latency, a.seconds, b.confirm_latency,
          b.has_confirm_latency, b.seconds);
    merge(out.settlement_latency, out.has_settlement_latency, a.seconds, b.settlement_latency,
          b.has_settlement_latency, b.seconds);
    out.seconds += b.seconds;
    return out;
}

} // namespace

void counts::add(const counts& other) noexcept
{
    sent += other.sent;
    confirmed += other.confirmed;
    nacked += other.nacked;
    returned += other.returned;
    received += other.received;
    acked += other.acked;
    dropped += other.dropped;
    retried += other.retried;
    delayed += other.delayed;
}

void settling::add(const settling& other) noexcept
{
    settled += other.settled;
    frames += other.frames;
    latency.merge(other.latency);
    hold.merge(other.hold);
}

settling settling::since(const settling& before) const
{
    return {.prefetch = prefetch,
            .settled = settled - before.settled,
            .frames = frames - before.frames,
            .latency = difference(latency, before.latency),
            .hold = difference(hold, before.hold)};
}

five five_of(const histogram& h) noexcept
{
    return {h.percentile(0), h.percentile(50), h.percentile(75), h.percentile(95),
            h.percentile(99)};
}

double result::cpu_us_per_message() const noexcept
{
    return messages() == 0 ? 0 : cpu_seconds * 1e6 / static_cast<double>(messages());
}

const settling* result::main_settlement() const noexcept
{
    const settling* most = nullptr;
    for (const auto& each : settlements)
        if (each.latency.count() != 0 &&
            (most == nullptr || each.latency.count() > most->latency.count()))
            most = &each;
    return most;
}

void keep(std::vector<sample>& samples, const sample& next)
{
    // What is left over at an end is too short for rates of its own.
    if (!samples.empty() && next.seconds < 0.2 * samples.back().seconds &&
        next.warm_up == samples.back().warm_up) {
        samples.back() = merged(samples.back(), next);
        return;
    }
    samples.push_back(next);
    if (samples.size() < samples_max)
        return;
    std::vector<sample> half;
    half.reserve(samples_max / 2);
    for (std::size_t i = 0; i + 1 < samples.size(); i += 2)
        half.push_back(merged(samples[i], samples[i + 1]));
    samples = std::move(half);
}

} // namespace acquit::bench
