#include "service_support.h"

// How a service ends: drained, cut short, or stopped at any moment of its life.
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

// X3, s29, s30, s32, s34, s42, s44: cancel first, then finish everything, then close.
TEST(service_drain, finishes_what_was_received)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 1000);
            service s(there.client());
            s.consume(existing_queue("q").prefetch(60), [](delivery&) -> task<outcome> {
                 co_await runtime::sleep(100ms);
                 co_return ack;
             }).concurrency(4);
            std::size_t at_stop = 0;
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(350ms);
                at_stop = there.model["q"].delivered;
            });
            expect_clean(r);
            auto& q = there.model["q"];
            EXPECT_EQ(q.delivered, at_stop);
            EXPECT_EQ(q.acked.size(), q.delivered);
            EXPECT_EQ(q.lost_unsettled, 0U);
            // The order on the wire: cancel, settlements, a round trip, both closes.
            const auto& heard = there.latest().heard();
            const auto last = heard.size() - 1;
            EXPECT_TRUE(heard[last].is<wire::connection::close>());
            EXPECT_TRUE(heard[last - 1].is<wire::channel::close>());
            EXPECT_TRUE(heard[last - 2].is<wire::basic::qos>());
            EXPECT_TRUE(heard[last - 3].is<wire::basic::ack>());
            EXPECT_EQ(there.latest().count<wire::basic::nack>(), 0U);
        },
        automatic());
}

// s40: give back what nobody began, uncounted (S7).
TEST(service_drain, gives_back_what_nobody_began)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 1000);
            service s(there.client());
            s.drain(drain_policy::give_back);
            s.consume(existing_queue("q").prefetch(60), [](delivery&) -> task<outcome> {
                 co_await runtime::sleep(100ms);
                 co_return ack;
             }).concurrency(4);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(50ms);
            });
            expect_clean(r);
            auto& q = there.model["q"];
            EXPECT_EQ(q.acked.size(), 4U);
            EXPECT_EQ(q.given_back, 56U);
            EXPECT_EQ(q.requeued + q.lost_unsettled, 0U);
            EXPECT_EQ(q.ready.size(), 996U);
            EXPECT_EQ(q.ready.front().body, "4") << "back at its place";
            for (const auto& each : there.latest().heard()) {
                // Those that were running then had lower tags: `multiple` would have covered them.
                if (each.is<wire::basic::nack>()) {
                    EXPECT_FALSE(each.as<wire::basic::nack>().multiple);
                }
            }
            if (r.result) {
                EXPECT_EQ(r.result->given_back(), 56U);
            }
        },
        automatic());
}

// X4, c10, s31
TEST(service_drain, ends_at_its_deadline_and_says_what_is_unknown)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            service s(there.client());
            s.drain_deadline(2s);
            int unwound = 0;
            s.consume(existing_queue("q").prefetch(4), [&](delivery& d) -> task<outcome> {
                 struct count {
                     int& n;
                     ~count() { ++n; }
                 } const at_end{unwound};
                 if (d.text() != "0")
                     co_await runtime::sleep(1h);
                 co_return ack;
             }).concurrency(3);
            const auto began = runtime::loop::current().now();
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            expect_adds_up(*r.result);
            EXPECT_EQ(r.result->finished(), 1U);
            EXPECT_EQ(r.result->unknown(), 4U);
            EXPECT_EQ(there.model["q"].acked.size(), 1U);
            EXPECT_EQ(there.model["q"].lost_unsettled, 4U);
            EXPECT_EQ(unwound, 4);
            EXPECT_LE(runtime::loop::current().now() - began, 3500ms);
            EXPECT_GE(r.result->drain_time, 2s);
        },
        automatic());
}

// X4: a second signal
TEST(service_drain, ends_at_once_when_aborted)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            service s(there.client());
            s.consume(existing_queue("q").prefetch(4), [](delivery&) -> task<outcome> {
                 co_await runtime::sleep(1h);
                 co_return ack;
             }).concurrency(2);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                co_await runtime::sleep(1s);
                s.stop();
                co_await runtime::sleep(1s);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(100ms);
                EXPECT_TRUE(r.over);
            });
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            EXPECT_EQ(r.result->unknown(), 4U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain, ends_soon_when_aborted_with_a_broker_that_says_nothing)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                there.latest().freeze();
                s.stop();
                co_await runtime::sleep(3s);
                EXPECT_FALSE(r.over) << "cancel-ok is waited for";
                s.abort();
                co_await runtime::sleep(3s);
                EXPECT_TRUE(r.over);
            });
        },
        automatic());
}

// An abort also ends the wait for handlers whose connection is gone.
TEST(service_drain, can_be_aborted_while_handlers_run_without_a_connection)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(1h);
                co_return ack;
            });
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                co_await runtime::sleep(1s);
                there.refuse(1000);
                there.latest().reset();
                co_await runtime::sleep(1s);
                s.stop();
                co_await runtime::sleep(1s);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(1s);
                EXPECT_TRUE(r.over);
            });
            if (r.result)
                expect_adds_up(*r.result);
        },
        automatic());
}

// "Lost is never silent": what is decided after the channel is gone was not finished.
TEST(service_drain, reports_what_was_handled_after_its_channel_was_lost)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 2);
            service s(there.client());
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                 co_await runtime::sleep(10s);
                 co_return ack;
             }).concurrency(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                s.stop();
                co_await runtime::sleep(1s); // cancel-ok is through
                auto& p = there.latest();
                p.close_channel(p.channel_of<wire::basic::consume>(),
                                wire::reply_code::precondition_failed,
                                "PRECONDITION_FAILED - timeout");
                co_await settle_down();
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_EQ(r.result->finished(), 0U) << r.result->text();
            EXPECT_EQ(r.result->unknown(), 2U);
            EXPECT_EQ(there.model["q"].acked.size(), 0U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain, of_one_subscription_does_not_suffer_from_the_loss_of_anothers_channel)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("a", 1);
            there.model.put("b", 1);
            service s(there.client());
            s.consume(existing_queue("a"), acks);
            s.consume(existing_queue("b"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(5s);
                co_return ack;
            });
            int rounds = 0;
            there.model.before = [&](peer& p, const said& what) {
                // The round trip at the end of a's drain, answered by the channel's end.
                if (!what.is<wire::basic::qos>() || ++rounds != 3)
                    return false;
                p.close_channel(what.channel, wire::reply_code::internal_error, "INTERNAL_ERROR");
                return true;
            };
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_EQ(there.model["b"].acked.size(), 1U);
            EXPECT_EQ(there.model["b"].lost_unsettled, 0U);
        },
        automatic());
}

// X6, s43
TEST(service_stop, before_the_start_and_twice_ends_cleanly)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            s.stop();
            s.stop();
            ran r;
            co_await run_into(s, r);
            expect_clean(r);
            EXPECT_EQ(there.connects(), 0U);
            s.stop();
            s.abort();
        },
        automatic());
}

// X6: at every moment of connecting, the handshake, declaring and consuming.
TEST(service_stop, ends_cleanly_at_every_moment_of_the_start)
{
    bool consumed = false;
    bool early = false;
    for (int after = 0; after < 12'000; after += 150) {
        SCOPED_TRACE(after);
        auto o = automatic();
        o.stream.delay = 500us;
        virtually(
            [&, after](host& there) -> task<> {
                there.model.put("q", 10);
                service s(there.client());
                s.declare_topology(true);
                s.consume(quorum_queue("q").prefetch(3), acks);
                s.consume(classic_queue("other"), acks_plainly);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await runtime::sleep(std::chrono::microseconds(after));
                });
                expect_clean(r);
                auto& q = there.model["q"];
                EXPECT_EQ(q.lost_unsettled, 0U) << "a drain leaves nothing unsettled";
                EXPECT_EQ(q.acked.size(), q.delivered);
                EXPECT_EQ(q.consumers, 0U);
                consumed = consumed || !q.acked.empty();
                early = early || q.delivered == 0;
            },
            o);
    }
    EXPECT_TRUE(consumed);
    EXPECT_TRUE(early);
}

// X6: at every moment of a reconnect, pauses included.
TEST(service_stop, ends_cleanly_at_every_moment_of_a_reconnect)
{
    for (int after = 0; after < 60; ++after) {
        SCOPED_TRACE(after);
        auto o = automatic();
        o.stream.delay = 2ms;
        virtually(
            [after](host& there) -> task<> {
                there.model.put("q", 100);
                service s(there.client());
                s.reconnect_backoff(backoff::fixed(10ms));
                s.consume(existing_queue("q").prefetch(3), [](delivery&) -> task<outcome> {
                    co_await runtime::sleep(5ms);
                    co_return ack;
                });
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(20ms);
                    there.refuse(1);
                    there.latest().reset();
                    co_await runtime::sleep(std::chrono::milliseconds(after));
                });
                EXPECT_FALSE(r.failure) << text_of(r.failure);
                if (r.result)
                    expect_adds_up(*r.result);
                EXPECT_EQ(there.model.unknown_tags, 0U);
                EXPECT_EQ(there.model["q"].consumers, 0U);
            },
            o);
    }
}

// A consumer that was asked for anew while the stop came is cancelled like any other.
TEST(service_stop, while_consuming_again_leaves_no_unknown_consumer)
{
    for (int after = 0; after < 40; ++after) {
        SCOPED_TRACE(after);
        auto o = automatic();
        o.stream.delay = 5ms;
        virtually(
            [after](host& there) -> task<> {
                there.model.put("q", 5);
                service s(there.client());
                s.consume(existing_queue("q").prefetch(3), acks);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(50ms);
                    there.model.cancel_consumers("q");
                    there.model.put("q", 5);
                    while (s[0].state() != health::consuming || there.model["q"].consumers == 0) {
                        if (there.latest().count<wire::basic::consume>() == 2)
                            break;
                        co_await runtime::sleep(1ms);
                    }
                    co_await runtime::sleep(std::chrono::milliseconds(after));
                });
                expect_clean(r);
                EXPECT_EQ(there.model["q"].lost_unsettled, 0U);
                EXPECT_EQ(there.model["q"].acked.size(), there.model["q"].delivered);
            },
            o);
    }
}

} // namespace
} // namespace acquit::testing
