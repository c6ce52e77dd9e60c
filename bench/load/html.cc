#include "html.h"

#include "svg.h"
#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace acquit::bench {

namespace {

constexpr const char* style = R"css(
:root{color-scheme:light dark;--page:#fff;--text:#1b2027;--soft:#59636e;--rule:#dde2e8;--grid:#e6e9ee;
--base:#9aa4af;--card:#f5f7f9;--shade:#eef0f3;--s1:#1f62c4;--s2:#b8510a;--s3:#0b7a6b;--s4:#8036b8;--bad:#b3261e;--good:#17703c}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--text:#e5e9ee;--soft:#a1abb6;--rule:#2e353d;--grid:#262c33;
--base:#6d7782;--card:#1c2127;--shade:#1e242b;--s1:#74a9ff;--s2:#ff9f5a;--s3:#4fd0bd;--s4:#cb9cff;--bad:#ff8a80;--good:#6fd695}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:820px;padding:24px 16px 40px;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1{font-size:24px;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:18px;line-height:1.3;margin:36px 0 2px}
p{margin:4px 0 8px}
.soft,.legend,figcaption{color:var(--soft);font-size:14px}
code{font:13px/1.5 ui-monospace,"DejaVu Sans Mono",Consolas,monospace;overflow-wrap:anywhere}
.command{background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:8px 12px;margin:12px 0 20px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:8px}
.tile{background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:10px 12px}
.tile b{display:block;font-size:22px;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px;line-height:1.35;display:block}
.verdict{border-left:4px solid var(--good);padding:2px 12px;margin:16px 0}
.verdict.bad{border-color:var(--bad)}
.remark{border-left:4px solid var(--s2);padding:2px 12px;margin:12px 0}
figure{margin:4px 0 0}
svg{width:100%;height:auto;display:block}
svg text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;fill:var(--soft);font-variant-numeric:tabular-nums}
svg .title{fill:var(--text)}
.grid{stroke:var(--grid);fill:none}.base{stroke:var(--base);fill:none}.shade{fill:var(--shade)}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.column{fill:var(--s1)}
.hint{fill:transparent}.hint:hover{fill:var(--text);fill-opacity:.08}
.legend{display:flex;flex-wrap:wrap;gap:2px 18px;margin:4px 0}
.legend i{display:inline-block;width:18px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
.narrow{display:none}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:5px 0 5px 10px;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0}
th{font-weight:600;color:var(--soft)}
td.name{white-space:normal;overflow-wrap:anywhere;min-width:90px}
th{white-space:normal;vertical-align:bottom}
@media screen and (max-width:600px){.wide{display:none}.narrow{display:block}body{padding-top:16px}.tile b{font-size:19px}
.tiles{grid-template-columns:1fr 1fr}table{font-size:13px}th,td{padding-left:6px}}
@media print{:root{color-scheme:light;--page:#fff;--text:#000;--soft:#444;--rule:#ccc;--grid:#ddd;--base:#888;--card:#fff;
--shade:#eee;--s1:#1f62c4;--s2:#b8510a;--s3:#0b7a6b;--s4:#8036b8;--bad:#b3261e;--good:#17703c}
body{max-width:none;padding:0;font-size:11pt}h2{margin-top:18pt;break-after:avoid}figure,.tile,tr,section{break-inside:avoid}
svg{width:82%}.hint{display:none}*{-webkit-print-color-adjust:exact;print-color-adjust:exact}@page{margin:14mm}}
)css";

double us(std::chrono::nanoseconds d)
{
    return static_cast<double>(d.count()) / 1000;
}

struct named {
    std::string name;
    int colour;
    const histogram* values;
};

/// What there is to show, settlement first.
std::vector<named> latencies(const result& r)
{
    std::vector<named> all;
    const auto add = [&](std::string name, int colour, const histogram& h) {
        if (h.count() != 0)
            all.push_back({std::move(name), colour, &h});
    };
    if (const auto* const s = r.main_settlement()) {
        add(fmt::format("settlement latency (N = {})", s->prefetch), 1, s->latency);
        add("hold time", 3, s->hold);
    }
    add("consumer latency", 2, r.consumer_latency);
    add("confirm latency", 4, r.confirm_latency);
    return all;
}

std::string tile(const std::string& value, const std::string& name)
{
    return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escaped(value),
                       escaped(name));
}

std::string tiles(const result& r)
{
    std::string out = "<div class=\"tiles\">\n";
    if (r.consumes)
        out += tile(number_text(r.per_second(r.totals.received)) + "/s", "messages received");
    if (r.publishes)
        out += tile(number_text(r.per_second(r.totals.sent)) + "/s", "messages sent");
    const auto* const s = r.main_settlement();
    if (s != nullptr) {
        const auto n = fmt::format("settlement latency, N = {}", s->prefetch);
        out += tile(duration_text(us(s->latency.percentile(50))), n + ", median");
        out += tile(duration_text(us(s->latency.percentile(99))), n + ", 99th percentile");
    } else if (r.consumer_latency.count() != 0) {
        out +=
            tile(duration_text(us(r.consumer_latency.percentile(50))), "consumer latency, median");
    }
    std::uint64_t settled = 0;
    std::uint64_t frames = 0;
    for (const auto& each : r.settlements) {
        settled += each.settled;
        frames += each.frames;
    }
    if (frames != 0)
        out += tile(number_text(static_cast<double>(settled) / static_cast<double>(frames)),
                    "messages per settlement frame" +
                        (r.settle.empty() ? std::string() : ", settled " + r.settle));
    out += tile(fmt::format("{} µs", number_text(r.cpu_us_per_message())),
                r.proxy                     ? "CPU of the proxy per message, user + system"
                : r.publishes && r.consumes ? "CPU per message, published and consumed"
                                            : "client CPU per message, user + system");
    return out + "</div>\n";
}

std::string section(const char* heading, const char* caption, const chart& c)
{
    return fmt::format("<section><h2>{}</h2><figure>{}<figcaption>{}</figcaption></figure>"
                       "</section>\n",
                       heading, c.html(), caption);
}

double end_of(const result& r)
{
    return r.samples.empty() ? 1 : r.samples.back().at;
}

double warm_up_of(const result& r)
{
    double end = 0;
    for (const auto& s : r.samples)
        if (s.warm_up)
            end = s.at;
    return end;
}

/// A chart over time: `value` gives a sample's number for each line, below 0 where it has none.
template <class Value>
chart over_time(const result& r, std::vector<series> lines, const std::string& unit, Value value)
{
    double most = 0;
    std::vector<hint> hints;
    for (const auto& s : r.samples) {
        auto text = fmt::format("{:.1f} s", s.at);
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const double v = value(s, i);
            if (v < 0)
                continue;
            most = std::max(most, v);
            lines[i].points.emplace_back(s.at - s.seconds / 2, v);
            text += fmt::format("\n{}: {} {}", lines[i].name, number_text(v), unit);
        }
        hints.push_back({s.at - s.seconds, s.at, std::move(text)});
    }
    constexpr std::size_t hints_max = 400;
    if (hints.size() > hints_max)
        hints.clear();
    chart c{.x = axis::seconds(end_of(r)),
            .y = axis::linear(unit, most),
            .lines = std::move(lines),
            .shaded_to = warm_up_of(r),
            .hints = std::move(hints),
            .description = {}};
    return c;
}

std::string rates(const result& r)
{
    std::vector<series> lines;
    std::vector<std::uint64_t counts::*> members;
    const auto add = [&](bool have, const char* name, int colour, std::uint64_t counts::* member) {
        if (!have)
            return;
        lines.push_back({.name = name, .colour = colour});
        members.push_back(member);
    };
    add(r.consumes, "received", 1, &counts::received);
    add(r.publishes, "sent", 2, &counts::sent);
    add(r.confirms, "confirmed", 4, &counts::confirmed);
    if (r.samples.empty() || lines.empty())
        return {};
    auto c = over_time(r, std::move(lines), "messages/s", [&](const sample& s, std::size_t i) {
        return s.per_second(s.done.*members[i]);
    });
    c.description = "Messages per second over time";
    return section("Rates",
                   r.warm_up > 0 ? "Shaded: the warm-up, which counts in no other figure." : "", c);
}

std::string by_percentile(const result& r)
{
    const auto all = latencies(r);
    if (all.empty())
        return {};
    double least = 1e12;
    double most = 0;
    double count = 0;
    chart c{.x = {}, .y = {}, .description = "Latency by percentile"};
    for (const auto& each : all) {
        const auto& h = *each.values;
        count = std::max(count, static_cast<double>(h.count()));
        series line{.name = each.name, .colour = each.colour};
        const double last_nine = std::clamp(std::log10(static_cast<double>(h.count())), 1.0, 6.0);
        for (double n = 0; n < last_nine; n += 0.04) {
            const double percent = 100 * (1 - std::pow(10, -n));
            line.points.emplace_back(percent, us(h.percentile(percent)));
        }
        line.points.emplace_back(100 * (1 - std::pow(10, -last_nine)), us(h.max()));
        least = std::min(least, std::max(line.points.front().second, 0.1));
        most = std::max(most, us(h.max()));
        c.lines.push_back(std::move(line));
    }
    c.x = axis::percentiles(count);
    c.y = axis::microseconds("latency", least, most);
    return section("Latency by percentile", "Each line ends at its maximum.", c);
}

std::string distribution(const result& r)
{
    const auto all = latencies(r);
    if (all.empty())
        return {};
    const auto& h = *all.front().values;
    // Twelve columns per decade, by the middle of each bucket.
    constexpr double per_decade = 12;
    std::vector<std::pair<int, std::uint64_t>> columns;
    h.for_each_bucket([&](auto lower, auto upper, std::uint64_t n) {
        const double middle = std::max((us(lower) + us(upper)) / 2, 0.01);
        const int at = static_cast<int>(std::floor(std::log10(middle) * per_decade));
        if (columns.empty() || columns.back().first != at)
            columns.emplace_back(at, 0);
        columns.back().second += n;
    });
    const auto edge = [](int at) { return std::pow(10, at / per_decade); };
    chart c{.x = axis::microseconds(all.front().name, edge(columns.front().first),
                                    edge(columns.back().first + 1)),
            .y = {},
            .description = "Distribution of the " + all.front().name};
    double most = 0;
    for (const auto& [at, n] : columns) {
        const double share = 100 * static_cast<double>(n) / static_cast<double>(h.count());
        most = std::max(most, share);
        c.columns.push_back({edge(at), edge(at + 1), share});
        c.hints.push_back({edge(at), edge(at + 1),
                           fmt::format("{} to {}: {:.2f} %, {} values", duration_text(edge(at)),
                                       duration_text(edge(at + 1)), share, n)});
    }
    c.y = axis::linear("share of all, %", most);
    return section(
        r.main_settlement() != nullptr ? "Settlement latency" : "Latency",
        r.main_settlement() != nullptr
            ? "From handing over the settlement that frees a slot of the prefetch window "
              "to the arrival of the delivery that the slot allows. Figures of different N "
              "do not compare."
            : "",
        c);
}

std::string settlement_over_time(const result& r)
{
    if (r.main_settlement() == nullptr || r.samples.size() < 3)
        return {};
    static constexpr std::size_t points[] = {4, 3, 1}; // of a five
    auto c = over_time(r,
                       {{.name = "99th percentile", .colour = 2},
                        {.name = "95th percentile", .colour = 4},
                        {.name = "median", .colour = 1}},
                       "ms", [](const sample& s, std::size_t i) {
                           return s.has_settlement_latency
                                      ? us(s.settlement_latency[points[i]]) / 1000
                                      : -1;
                       });
    c.description = "Settlement latency over time";
    return section("Settlement latency over time", "", c);
}

std::string frames_over_time(const result& r)
{
    if (r.settle.empty() || r.samples.empty())
        return {};
    auto c = over_time(r, {{.name = "messages per settlement frame", .colour = 3}},
                       "messages per frame", [](const sample& s, std::size_t) {
                           return s.frames == 0 ? -1
                                                : static_cast<double>(s.settled) /
                                                      static_cast<double>(s.frames);
                       });
    c.description = "Messages per settlement frame over time";
    return section("Messages per settlement frame", "", c);
}

std::string cpu_over_time(const result& r)
{
    if (r.samples.empty())
        return {};
    auto c = over_time(r, {{.name = "CPU", .colour = 4}}, "% of one CPU",
                       [](const sample& s, std::size_t) {
                           return s.seconds > 0 ? 100 * s.cpu_seconds / s.seconds : -1;
                       });
    c.description = "CPU use over time";
    return section("CPU of this process", "User and system time.", c);
}

std::string latency_table(const result& r)
{
    std::vector<named> columns;
    const auto add = [&](std::string name, const histogram& h) {
        if (h.count() != 0)
            columns.push_back({std::move(name), 0, &h});
    };
    for (const auto& s : r.settlements) {
        add(fmt::format("settlement N = {}", s.prefetch), s.latency);
        add(r.settlements.size() > 1 ? fmt::format("hold N = {}", s.prefetch) : "hold time",
            s.hold);
    }
    add("consumer", r.consumer_latency);
    add("confirm", r.confirm_latency);
    if (columns.empty())
        return {};
    std::string out = "<section><h2>Latency</h2><div class=\"scroll\"><table>\n<tr><th></th>";
    for (const auto& each : columns)
        out += fmt::format("<th>{}</th>", escaped(each.name));
    out += "</tr>\n";
    const auto row = [&](const char* name, auto value) {
        out += fmt::format("<tr><td>{}</td>", name);
        for (const auto& each : columns)
            out += fmt::format("<td>{}</td>", value(*each.values));
        out += "</tr>\n";
    };
    static constexpr std::pair<const char*, double> points[] = {
        {"median", 50}, {"90th", 90}, {"99th", 99}, {"99.9th", 99.9}};
    for (const auto& [name, percent] : points)
        row(name, [p = percent](const histogram& h) { return duration_text(us(h.percentile(p))); });
    row("max", [](const histogram& h) { return duration_text(us(h.max())); });
    row("values", [](const histogram& h) { return number_text(static_cast<double>(h.count())); });
    return out + "</table></div></section>\n";
}

std::string channel_table(const result& r)
{
    if (r.channels.empty())
        return {};
    std::string out = "<section><h2>Channels</h2><div "
                      "class=\"scroll\"><table>\n<tr><th>connection.channel, client</th>"
                      "<th>N</th><th>deliveries</th><th>per frame</th><th>median</th><th>99th</th>"
                      "</tr>\n";
    for (const auto& w : r.channels) {
        const bool measured = w.latency && w.latency->count() != 0;
        const auto latency = [&](double p) {
            return measured ? duration_text(us(w.latency->percentile(p))) : std::string("-");
        };
        out += fmt::format(
            "<tr><td class=\"name\">{}.{} {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}"
            "</td></tr>\n",
            w.connection, w.channel, escaped(w.client),
            w.prefetch == 0 ? "-" : std::to_string(w.prefetch),
            number_text(static_cast<double>(w.deliveries)),
            w.frames == 0
                ? std::string("-")
                : number_text(static_cast<double>(w.settled) / static_cast<double>(w.frames)),
            latency(50), latency(99));
    }
    return out + "</table></div></section>\n";
}

std::string count_table(const result& r)
{
    std::string rows;
    const auto row = [&](bool have, const char* name, std::uint64_t n) {
        if (have)
            rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", name,
                                number_text(static_cast<double>(n)), number_text(r.per_second(n)));
    };
    const auto& t = r.totals;
    row(r.publishes, "sent", t.sent);
    row(r.confirms, "confirmed", t.confirmed);
    row(t.nacked != 0, "nacked", t.nacked);
    row(t.returned != 0, "returned", t.returned);
    row(r.consumes, "received", t.received);
    row(t.acked != 0, r.proxy ? "settled" : "acked", t.acked);
    row(t.dropped != 0, "dropped", t.dropped);
    row(t.retried != 0, "retried", t.retried);
    row(t.delayed != 0, "retried later", t.delayed);
    std::uint64_t frames = 0;
    for (const auto& s : r.settlements)
        frames += s.frames;
    row(frames != 0, "settlement frames", frames);
    return fmt::format(
        "<section><h2>Counts</h2><table>\n<tr><th>what</th><th>in all</th><th>per "
        "second</th></tr>\n{}</table><p class=\"soft\">{:.1f} s measured{}; {}CPU {:.2f} "
        "s.</p></section>\n",
        rows, r.seconds, r.warm_up > 0 ? fmt::format(" after {:.1f} s of warm-up", r.warm_up) : "",
        r.publishes && !r.proxy ? fmt::format("bodies of {} bytes; ", r.body_size) : "",
        r.cpu_seconds);
}

std::string words(const result& r)
{
    std::string out;
    if (!r.verdict.empty())
        out += fmt::format("<p class=\"verdict{}\">{}</p>\n", r.verified ? "" : " bad",
                           escaped(r.verdict));
    if (const auto said = look_text(r); !said.empty())
        out += fmt::format("<p class=\"remark\">{}</p>\n", escaped(said));
    for (const auto& each : r.remarks)
        out += fmt::format("<p class=\"remark\">{}</p>\n", escaped(each));
    return out;
}

} // namespace

std::string html_of(const result& r)
{
    const auto title = escaped("acquit-bench " + r.id);
    auto out =
        fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                    "<title>{}</title>\n<style>{}</style></head>\n<body>\n<h1>{}</h1>\n",
                    title, style, title);
    out += fmt::format("<p class=\"soft\">{} &middot; {} &middot; {} &middot; acquit {}</p>\n",
                       escaped(r.broker), escaped(r.system), escaped(r.began), escaped(r.version));
    out += fmt::format("<p class=\"command\"><code>{}</code></p>\n", escaped(r.command));
    out += tiles(r) + words(r) + rates(r) + by_percentile(r) + distribution(r) +
           settlement_over_time(r) + frames_over_time(r) + cpu_over_time(r) + latency_table(r) +
           channel_table(r) + count_table(r);
    return out + "</body></html>\n";
}

} // namespace acquit::bench
