#pragma once

#include "../peer/host.h"

#include <acquit/runtime/log.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/service.h>
#include <acquit/settle/topology.h>

#include <gtest/gtest.h>

namespace acquit::testing {

using namespace settle; // NOLINT: the tests of that room

/// How a run of a service ended.
struct ran {
    std::optional<settle::report> result;
    std::exception_ptr failure;
    bool over = false;
};

inline task<> run_into(service& s, ran& r)
{
    try {
        r.result = co_await s.run();
    } catch (...) {
        r.failure = std::current_exception();
    }
    r.over = true;
}

/// Runs the service while `body` runs, stops it, and waits for its end.
template <class F>
task<ran> serving(service& s, F body)
{
    ran r;
    co_await runtime::with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(run_into(s, r));
        co_await body();
        s.stop();
    });
    co_return r;
}

/// Every delivery ended in exactly one of the ways that a report knows.
inline void expect_adds_up(const report& r)
{
    for (const auto& line : r.queues) {
        const auto& m = line.metrics;
        EXPECT_EQ(m.received, m.acked + m.dropped + m.retried + m.retries.hops + m.given_back +
                                  m.dropped_unhandled + m.abandoned)
            << line.queue << ": " << r.text();
        EXPECT_EQ(m.in_handler, 0U);
        EXPECT_EQ(m.waiting, 0U);
    }
}

/// Of the messages that broker_model puts.
inline std::size_t number_of(const delivery& d)
{
    return static_cast<std::size_t>(std::stoull(std::string(d.text())));
}

inline void expect_clean(const ran& r)
{
    EXPECT_FALSE(r.failure) << text_of(r.failure);
    EXPECT_TRUE(r.result);
    if (!r.result)
        return;
    EXPECT_TRUE(r.result->clean()) << r.result->text();
    expect_adds_up(*r.result);
}

inline host_options automatic(const char* version = "4.0.5")
{
    // What a service logs is not of interest here.
    runtime::set_log_callback([](const runtime::log_record&) {});
    host_options o;
    o.automatic = true;
    o.server.version = version;
    return o;
}

} // namespace acquit::testing
