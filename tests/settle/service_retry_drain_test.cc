#include "service_support.h"

#include <algorithm>

// Drains with copies, timers and holds under way, in virtual time.
namespace acquit::testing {
namespace {

using fate = broker_model::publish_fate;

// X3, X4: everything in flight at the end.
TEST(drain, waits_for_copies_timers_and_holds_in_this_order)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            there.model["h"];
            service s(there.client());
            there.model.on_publish = [](const said&) { return fate{.delay = 3s}; };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                 if (d.attempt() == 2)
                     return ack;
                 return number_of(d) % 2 == 0 ? retry() : retry_after(8s);
             }).max_attempts(5);
            s.consume(quorum_queue("h"), [](delivery&) -> outcome {
                 return retry_after(6s);
             }).delay(delay::hold(10));
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 10);
                there.model.put("h", 5);
                co_await settle_down();
            });
            expect_clean(r);
            // 8 s of the timers, 3 s for their confirms.
            EXPECT_GE(r.result->drain_time, 11s - 1ms);
            EXPECT_LE(r.result->drain_time, 11s + 1ms);
            EXPECT_EQ(there.model["q"].acked.size(), 5U);
            EXPECT_EQ(there.model["q"].ready.size(), 5U);
            EXPECT_EQ(there.model["h"].ready.size(), 5U);
            EXPECT_EQ(there.model["q"].lost_unsettled, 0U);
            EXPECT_EQ(there.model["h"].lost_unsettled, 0U);
            EXPECT_EQ(r.result->timers_published(), 5U);
        },
        automatic());
}

TEST(drain, that_is_cut_short_names_what_it_leaves)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.drain_deadline(10s);
            there.model.on_publish = [](const said&) {
                return fate{.delay = runtime::duration::max()};
            };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                 if (d.attempt() == 2)
                     return ack;
                 return number_of(d) % 2 == 0 ? retry() : retry_after(1h);
             }).max_attempts(5);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 10);
                co_await settle_down();
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_TRUE(r.result->cut_short);
            EXPECT_EQ(r.result->timers_lost(), 5U);
            const auto& line = r.result->queues.at(0);
            EXPECT_EQ(line.metrics.retries.originals_left, 5U);
            EXPECT_EQ(line.left.size(), 10U);
            EXPECT_EQ(r.result->finished(), 10U);
            EXPECT_EQ(r.result->unknown(), 5U);
            EXPECT_EQ(r.result->received(), r.result->finished() + r.result->unknown());
        },
        automatic());
}

TEST(drain, that_is_cut_short_names_what_is_in_a_handler)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 3);
            service s(there.client());
            s.drain_deadline(1s);
            runtime::event never;
            s.consume(existing_queue("q"), [&never](delivery&) -> task<outcome> {
                 co_await never.wait();
                 co_return ack;
             }).concurrency(2);
            const auto r = co_await serving(s, [&]() -> task<> { co_await s.started(); });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            const auto& line = r.result->queues.at(0);
            EXPECT_EQ(line.left.size(), 2U);
            EXPECT_EQ(line.metrics.abandoned, 3U);
            EXPECT_NE(r.result->text().find("queue q: redelivered: in a handler"),
                      std::string::npos)
                << r.result->text();
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(drain, stop_at_any_moment_of_a_retry_loses_nothing)
{
    for (int ms = 0; ms < 60; ++ms) {
        virtually(
            [ms](host& there) -> task<> {
                there.model["q"];
                service s(there.client());
                there.model.on_publish = [](const said&) { return fate{.delay = 7ms}; };
                s.consume(classic_queue("q").prefetch(8),
                          [](delivery& d) -> task<outcome> {
                              co_await runtime::sleep(3ms);
                              co_return number_of(d) % 3 == 0 ? retry()
                              : number_of(d) % 3 == 1         ? retry_after(5ms)
                                                              : ack;
                          })
                    .max_attempts(3)
                    .concurrency(4);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    there.model.put("q", 30);
                    co_await runtime::sleep(std::chrono::milliseconds(ms));
                });
                expect_clean(r);
                auto& q = there.model["q"];
                EXPECT_EQ(q.lost_unsettled, 0U);
                EXPECT_EQ(there.model.unknown_tags, 0U);
                for (int i = 0; i < 30; ++i) {
                    const auto body = std::to_string(i);
                    const bool acked =
                        std::find(q.acked.begin(), q.acked.end(), body) != q.acked.end();
                    const bool given_up =
                        i % 3 != 2 && std::count(q.dropped.begin(), q.dropped.end(), body) == 3;
                    EXPECT_EQ(there.model.instances(body) + (acked ? 1 : 0) + (given_up ? 1 : 0),
                              1U)
                        << "message " << i << ", stop after " << ms << " ms";
                }
            },
            automatic());
    }
}

} // namespace
} // namespace acquit::testing
