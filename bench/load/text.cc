#include "text.h"

#include <fmt/format.h>

namespace acquit::bench {

namespace {

constexpr const char* five_names = "min/median/75th/95th/99th";

const char* unit(bool milliseconds)
{
    return milliseconds ? "ms" : "µs";
}

std::string us(std::chrono::nanoseconds d)
{
    const double value = static_cast<double>(d.count()) / 1000;
    return value < 10 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

std::string percentiles(const histogram& h)
{
    return fmt::format("{}/{}/{}/{}/{} µs", us(h.percentile(50)), us(h.percentile(90)),
                       us(h.percentile(99)), us(h.percentile(99.9)), us(h.max()));
}

std::string watched_text(const result& r, const watched& w)
{
    auto out =
        fmt::format("id: {}, connection {}{}{}, channel {}, {}: {} deliveries, {} settled in {} "
                    "frames",
                    r.id, w.connection, w.client.empty() ? "" : ", ", w.client, w.channel,
                    w.prefetch == 0 ? std::string("no prefetch") : fmt::format("N={}", w.prefetch),
                    w.deliveries, w.settled, w.frames);
    if (w.frames != 0)
        out += fmt::format(", {:.2f} per frame",
                           static_cast<double>(w.settled) / static_cast<double>(w.frames));
    if (w.latency && w.latency->count() != 0)
        out += fmt::format(", settlement latency median/90th/99th/99.9th/max {}",
                           percentiles(*w.latency));
    return out + "\n";
}

std::string settling_text(const result& r, const settling& s)
{
    const auto id = r.id;
    const auto prefetch = s.prefetch == 0 ? std::string("unlimited prefetch")
                                          : fmt::format("prefetch N={}", s.prefetch);
    std::string out =
        fmt::format("id: {}, settled: {} in {} frames, {:.2f} messages per frame ({})\n", id,
                    s.settled, s.frames, s.messages_per_frame(), prefetch);
    if (s.latency.count() != 0)
        out += fmt::format("id: {}, settlement latency ({}) median/90th/99th/99.9th/max {}, {} "
                           "measured\n",
                           id, prefetch, percentiles(s.latency), s.latency.count());
    if (s.hold.count() != 0)
        out += fmt::format("id: {}, hold time ({}) median/90th/99th/99.9th/max {}\n", id, prefetch,
                           percentiles(s.hold));
    return out;
}

} // namespace

std::string rate_text(double per_second)
{
    if (per_second == 0)
        return "0";
    return per_second < 1 ? fmt::format("{:.2f}", per_second) : fmt::format("{:.0f}", per_second);
}

std::string five_text(const five& values, bool milliseconds)
{
    std::string out;
    for (const auto& each : values)
        out += (out.empty() ? "" : "/") +
               std::to_string(each.count() / (milliseconds ? 1'000'000 : 1000));
    return out;
}

std::string look_text(const result& r)
{
    if (r.empty_looks * 10 <= r.looks || r.main_settlement() == nullptr)
        return {};
    return fmt::format("the queues were empty at {} of {} looks: settlement latency holds the wait "
                       "for messages there",
                       r.empty_looks, r.looks);
}

std::string line_of(const result& about, const sample& s, const std::string& progress,
                    bool with_settlement)
{
    auto line = fmt::format("id: {}, time {:.3f} s", about.id, s.at);
    const auto rate = [&](const char* name, std::uint64_t count) {
        line += fmt::format(", {}: {} msg/s", name, rate_text(s.per_second(count)));
    };
    if (about.publishes) {
        rate("sent", s.done.sent);
        if (s.done.returned != 0)
            rate("returned", s.done.returned);
    }
    if (about.confirms) {
        rate("confirmed", s.done.confirmed);
        rate("nacked", s.done.nacked);
    }
    if (about.consumes)
        rate("received", s.done.received);
    const auto latency = [&](const char* name, bool have, const five& values) {
        if (have)
            line += fmt::format(", {} {}: {} {}", five_names, name,
                                five_text(values, about.milliseconds), unit(about.milliseconds));
    };
    latency("consumer latency", s.has_consumer_latency, s.consumer_latency);
    latency("confirm latency", s.has_confirm_latency, s.confirm_latency);
    // Never in milliseconds: it is measured on one machine.
    if (with_settlement && s.has_settlement_latency)
        line += fmt::format(", {} settlement latency: {} µs", five_names,
                            five_text(s.settlement_latency, false));
    if (s.warm_up)
        line += ", warming up";
    if (!progress.empty())
        line += ", " + progress;
    return line;
}

std::string summary_of(const result& r)
{
    std::string out;
    const auto line = [&](const std::string& text) {
        out += fmt::format("id: {}, {}\n", r.id, text);
    };
    if (r.publishes)
        line(fmt::format("sending rate avg: {} msg/s", rate_text(r.per_second(r.totals.sent))));
    if (r.consumes)
        line(fmt::format("receiving rate avg: {} msg/s",
                         rate_text(r.per_second(r.totals.received))));
    const auto latency = [&](const char* name, const histogram& h) {
        if (h.count() != 0)
            line(fmt::format("{} {} {} {}", name, five_names, five_text(five_of(h), r.milliseconds),
                             unit(r.milliseconds)));
    };
    latency("consumer latency", r.consumer_latency);
    latency("confirm latency", r.confirm_latency);

    if (r.totals.returned != 0 || r.totals.nacked != 0)
        line(fmt::format("not taken by the broker: {} returned, {} nacked", r.totals.returned,
                         r.totals.nacked));
    if (r.totals.dropped != 0 || r.totals.retried != 0 || r.totals.delayed != 0)
        line(fmt::format("outcomes: {} acked, {} dropped, {} retried, {} retried later",
                         r.totals.acked, r.totals.dropped, r.totals.retried, r.totals.delayed));
    for (const auto& each : r.channels)
        out += watched_text(r, each);
    for (const auto& each : r.settlements)
        if (each.settled != 0)
            out += settling_text(r, each);
    if (r.messages() != 0)
        line(fmt::format("CPU of this process: {:.2f} µs per message{}", r.cpu_us_per_message(),
                         r.proxy                     ? ", watching"
                         : r.publishes && r.consumes ? ", publishing and consuming together"
                                                     : ""));
    if (const auto said = look_text(r); !said.empty())
        line(said);
    for (const auto& each : r.remarks)
        line(each);
    return out + r.verdict;
}

} // namespace acquit::bench
