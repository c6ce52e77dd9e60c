#include "json.h"

#include <fmt/format.h>

#include <cmath>

namespace acquit::bench {

void json_text::separate()
{
    if (!first_)
        out_ += ',';
    first_ = false;
}

json_text& json_text::open(char bracket)
{
    separate();
    out_ += bracket;
    first_ = true;
    return *this;
}

json_text& json_text::close(char bracket)
{
    out_ += bracket;
    first_ = false;
    return *this;
}

json_text& json_text::key(std::string_view name)
{
    value(name);
    out_ += ':';
    first_ = true;
    return *this;
}

json_text& json_text::value(std::string_view text)
{
    separate();
    out_ += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out_ += fmt::format("\\{}", c);
        else if (static_cast<unsigned char>(c) < 0x20)
            out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            out_ += c;
    }
    out_ += '"';
    return *this;
}

json_text& json_text::value(double number)
{
    if (!std::isfinite(number))
        return null();
    separate();
    out_ += fmt::format("{:.10g}", number);
    return *this;
}

json_text& json_text::value(std::uint64_t number)
{
    separate();
    out_ += std::to_string(number);
    return *this;
}

json_text& json_text::value(bool yes)
{
    separate();
    out_ += yes ? "true" : "false";
    return *this;
}

json_text& json_text::null()
{
    separate();
    out_ += "null";
    return *this;
}

namespace {

double us(std::chrono::nanoseconds d)
{
    return static_cast<double>(d.count()) / 1000;
}

void write(json_text& j, std::string_view name, const histogram& h)
{
    j.key(name);
    if (h.count() == 0) {
        j.null();
        return;
    }
    j.open('{').member("count", h.count()).member("min", us(h.percentile(0)));
    static constexpr std::pair<const char*, double> points[] = {
        {"p50", 50}, {"p75", 75},     {"p90", 90},      {"p95", 95},
        {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};
    for (const auto& [label, p] : points)
        j.member(label, us(h.percentile(p)));
    j.member("max", us(h.max())).member("mean", us(h.mean())).close('}');
}

void write(json_text& j, const settling& s)
{
    j.open('{')
        .member("prefetch", s.prefetch)
        .member("settled", s.settled)
        .member("frames", s.frames)
        .member("messages_per_frame", s.messages_per_frame());
    write(j, "latency_us", s.latency);
    write(j, "hold_us", s.hold);
    j.close('}');
}

void write(json_text& j, const watched& w)
{
    j.open('{')
        .member("client", w.client)
        .member("connection", w.connection)
        .member("channel", std::uint32_t{w.channel})
        .member("prefetch", w.prefetch)
        .member("deliveries", w.deliveries)
        .member("settled", w.settled)
        .member("frames", w.frames);
    write(j, "latency_us", w.latency ? *w.latency : histogram{});
    j.close('}');
}

void write(json_text& j, const counts& c)
{
    j.member("sent", c.sent)
        .member("confirmed", c.confirmed)
        .member("nacked", c.nacked)
        .member("returned", c.returned)
        .member("received", c.received)
        .member("acked", c.acked)
        .member("dropped", c.dropped)
        .member("retried", c.retried)
        .member("retried_later", c.delayed);
}

void write(json_text& j, std::string_view name, bool have, const five& values)
{
    if (!have)
        return;
    j.key(name).open('[');
    for (const auto& each : values)
        j.value(us(each));
    j.close(']');
}

void write(json_text& j, const sample& s)
{
    j.open('{').member("at", s.at).member("seconds", s.seconds).member("warm_up", s.warm_up);
    write(j, s.done);
    j.member("settled", s.settled).member("frames", s.frames).member("cpu_seconds", s.cpu_seconds);
    write(j, "consumer_latency_us", s.has_consumer_latency, s.consumer_latency);
    write(j, "confirm_latency_us", s.has_confirm_latency, s.confirm_latency);
    write(j, "settlement_latency_us", s.has_settlement_latency, s.settlement_latency);
    j.close('}');
}

} // namespace

std::string json_of(const result& r)
{
    json_text j;
    j.open('{')
        .member("tool", "acquit-bench")
        .member("version", r.version)
        .member("mode", r.proxy ? "proxy" : "load")
        .member("id", r.id)
        .member("command", r.command)
        .member("began", r.began)
        .member("broker", r.broker)
        .member("system", r.system)
        .member("settle", r.settle)
        .member("body_size", r.body_size)
        .member("seconds", r.seconds)
        .member("warm_up_seconds", r.warm_up);
    j.key("rates")
        .open('{')
        .member("sent", r.per_second(r.totals.sent))
        .member("confirmed", r.per_second(r.totals.confirmed))
        .member("received", r.per_second(r.totals.received))
        .close('}');
    j.key("totals").open('{');
    write(j, r.totals);
    j.close('}');
    j.key("cpu")
        .open('{')
        .member("seconds", r.cpu_seconds)
        .member("us_per_message", r.cpu_us_per_message())
        .close('}');
    write(j, "consumer_latency_us", r.consumer_latency);
    write(j, "confirm_latency_us", r.confirm_latency);
    j.key("settlement").open('[');
    for (const auto& each : r.settlements)
        write(j, each);
    j.close(']');
    j.key("channels").open('[');
    for (const auto& each : r.channels)
        write(j, each);
    j.close(']');
    j.key("queue_looks").open('{').member("all", r.looks).member("empty", r.empty_looks).close('}');
    j.key("verify");
    if (r.verdict.empty())
        j.null();
    else
        j.open('{').member("good", r.verified).member("text", r.verdict).close('}');
    j.key("remarks").open('[');
    for (const auto& each : r.remarks)
        j.value(each);
    j.close(']').key("samples").open('[');
    for (const auto& each : r.samples)
        write(j, each);
    j.close(']').close('}');
    return j.text() + "\n";
}

} // namespace acquit::bench
