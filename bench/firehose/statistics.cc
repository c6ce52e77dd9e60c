#include "statistics.h"

#include <fmt/format.h>

#include <ctime>

namespace acquit::firehose {

std::uint64_t clock_ns() noexcept
{
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t cpu_ns() noexcept
{
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(used.tv_nsec);
}

summary summarize(const statistics& s, const settings& how)
{
    summary result;
    if (s.first_delivery_ns == 0 || s.last_activity_ns <= s.first_delivery_ns)
        return result;
    const auto took = static_cast<double>(s.last_activity_ns - s.first_delivery_ns);
    const auto deliveries = static_cast<double>(s.deliveries);
    result.seconds = took * 1e-9;
    result.rate = deliveries / result.seconds;
    result.cpu_us_per_message =
        static_cast<double>(s.last_cpu_ns - s.first_cpu_ns) * 1e-3 / deliveries;
    if (s.settlement_frames != 0)
        result.messages_per_frame =
            static_cast<double>(s.settled()) / static_cast<double>(s.settlement_frames);
    result.waiting_share = static_cast<double>(s.waited_window_ns + s.waited_socket_ns) / took;
    result.server_was_the_limit = how.rate == 0 && result.waiting_share < waiting_share_least;
    return result;
}

std::string to_json(const statistics& s, const settings& how)
{
    const auto sum = summarize(s, how);
    const auto us = [](std::chrono::nanoseconds d) {
        return static_cast<double>(d.count()) * 1e-3;
    };
    std::string out = "{\n";
    const auto field = [&out](std::string_view name, const auto& value) {
        out += fmt::format("{}  \"{}\": {}", out.size() > 2 ? ",\n" : "", name, value);
    };
    field("deliveries", s.deliveries);
    field("redelivered", s.redelivered);
    field("no_ack", s.no_ack);
    field("settled", fmt::format("{{\"ack\": {}, \"reject\": {}, \"reject_requeue\": {}, "
                                 "\"nack\": {}, \"nack_requeue\": {}}}",
                                 s.acked, s.rejected, s.requeued, s.nacked, s.given_back));
    field("recovered", s.recovered);
    field("left_unsettled", s.left_unsettled);
    field("settlement_frames", s.settlement_frames);
    field("multiple_frames", s.multiple_frames);
    field("messages_per_settlement_frame", fmt::format("{:.3f}", sum.messages_per_frame));
    field("settled_twice", s.settled_twice);
    field("unknown_tags", s.unknown_tags);
    field("connections", s.connections);
    field("connections_refused", s.connections_refused);
    field("channels", s.channels);
    field("consumers", s.consumers);
    field("publishes", s.publishes);
    field("protocol_errors", s.protocol_errors);
    field("seconds", fmt::format("{:.6f}", sum.seconds));
    field("rate_per_s", fmt::format("{:.1f}", sum.rate));
    field("bytes_out", s.bytes_out);
    field("server_cpu_us_per_message", fmt::format("{:.5f}", sum.cpu_us_per_message));
    field("server_sends", s.sends);
    field("server_receives", s.receives);
    field("server_turns", s.turns);
    field("server_sleeps", s.sleeps);
    field("waited_for_window_s",
          fmt::format("{:.6f}", static_cast<double>(s.waited_window_ns) * 1e-9));
    field("waited_for_socket_s",
          fmt::format("{:.6f}", static_cast<double>(s.waited_socket_ns) * 1e-9));
    field("waiting_share", fmt::format("{:.4f}", sum.waiting_share));
    field("server_was_the_limit", sum.server_was_the_limit);
    if (how.rate != 0) {
        const auto& l = s.settlement_latency;
        field("late", s.late);
        field("settlement_latency_us",
              fmt::format("{{\"count\": {}, \"p50\": {:.1f}, \"p99\": {:.1f}, \"p99.9\": {:.1f}, "
                          "\"max\": {:.1f}}}",
                          l.count(), us(l.percentile(50)), us(l.percentile(99)),
                          us(l.percentile(99.9)), us(l.max())));
    }
    return out + "\n}\n";
}

} // namespace acquit::firehose
