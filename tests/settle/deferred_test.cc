#include "service_support.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/offload.h>

#include <thread>

// Decisions that are made elsewhere, later, by whoever has the token.
namespace acquit::testing {
namespace {

/// What a deferring handler puts its tokens into.
struct kept_tokens {
    std::vector<deferred_delivery> all;
    auto keeper()
    {
        return [this](delivery& d) { all.push_back(d.defer()); };
    }
};

// S13
TEST(deferred, a_token_settles_after_its_handler_has_returned)
{
    for (const bool coroutine : {false, true}) {
        virtually(
            [coroutine](host& there) -> task<> {
                there.model.put("q", 6);
                service s(there.client());
                kept_tokens kept;
                if (coroutine)
                    s.consume(existing_queue("q").prefetch(6), [&](delivery& d) -> task<> {
                        co_await runtime::sleep(1ms);
                        kept.all.push_back(d.defer());
                    });
                else
                    s.consume(existing_queue("q").prefetch(6), kept.keeper());
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(1s);
                    EXPECT_EQ(kept.all.size(), 6U);
                    EXPECT_EQ(s[0].metrics().in_handler, 6U);
                    EXPECT_EQ(s[0].metrics().waiting, 0U);
                    EXPECT_EQ(there.model["q"].unsettled, 6U);
                    // Acks of another order than that of the queue, and other outcomes.
                    kept.all[5].settle(ack);
                    kept.all[1].settle(drop);
                    kept.all[0].settle(ack);
                    EXPECT_FALSE(kept.all[0]);
                    co_await runtime::sleep(1s);
                    EXPECT_EQ(there.model["q"].unsettled, 3U);
                    kept.all[2].settle(retry());
                    kept.all[3].settle(ack);
                    kept.all[4].settle(ack);
                    co_await runtime::sleep(1s);
                    EXPECT_EQ(kept.all.size(), 7U);
                    EXPECT_EQ(kept.all.back().text(), "2");
                    EXPECT_TRUE(kept.all.back()->redelivered());
                    kept.all.back().settle(ack);
                });
                expect_clean(r);
                const auto& q = there.model["q"];
                EXPECT_EQ(q.acked, (std::vector<std::string>{"0", "5", "3", "4", "2"}));
                EXPECT_EQ(q.dropped, (std::vector<std::string>{"1"}));
                EXPECT_EQ(there.model.unknown_tags, 0U);
            },
            automatic());
    }
}

TEST(deferred, a_token_owns_its_message)
{
    auto o = automatic();
    o.stream.capacity = 300'000;
    o.stream.chunk_seed = 3;
    virtually(
        [](host& there) -> task<> {
            std::vector<std::string> sent;
            for (std::size_t i = 0; i < 40; ++i) {
                sent.emplace_back(i % 7 == 6 ? 200'000 + i : i * i * 10,
                                  static_cast<char>('a' + i % 26));
                there.model.put_body("q", sent.back());
            }
            service s(there.client());
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(40), kept.keeper());
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                EXPECT_EQ(kept.all.size(), sent.size());
                for (std::size_t i = 0; i < kept.all.size(); ++i) {
                    EXPECT_TRUE(kept.all[i].text() == sent[i]) << i;
                    EXPECT_EQ(kept.all[i].body().size(), sent[i].size());
                    EXPECT_EQ(kept.all[i]->routing_key(), "q");
                    EXPECT_EQ(kept.all[i]->attempt(), 1U);
                    kept.all[i].settle(ack);
                }
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 40U);
        },
        o);
}

TEST(deferred, the_token_decides_and_not_what_the_handler_returns_or_throws)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 3);
            service s(there.client());
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(6), [&](delivery& d) -> task<outcome> {
                kept.all.push_back(d.defer());
                if (d.text() == "1")
                    throw std::runtime_error("too late");
                co_return drop;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.model["q"].unsettled, 3U);
                for (auto& each : kept.all)
                    each.settle(ack);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 3U);
            EXPECT_EQ(there.model["q"].dropped.size(), 0U);
            if (r.result) {
                EXPECT_EQ(r.result->queues.at(0).metrics.failed, 1U);
            }
        },
        automatic());
}

TEST(deferred, deliveries_of_a_batch_may_be_deferred_one_by_one)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(4), [&](std::span<delivery> all) -> outcome {
                kept.all.push_back(all[1].defer());
                kept.all.push_back(all[3].defer());
                return ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.model["q"].acked, (std::vector<std::string>{"0", "2"}));
                EXPECT_EQ(kept.all.size(), 2U);
                EXPECT_EQ(kept.all.at(1).text(), "3");
                for (auto& each : kept.all)
                    each.settle(drop);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].dropped, (std::vector<std::string>{"1", "3"}));
        },
        automatic());
}

// S5: what is copied has to be there still when the decision comes.
TEST(deferred, a_decision_is_delayed_and_counted_as_that_of_a_handler)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 2);
            service s(there.client());
            std::vector<std::pair<std::uint32_t, runtime::time_point>> seen;
            s.consume(classic_queue("q").prefetch(2), [&](std::span<delivery> all) {
                 for (auto& d : all) {
                     EXPECT_EQ(d.text().size(), 1U);
                     seen.emplace_back(d.attempt(), runtime::loop::current().now());
                 }
                 if (all[0].attempt() == 1) {
                     all[0].defer().settle(retry_after(5s));
                     return std::vector<outcome>{drop, retry_after(5s)};
                 }
                 return std::vector<outcome>(all.size(), ack);
             }).batch({.size = 2});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(10s);
                EXPECT_EQ(seen.size(), 4U);
            });
            expect_clean(r);
            if (seen.size() != 4)
                co_return;
            EXPECT_EQ(seen[2].first, 2U);
            EXPECT_EQ(seen[3].first, 2U);
            EXPECT_GE(seen[2].second - seen[0].second, 5s);
            EXPECT_EQ(there.model["q"].dropped.size(), 2U) << "the originals of two copies";
            EXPECT_EQ(there.model["q"].acked.size(), 2U);
        },
        automatic());
}

// S12
TEST(deferred, a_token_destroyed_without_a_decision_is_treated_as_a_handler_that_threw)
{
    for (const auto policy : {on_failure::retry, on_failure::drop, on_failure::stop}) {
        SCOPED_TRACE(static_cast<int>(policy));
        virtually(
            [policy](host& there) -> task<> {
                there.model.put("q", 3);
                service s(there.client());
                bool lose = true;
                s.consume(existing_queue("q").prefetch(3), [&](delivery& d) {
                     auto token = d.defer();
                     if (d.text() != "1" || !std::exchange(lose, false))
                         token.settle(ack);
                 }).on_error(policy);
                ran r;
                co_await runtime::with_scope([&](scope& tasks) -> task<> {
                    tasks.spawn(run_into(s, r));
                    co_await s.started();
                    co_await runtime::sleep(1s);
                    EXPECT_EQ(r.over, policy == on_failure::stop);
                    s.stop();
                });
                EXPECT_TRUE(r.result);
                if (!r.result)
                    co_return;
                expect_adds_up(*r.result);
                const auto& m = r.result->queues.at(0).metrics;
                EXPECT_EQ(m.undecided, 1U);
                EXPECT_EQ(m.retried, policy == on_failure::retry ? 1U : 0U);
                EXPECT_EQ(m.dropped, policy == on_failure::drop ? 1U : 0U);
                EXPECT_EQ(m.abandoned, policy == on_failure::stop ? 1U : 0U);
                EXPECT_EQ(r.result->error != nullptr, policy == on_failure::stop);
                EXPECT_EQ(there.model["q"].acked.size(), policy == on_failure::retry ? 3U : 2U);
            },
            automatic());
    }
}

TEST(deferred, a_token_that_is_assigned_over_is_undecided)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 2);
            service s(there.client());
            deferred_delivery latest;
            s.consume(existing_queue("q").prefetch(2), [&](delivery& d) {
                 latest = d.defer();
             }).on_error(on_failure::drop);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                latest.settle(ack);
                latest.settle(drop); // empty by now: nothing
                EXPECT_FALSE(latest);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].dropped, (std::vector<std::string>{"0"}));
            EXPECT_EQ(there.model["q"].acked, (std::vector<std::string>{"1"}));
        },
        automatic());
}

TEST(deferred, a_deferring_handler_that_does_not_defer_has_failed)
{
    for (const bool coroutine : {false, true}) {
        virtually(
            [coroutine](host& there) -> task<> {
                there.model.put("q", 3);
                service s(there.client());
                if (coroutine)
                    s.consume(existing_queue("q"), [](delivery&) -> task<> {
                         co_return;
                     }).on_error(on_failure::drop);
                else
                    s.consume(existing_queue("q"), [](delivery&) {}).on_error(on_failure::drop);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(1s);
                });
                expect_clean(r);
                EXPECT_EQ(there.model["q"].dropped.size(), 3U);
                if (r.result) {
                    EXPECT_EQ(r.result->queues.at(0).metrics.failed, 3U);
                }
            },
            automatic());
    }
}

// S10
TEST(deferred, a_token_whose_channel_is_gone_writes_nothing)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(4), kept.keeper());
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                auto& p = there.latest();
                p.close_channel(p.channel_of<wire::basic::consume>(),
                                wire::reply_code::internal_error, "INTERNAL_ERROR");
                co_await runtime::sleep(10s);
                EXPECT_EQ(kept.all.size(), 8U);
                for (auto& each : kept.all)
                    each.settle(ack);
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model.unknown_tags, 0U);
            EXPECT_EQ(there.model["q"].acked.size(), 4U);
            if (r.result) {
                EXPECT_EQ(r.result->queues.at(0).metrics.stale, 4U);
            }
        },
        automatic());
}

// X3
TEST(deferred, a_drain_waits_for_the_tokens)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(4), kept.keeper());
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                co_await runtime::sleep(1s);
                s.stop();
                co_await runtime::sleep(10s);
                EXPECT_FALSE(r.over);
                for (auto& each : kept.all)
                    each.settle(ack);
                co_await runtime::sleep(1s);
                EXPECT_TRUE(r.over);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 4U);
        },
        automatic());
}

// X4
TEST(deferred, a_drain_that_is_cut_short_abandons_the_tokens)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            s.drain_deadline(1s);
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(4), kept.keeper());
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                kept.all[1].settle(ack);
            });
            EXPECT_TRUE(r.result);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            expect_adds_up(*r.result);
            EXPECT_EQ(r.result->queues.at(0).metrics.abandoned, 3U);
            EXPECT_EQ(there.model["q"].acked.size(), 1U);
            EXPECT_EQ(there.model["q"].lost_unsettled, 3U);
            kept.all[0].settle(ack); // after the end, on the loop that goes on
            co_await runtime::sleep(1s);
            EXPECT_EQ(there.model.unknown_tags, 0U);
        },
        automatic());
}

TEST(deferred, a_handler_that_was_cancelled_after_it_deferred_is_counted_once)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 2);
            service s(there.client());
            s.drain_deadline(1s);
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(4), [&](delivery& d) -> task<> {
                 kept.all.push_back(d.defer());
                 co_await runtime::sleep(1h);
             }).concurrency(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            EXPECT_TRUE(r.result);
            if (!r.result)
                co_return;
            expect_adds_up(*r.result);
            EXPECT_EQ(r.result->queues.at(0).metrics.abandoned, 2U);
        },
        automatic());
}

// One that comes back from its last sleep although everything was cancelled.
TEST(deferred, a_handler_may_defer_after_the_drain_was_cut_short)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 1);
            service s(there.client());
            s.drain_deadline(1s);
            kept_tokens kept;
            s.consume(existing_queue("q").prefetch(4), [&](delivery& d) -> task<> {
                try {
                    co_await runtime::sleep(1h);
                } catch (const runtime::operation_cancelled&) {
                }
                kept.all.push_back(d.defer());
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            EXPECT_TRUE(r.result);
            if (!r.result)
                co_return;
            EXPECT_EQ(kept.all.size(), 1U);
            expect_adds_up(*r.result);
            EXPECT_EQ(r.result->queues.at(0).metrics.abandoned, 1U);
        },
        automatic());
}

TEST(deferred, a_token_may_outlive_its_service_and_its_loop)
{
    kept_tokens kept;
    virtually(
        [&](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            s.drain_deadline(1s);
            s.consume(existing_queue("q").prefetch(4), kept.keeper());
            (void)co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
        },
        automatic());
    ASSERT_EQ(kept.all.size(), 4U);
    EXPECT_EQ(kept.all[3].text(), "3");
    EXPECT_EQ(kept.all[3]->attempt(), 1U);
    std::thread([&] { kept.all[0].settle(ack); }).join();
    kept.all[1].settle(ack);
    kept.all.clear();
}

TEST(deferred, tokens_settle_on_threads_while_the_service_stops)
{
    // Where in the shutdown the threads come is up to the scheduler; whatever it is, every delivery has
    // exactly one end.
    for (int round = 0; round < 20; ++round) {
        auto o = automatic();
        o.shuffle_seed = static_cast<std::uint64_t>(round);
        std::vector<std::thread> threads;
        virtually(
            [&](host& there) -> task<> {
                there.model.put("q", 200);
                service s(there.client());
                s.drain_deadline(round % 2 == 0 ? 1ns : 1s);
                s.consume(existing_queue("q").prefetch(50), [&](delivery& d) {
                    threads.emplace_back(
                        [](deferred_delivery token) {
                            if (token->tag() % 3 != 0)
                                token.settle(ack);
                        },
                        d.defer());
                });
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(1ms);
                });
                EXPECT_TRUE(r.result);
                if (r.result)
                    expect_adds_up(*r.result);
                EXPECT_EQ(there.model.unknown_tags, 0U);
            },
            o);
        for (auto& each : threads)
            each.join();
    }
}

} // namespace
} // namespace acquit::testing
