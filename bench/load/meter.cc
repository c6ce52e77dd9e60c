#include "meter.h"

#include <algorithm>

#include <sys/resource.h>

namespace acquit::bench {

namespace {

double seconds(runtime::duration d) noexcept
{
    return std::chrono::duration<double>(d).count();
}

const settling* with_prefetch(const std::vector<settling>& all, std::uint32_t prefetch) noexcept
{
    const auto found = std::ranges::find(all, prefetch, &settling::prefetch);
    return found == all.end() ? nullptr : &*found;
}

std::vector<settling> difference(const std::vector<settling>& after,
                                 const std::vector<settling>& before)
{
    std::vector<settling> out;
    for (const auto& each : after) {
        const auto* const old = with_prefetch(before, each.prefetch);
        out.push_back(old == nullptr ? each : each.since(*old));
    }
    return out;
}

} // namespace

double cpu_seconds() noexcept
{
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

meter::meter(runtime::time_point began)
{
    begin(began);
}

void meter::begin(runtime::time_point at) noexcept
{
    began_ = last_ = measured_from_ = measured_to_ = at;
    cpu_last_ = cpu_measured_from_ = cpu_measured_to_ = bench::cpu_seconds();
}

const sample& meter::tick(runtime::time_point at, const std::vector<settling>& settlements,
                          stage what)
{
    const double cpu = cpu_seconds();
    sample s{.at = seconds(at - began_),
             .seconds = seconds(at - last_),
             .warm_up = what == stage::warm_up,
             .done = now,
             .cpu_seconds = cpu - cpu_last_};
    histogram latency;
    for (const auto& each : difference(settlements, settlements_)) {
        s.settled += each.settled;
        s.frames += each.frames;
        latency.merge(each.latency);
    }
    if ((s.has_settlement_latency = latency.count() != 0))
        s.settlement_latency = five_of(latency);
    if ((s.has_consumer_latency = consumer_latency.count() != 0))
        s.consumer_latency = five_of(consumer_latency);
    if ((s.has_confirm_latency = confirm_latency.count() != 0))
        s.confirm_latency = five_of(confirm_latency);

    all_.add(now);
    if (what == stage::warm_up) {
        measured_from_ = at;
        cpu_measured_from_ = cpu;
        before_measuring_ = settlements;
    }
    if (what == stage::warm_up || what == stage::measured) {
        measured_to_ = at;
        cpu_measured_to_ = cpu;
    }
    if (what == stage::measured || what == stage::rest) {
        totals_.add(now);
        consumer_total_.merge(consumer_latency);
        confirm_total_.merge(confirm_latency);
        measured_ = settlements;
    }
    now = {};
    consumer_latency.reset();
    confirm_latency.reset();
    settlements_ = settlements;
    last_ = at;
    cpu_last_ = cpu;
    latest_ = s;
    if (what == stage::warm_up || what == stage::measured)
        keep(samples_, s);
    return latest_;
}

void meter::fill(result& r) const
{
    r.seconds = seconds(measured_to_ - measured_from_);
    r.warm_up = seconds(measured_from_ - began_);
    r.totals = totals_;
    r.cpu_seconds = cpu_measured_to_ - cpu_measured_from_;
    r.consumer_latency = consumer_total_;
    r.confirm_latency = confirm_total_;
    r.settlements = difference(measured_, before_measuring_);
    r.samples = samples_;
}

} // namespace acquit::bench
