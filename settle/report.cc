#include <acquit/settle/report.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <iterator>

namespace acquit::settle {

namespace {

template <class F>
std::uint64_t sum(const std::vector<report::line>& lines, F&& of)
{
    std::uint64_t total = 0;
    for (const auto& line : lines)
        total += of(line.metrics);
    return total;
}

std::uint64_t decided(const subscription_metrics& m) noexcept
{
    return m.acked + m.dropped + m.retried + m.retries.hops;
}

void retries_text(std::back_insert_iterator<std::string> to, const retry_metrics& r)
{
    if (r.dead_lettered != 0)
        fmt::format_to(to, ", {} at their limit", r.dead_lettered);
    if (r.copies_confirmed != 0)
        fmt::format_to(to, ", {} copies", r.copies_confirmed);
    if (r.copies_failed != 0)
        fmt::format_to(to, ", {} copies FAILED", r.copies_failed);
    if (r.timers_published != 0)
        fmt::format_to(to, ", {} timers published", r.timers_published);
    if (r.timers_early != 0)
        fmt::format_to(to, " ({} before their time)", r.timers_early);
    if (r.timers_lost != 0)
        fmt::format_to(to, ", {} timers LOST", r.timers_lost);
    if (r.delays_dropped != 0)
        fmt::format_to(to, ", {} without their delay", r.delays_dropped);
}

void unfinished_text(std::back_insert_iterator<std::string> to, const report::line& line)
{
    for (const auto& left : line.left) {
        fmt::format_to(to, "queue {}: {}: {}", line.queue,
                       left.what == unfinished::fate::lost ? "LOST" : "redelivered",
                       left.where == unfinished::stage::retry ? "retry" : "in a handler");
        if (!left.destination.empty())
            fmt::format_to(to, " to {}", left.destination);
        if (!left.message_id.empty())
            fmt::format_to(to, ", message id {}", left.message_id);
        fmt::format_to(to, "\n");
    }
}

} // namespace

std::uint64_t report::received() const noexcept
{
    return sum(queues, [](const subscription_metrics& m) { return m.received; });
}

std::uint64_t report::finished() const noexcept
{
    return sum(queues, [](const subscription_metrics& m) {
        return decided(m) - m.stale - m.retries.originals_left;
    });
}

std::uint64_t report::given_back() const noexcept
{
    return sum(queues, [](const subscription_metrics& m) { return m.given_back; });
}

std::uint64_t report::unknown() const noexcept
{
    return received() - finished() - given_back();
}

std::uint64_t report::timers_published() const noexcept
{
    return sum(queues, [](const subscription_metrics& m) { return m.retries.timers_published; });
}

std::uint64_t report::timers_lost() const noexcept
{
    return sum(queues, [](const subscription_metrics& m) { return m.retries.timers_lost; });
}

bool report::clean() const noexcept
{
    return !cut_short && error == nullptr;
}

std::string report::text() const
{
    std::string out;
    auto to = std::back_inserter(out);
    for (const auto& line : queues) {
        const auto& m = line.metrics;
        fmt::format_to(to,
                       "queue {}: {} received ({} redelivered), {} acked, {} dropped, {} retried",
                       line.queue, m.received, m.redelivered, m.acked, m.dropped, m.retried);
        retries_text(to, m.retries);
        if (m.failed != 0)
            fmt::format_to(to, ", {} handlers failed", m.failed);
        if (m.undecided != 0)
            fmt::format_to(to, ", {} left UNDECIDED by their handlers", m.undecided);
        if (m.given_back != 0)
            fmt::format_to(to, ", {} given back", m.given_back);
        if (m.stale != 0)
            fmt::format_to(to, ", {} decided too late for their channel", m.stale);
        if (m.dropped_unhandled != 0)
            fmt::format_to(to, ", {} lost with their channel before a handler saw them",
                           m.dropped_unhandled);
        if (m.abandoned != 0)
            fmt::format_to(to, ", {} ABANDONED", m.abandoned);
        const auto& s = m.settlement;
        if (s.settled != 0)
            fmt::format_to(to, "; {:.3f} settle frames per message",
                           static_cast<double>(s.frames) / static_cast<double>(s.settled));
        out += '\n';
        unfinished_text(to, line);
    }
    if (reconnects != 0)
        fmt::format_to(to, "reconnected {} times\n", reconnects);
    if (unknown() != 0)
        fmt::format_to(
            to,
            "{} deliveries have an unknown fate: the broker delivers them again, unless they "
            "were consumed without acknowledgements\n",
            unknown());
    if (cut_short)
        out += "the drain was cut short\n";
    if (error) {
        try {
            std::rethrow_exception(error);
        } catch (const std::exception& e) {
            fmt::format_to(to, "error: {}\n", e.what());
        } catch (...) {
            out += "error: an exception that is no std::exception\n";
        }
    }
    return out;
}

} // namespace acquit::settle
