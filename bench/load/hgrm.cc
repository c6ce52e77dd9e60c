#include "hgrm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace acquit::bench {

namespace {

double us(std::chrono::nanoseconds d)
{
    return static_cast<double>(d.count()) / 1000;
}

/// The histogram's buckets, one after the other, with how many values lie in them and below.
struct place {
    std::chrono::nanoseconds value;
    std::uint64_t passed;
};

std::vector<place> places_of(const histogram& h)
{
    std::vector<place> places;
    std::uint64_t passed = 0;
    h.for_each_bucket([&](auto lower, auto upper, std::uint64_t n) {
        passed += n;
        places.push_back({std::min(lower + (upper - lower) / 2, h.max()), passed});
    });
    if (!places.empty())
        places.back().value = h.max();
    return places;
}

double deviation(const histogram& h, const std::vector<place>& places)
{
    double sum = 0;
    std::uint64_t before = 0;
    for (const auto& each : places) {
        const double off = us(each.value) - us(h.mean());
        sum += off * off * static_cast<double>(each.passed - before);
        before = each.passed;
    }
    return h.count() == 0 ? 0 : std::sqrt(sum / static_cast<double>(h.count()));
}

} // namespace

std::string hgrm_of(const histogram& h, std::string_view about)
{
    constexpr double ticks_per_half = 5;
    const auto places = places_of(h);
    const auto total = static_cast<double>(h.count());
    std::string out = fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile",
                                  "TotalCount", "1/(1-Percentile)");
    double level = 0; // per cent
    std::size_t at = 0;
    while (at < places.size()) {
        while (at + 1 < places.size() &&
               static_cast<double>(places[at].passed) * 100 < level * total)
            ++at;
        const bool last = at + 1 == places.size();
        const double share = last ? 1 : level / 100;
        out +=
            fmt::format("{:12.3f} {:2.12f} {:10}", us(places[at].value), share, places[at].passed);
        if (last) {
            out += '\n';
            break;
        }
        out += fmt::format(" {:14.2f}\n", 1 / (1 - share));
        // Half of what is left has so many ticks; then half of the rest has as many again.
        const double halvings = std::floor(std::log2(100 / (100 - level))) + 1;
        level += 100 / (ticks_per_half * std::exp2(halvings));
    }
    out += fmt::format("#[Mean    = {:12.3f}, StdDeviation   = {:12.3f}]\n", us(h.mean()),
                       deviation(h, places));
    out += fmt::format("#[Max     = {:12.3f}, Total count    = {:12}]\n", us(h.max()), h.count());
    out += fmt::format("#[Buckets = {:12}, SubBuckets     = {:12}]\n", 36, 64);
    return out + fmt::format("#[{}]\n", about);
}

std::string hgrm_of(const result& r)
{
    if (const auto* const s = r.main_settlement())
        return hgrm_of(s->latency, fmt::format("settlement latency in microseconds, prefetch {}, "
                                               "settled {}, {}",
                                               s->prefetch, r.settle, r.id));
    return hgrm_of(r.consumer_latency, fmt::format("consumer latency in microseconds, {}", r.id));
}

} // namespace acquit::bench
