#include "csv.h"

#include "text.h"

#include <fmt/format.h>

namespace acquit::bench {

namespace {

std::string quoted(const std::string& text)
{
    if (text.find_first_of(",\"\r\n") == text.npos)
        return text;
    std::string out = "\"";
    for (const char c : text)
        out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + '"';
}

std::string five_columns(bool have, const five& values, bool milliseconds)
{
    std::string out;
    for (const auto& each : values) {
        out += ',';
        if (have)
            out += std::to_string(each.count() / (milliseconds ? 1'000'000 : 1000));
    }
    return out;
}

} // namespace

std::string csv_header(bool milliseconds)
{
    std::string out = "id,time (s),published (msg/s),returned (msg/s),confirmed (msg/s),"
                      "nacked (msg/s),received (msg/s)";
    const auto columns = [&](const char* latency, const char* unit) {
        for (const char* each : {"min", "median", "75th p.", "95th p.", "99th p."})
            out += fmt::format(",{} {} latency ({})", each, latency, unit);
    };
    const char* const unit = milliseconds ? "ms" : "µs";
    columns("consumer", unit);
    columns("confirm", unit);
    columns("settlement", "µs");
    return out + ",settled (msg/s),settlement frames (1/s),CPU (%)\n";
}

std::string csv_line(const result& about, const sample& s)
{
    auto out = fmt::format("{},{:.3f}", quoted(about.id), s.at);
    const auto rate = [&](bool have, std::uint64_t count) {
        out += ',';
        if (have)
            out += rate_text(s.per_second(count));
    };
    rate(about.publishes, s.done.sent);
    rate(about.publishes, s.done.returned);
    rate(about.confirms, s.done.confirmed);
    rate(about.confirms, s.done.nacked);
    rate(about.consumes, s.done.received);
    out += five_columns(s.has_consumer_latency, s.consumer_latency, about.milliseconds);
    out += five_columns(s.has_confirm_latency, s.confirm_latency, about.milliseconds);
    out += five_columns(s.has_settlement_latency, s.settlement_latency, false);
    const bool settles = !about.settle.empty();
    rate(settles, s.settled);
    rate(settles, s.frames);
    return out + fmt::format(",{:.1f}\n", s.seconds > 0 ? 100 * s.cpu_seconds / s.seconds : 0.0);
}

} // namespace acquit::bench
