#include "service_support.h"

#include <random>

// A service over a model of a broker: what its handlers decide, and how they may fail.
namespace acquit::testing {
namespace {

task<outcome> acks(delivery&)
{
    co_return ack;
}
outcome acks_plainly(delivery&)
{
    return ack;
}

TEST(service, handles_everything_and_leaves_nothing_unsettled)
{
    for (const bool plain : {true, false}) {
        virtually(
            [plain](host& there) -> task<> {
                there.model.put("q", 1000);
                service s(there.client());
                if (plain)
                    s.consume(existing_queue("q").prefetch(50), acks_plainly);
                else
                    s.consume(existing_queue("q").prefetch(50), acks).concurrency(7);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(1s);
                });
                expect_clean(r);
                auto& q = there.model["q"];
                EXPECT_EQ(q.acked.size(), 1000U);
                EXPECT_EQ(q.unsettled + q.lost_unsettled + q.consumers, 0U);
                if (r.result) {
                    EXPECT_EQ(r.result->finished(), 1000U);
                }
            },
            automatic());
    }
}

// S1, S2, S3, s13: each message gets its own answer, and never by basic.nack (S6).
TEST(service, gives_each_message_the_answer_of_its_handler)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 300);
            service s(there.client());
            s.consume(existing_queue("q").prefetch(20), [](delivery& d) {
                const auto n = std::stoi(std::string(d.text())) % 3;
                if (n == 0 || d.redelivered())
                    return ack;
                return n == 1 ? drop : retry();
            });
            const auto r = co_await serving(s, [&]() -> task<> { co_await runtime::sleep(1s); });
            expect_clean(r);
            auto& q = there.model["q"];
            EXPECT_EQ(q.acked.size(), 200U);
            EXPECT_EQ(q.dropped.size(), 100U);
            EXPECT_EQ(q.requeued, 100U);
            for (const auto& body : q.dropped)
                EXPECT_EQ(std::stoi(body) % 3, 1);
            EXPECT_EQ(there.latest().count<wire::basic::nack>(), 0U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
        },
        automatic());
}

// s14, s15, c57: nothing is ever settled for a consumer without acknowledgements.
TEST(service, settles_nothing_of_a_no_ack_consumer)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 100);
            service s(there.client());
            int seen = 0;
            s.consume(existing_queue("q"), [&](message&) { ++seen; });
            const auto r = co_await serving(s, [&]() -> task<> { co_await runtime::sleep(1s); });
            expect_clean(r);
            EXPECT_EQ(seen, 100);
            auto& p = there.latest();
            EXPECT_EQ(p.count<wire::basic::ack>() + p.count<wire::basic::reject>(), 0U);
        },
        automatic());
}

// s20, c63: random outcomes in random order, with every order of the ready queue.
TEST(service, settles_right_in_whatever_order_handlers_finish)
{
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        auto o = automatic();
        o.shuffle_seed = seed;
        o.stream.chunk_seed = seed;
        virtually(
            [seed](host& there) -> task<> {
                there.model.put("q", 200);
                std::mt19937 random(static_cast<unsigned>(seed));
                service s(there.client());
                s.consume(existing_queue("q").prefetch(16), [&](delivery& d) -> task<outcome> {
                     const auto answer = d.redelivered() ? 0 : random() % 3;
                     co_await runtime::sleep(std::chrono::microseconds(random() % 2000));
                     co_return answer == 0 ? ack : answer == 1 ? drop : retry();
                 }).concurrency(16);
                const auto r =
                    co_await serving(s, [&]() -> task<> { co_await runtime::sleep(10s); });
                expect_clean(r);
                auto& q = there.model["q"];
                EXPECT_EQ(q.acked.size() + q.dropped.size(), 200U);
                EXPECT_EQ(there.model.unknown_tags, 0U);
            },
            o);
    }
}

// S11
TEST(service, treats_a_handler_that_throws_by_its_policy)
{
    for (const auto policy : {on_failure::retry, on_failure::drop}) {
        virtually(
            [policy](host& there) -> task<> {
                there.model.put("q", 10);
                service s(there.client());
                s.consume(existing_queue("q"), [](delivery& d) -> task<outcome> {
                     co_await runtime::sleep(1ms);
                     if (!d.redelivered())
                         throw std::runtime_error("no");
                     co_return ack;
                 }).on_error(policy);
                const auto r =
                    co_await serving(s, [&]() -> task<> { co_await runtime::sleep(1s); });
                expect_clean(r);
                EXPECT_EQ(there.model["q"].acked.size(), policy == on_failure::retry ? 10U : 0U);
                EXPECT_EQ(there.model["q"].dropped.size(), policy == on_failure::drop ? 10U : 0U);
                if (r.result) {
                    EXPECT_EQ(r.result->queues[0].metrics.failed, 10U);
                }
            },
            automatic());
    }
}

// S11: stop
TEST(service, stops_by_itself_when_a_handler_fails_and_the_policy_says_so)
{
    for (const bool plain : {true, false}) {
        virtually(
            [plain](host& there) -> task<> {
                there.model.put("q", 10);
                service s(there.client());
                if (plain)
                    s.consume(existing_queue("q"), [](delivery& d) -> outcome {
                         if (d.text() == "4")
                             throw std::runtime_error("cannot go on");
                         return ack;
                     }).on_error(on_failure::stop);
                else
                    s.consume(existing_queue("q"), [](delivery& d) -> task<outcome> {
                         if (d.text() == "4")
                             throw std::runtime_error("cannot go on");
                         co_return ack;
                     }).on_error(on_failure::stop);
                ran r;
                co_await run_into(s, r);
                EXPECT_TRUE(r.result) << text_of(r.failure);
                if (!r.result)
                    co_return;
                EXPECT_EQ(text_of(r.result->error), "cannot go on");
                EXPECT_FALSE(r.result->clean());
                expect_adds_up(*r.result);
                EXPECT_EQ(r.result->unknown(), 1U);
                EXPECT_EQ(there.model["q"].acked.size(), 9U);
                EXPECT_EQ(there.model["q"].lost_unsettled, 1U)
                    << "left unsettled, so delivered again";
            },
            automatic());
    }
}

// c75: a handler may end everything from where it is called, on the reader's stack.
TEST(service, may_be_stopped_and_aborted_by_its_own_handlers)
{
    for (const bool abort : {false, true}) {
        for (const bool plain : {false, true}) {
            virtually(
                [abort, plain](host& there) -> task<> {
                    there.model.put("q", 100);
                    service s(there.client());
                    const auto end = [&](std::string_view body) {
                        if (body == "7")
                            abort ? s.abort() : s.stop();
                    };
                    if (plain)
                        s.consume(existing_queue("q").prefetch(10), [&](delivery& d) {
                            end(d.text());
                            return ack;
                        });
                    else
                        s.consume(existing_queue("q").prefetch(10),
                                  [&](delivery& d) -> task<outcome> {
                                      end(d.text());
                                      co_return ack;
                                  });
                    ran r;
                    co_await run_into(s, r);
                    EXPECT_TRUE(r.result) << text_of(r.failure);
                    if (!r.result)
                        co_return;
                    EXPECT_EQ(r.result->cut_short, abort);
                    expect_adds_up(*r.result);
                    EXPECT_EQ(there.model["q"].acked.size() + there.model["q"].ready.size(), 100U);
                },
                automatic());
        }
    }
}

TEST(service, that_is_cancelled_from_outside_ends_its_handlers_and_forgets_the_loop)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            bool unwound = false;
            s.consume(existing_queue("q"), [&](delivery&) -> task<outcome> {
                try {
                    co_await runtime::sleep(1h);
                } catch (const runtime::operation_cancelled&) {
                    unwound = true;
                    throw;
                }
                co_return ack;
            });
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                co_await runtime::sleep(1s);
                tasks.cancel();
            });
            EXPECT_TRUE(unwound);
            EXPECT_TRUE(as<runtime::operation_cancelled>(r.failure)) << text_of(r.failure);
            s.stop();
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
