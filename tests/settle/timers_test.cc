// D13: a million delayed retries wait in one process. A program of its own, since it looks at how much
// memory the process has.
#include "feeder.h"

#include <acquit/acquit.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>

#include <malloc.h>
#include <unistd.h>

namespace acquit::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool exact = false;
#elif defined(__has_feature)
constexpr bool exact = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool exact = true;
#endif

/// Sanitizers keep what was freed, and need time.
constexpr std::uint64_t messages = exact ? 1'000'000 : 20'000;

std::size_t resident_bytes()
{
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds()
{
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

task<> into(task<report> running, std::optional<report>& result)
{
    result.emplace(co_await std::move(running));
}

struct measured {
    std::size_t bytes = 0; ///< of all that waits
    double cpu_s = 0;      ///< from the first delivery until all wait
    double end_cpu_s = 0;  ///< to forget them all
    std::optional<report> result;
};

/// A service whose handler asks for an hour each time, or acks: what the timers add.
measured park(std::uint64_t count, bool delayed)
{
    measured m;
    beside(count, 1000, [&](const amqp::connection_options& options, feeder& f) -> task<> {
        service s{options};
        auto& sub = s.consume(classic_queue{"q"}.prefetch(1000), [delayed](delivery&) -> outcome {
            return delayed ? retry_after(1h) : ack;
        });
        co_await with_scope([&](scope& tasks) -> task<> {
            const auto before = resident_bytes();
            const auto began = cpu_seconds();
            tasks.spawn(into(s.run(), m.result));
            co_await s.started();
            while (f.settled() < count)
                co_await sleep(1ms); // of the feeder's own loop: it is this one
            m.cpu_s = cpu_seconds() - began;
            m.bytes = resident_bytes() - before;
            EXPECT_EQ(sub.metrics().retries.timers_pending, delayed ? count : 0);
            EXPECT_EQ(sub.metrics().retries.delays_dropped, 0U);
            const auto end = cpu_seconds();
            s.abort();
            while (!m.result)
                co_await sleep(1ms);
            m.end_cpu_s = cpu_seconds() - end;
        });
        EXPECT_EQ(f.wrong(), 0U);
    });
    return m;
}

TEST(D13_timers, a_million_may_wait_in_one_process)
{
    runtime::set_log_callback([](const runtime::log_record&) {});
    const auto acked = park(messages, false);
    const auto parked = park(messages, true);
    EXPECT_EQ(parked.result->timers_lost(), messages);
    EXPECT_EQ(parked.result->queues.at(0).left.size(), settle::retrier::names_max);

    const auto n = static_cast<double>(messages);
    const double bytes = static_cast<double>(parked.bytes) / n;
    fmt::print(
        "{} timers: {:.0f} bytes each with a body of 100 bytes, {:.0f} ns more than an ack to "
        "begin, {:.0f} ns to cancel\n",
        messages, bytes, (parked.cpu_s - acked.cpu_s) / n * 1e9, parked.end_cpu_s / n * 1e9);
    if (exact) {
        // The message: its body, and the head of a copy with count and origin in headers (88 bytes), as
        // malloc rounds them.
        EXPECT_LT(bytes, 200 + 208);
    }
    ::malloc_trim(0);
}

} // namespace
} // namespace acquit::testing
