#include "service_support.h"

// How long the end of a service may take, whatever the broker does or leaves undone.
namespace acquit::testing {
namespace {

task<outcome> acks(delivery&)
{
    co_return ack;
}

runtime::time_point now()
{
    return runtime::loop::current().now();
}

/// Starts a service whose broker leaves the first M unanswered, and aborts it.
template <class M>
void aborted_while_unanswered()
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 0);
            there.model["q"];
            bool asked = false;
            there.model.before = [&](peer&, const said& what) {
                const bool silent = what.is<M>();
                asked = asked || silent;
                return silent;
            };
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await runtime::sleep(1s);
                EXPECT_TRUE(asked);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(1900ms);
                EXPECT_TRUE(r.over);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (r.result) {
                EXPECT_TRUE(r.result->cut_short);
                EXPECT_FALSE(r.result->error) << text_of(r.result->error);
            }
        },
        automatic());
}

TEST(service_abort, does_not_wait_for_an_unanswered_declare)
{
    aborted_while_unanswered<wire::queue::declare>();
}

TEST(service_abort, does_not_wait_for_an_unanswered_qos)
{
    aborted_while_unanswered<wire::basic::qos>();
}

TEST(service_abort, does_not_wait_for_an_unanswered_consume)
{
    aborted_while_unanswered<wire::basic::consume>();
}

/// The broker ends the consumer and leaves the next basic.consume unanswered; `end` is called then.
template <class F>
void ended_while_consuming_again(F end)
{
    virtually(
        [&](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.drain_deadline(4s);
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                there.model.before = [](peer&, const said& what) {
                    return what.is<wire::basic::consume>();
                };
                there.model.cancel_consumers("q");
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.latest().count<wire::basic::consume>(), 2U);
                co_await end(s, r);
                EXPECT_TRUE(r.over);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (r.result) {
                EXPECT_TRUE(r.result->cut_short);
                EXPECT_FALSE(r.result->error) << text_of(r.result->error);
            }
        },
        automatic());
}

TEST(service_abort, does_not_wait_for_an_unanswered_consume_of_a_recovery)
{
    ended_while_consuming_again([](service& s, ran&) -> task<> {
        s.abort();
        co_await runtime::sleep(1900ms);
    });
}

TEST(service_abort, of_a_stop_does_not_wait_for_an_unanswered_consume_of_a_recovery)
{
    ended_while_consuming_again([](service& s, ran& r) -> task<> {
        s.stop();
        co_await runtime::sleep(1s);
        EXPECT_FALSE(r.over);
        s.abort();
        co_await settle_down();
    });
}

TEST(service_drain_deadline, bounds_the_wait_for_an_unanswered_consume_of_a_recovery)
{
    ended_while_consuming_again([](service& s, ran& r) -> task<> {
        s.stop();
        co_await runtime::sleep(3900ms);
        EXPECT_FALSE(r.over);
        co_await runtime::sleep(200ms);
    });
}

TEST(service_drain_deadline, bounds_the_wait_for_an_unanswered_verb_of_the_start)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            there.model.before = [](peer&, const said& what) {
                return what.is<wire::basic::consume>();
            };
            service s(there.client());
            s.drain_deadline(4s);
            s.consume(existing_queue("q"), acks);
            const auto r = co_await serving(s, [&]() -> task<> { co_await runtime::sleep(1s); });
            EXPECT_EQ(there.latest().count<wire::basic::consume>(), 1U);
            EXPECT_GE(now(), runtime::time_point(4900ms));
            EXPECT_LE(now(), runtime::time_point(5100ms));
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (r.result) {
                EXPECT_TRUE(r.result->cut_short);
            }
        },
        automatic());
}

/// The broker says nothing any more once it was asked to close the connection.
void be_silent_at_close(host& there)
{
    there.model.before = [](peer& p, const said& what) {
        if (what.is<wire::connection::close>())
            p.freeze();
        return false;
    };
}

TEST(service_abort, does_not_wait_for_an_unanswered_connection_close)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            be_silent_at_close(there);
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                co_await runtime::sleep(1s);
                s.stop();
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.latest().count<wire::connection::close>(), 1U);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(1900ms);
                EXPECT_TRUE(r.over);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            EXPECT_EQ(r.result->finished(), 10U);
            expect_adds_up(*r.result);
        },
        automatic());
}

/// Two subscriptions; the verb M of the drain of the first is never answered.
template <class M>
void one_of_two_drains_hangs(std::uint64_t acked_of_first)
{
    virtually(
        [acked_of_first](host& there) -> task<> {
            there.model.put("a", 1);
            there.model.put("b", 3);
            auto options = there.client();
            options.operation_timeout = 2s;
            service s(options);
            s.consume(existing_queue("a"), acks);
            s.consume(existing_queue("b"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(5s);
                co_return ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                std::uint16_t first = 0; // where a is consumed
                for (const auto& each : there.latest().heard()) {
                    if (each.template is<wire::basic::consume>() &&
                        each.template as<wire::basic::consume>().queue == "a")
                        first = each.channel;
                }
                EXPECT_NE(first, 0);
                there.model.before = [first](peer&, const said& what) {
                    return what.channel == first && what.is<M>();
                };
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_FALSE(r.result->cut_short);
            EXPECT_EQ(there.model["a"].acked.size(), acked_of_first);
            EXPECT_EQ(there.model["b"].acked.size(), 3U);
            EXPECT_EQ(there.model["b"].lost_unsettled, 0U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain_deadline, of_a_cancel_that_times_out_leaves_the_other_drains_alone)
{
    one_of_two_drains_hangs<wire::basic::cancel>(1);
}

TEST(service_drain_deadline, of_a_round_trip_that_times_out_leaves_the_other_drains_alone)
{
    one_of_two_drains_hangs<wire::basic::qos>(1);
}

TEST(service_drain_deadline, is_one_though_the_connection_is_lost_meanwhile)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            s.drain_deadline(4s);
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(1h);
                co_return ack;
            });
            runtime::time_point stopped{};
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                stopped = now();
                s.stop();
                co_await runtime::sleep(3s);
                there.latest().reset();
            });
            EXPECT_GE(now() - stopped, 4s);
            EXPECT_LE(now() - stopped, 4100ms);
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            EXPECT_EQ(r.result->unknown(), 4U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain_deadline, holds_for_the_close_of_the_connection_too)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            be_silent_at_close(there);
            service s(there.client());
            s.drain_deadline(4s);
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                 co_await runtime::sleep(2s);
                 co_return ack;
             }).concurrency(4);
            runtime::time_point stopped{};
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(500ms);
                stopped = now();
            });
            EXPECT_GE(now() - stopped, 3900ms);
            EXPECT_LE(now() - stopped, 4100ms);
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_EQ(r.result->finished(), 4U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain_deadline, of_the_longest_duration_cuts_nothing_short)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            auto options = there.client();
            options.session.heartbeat_s = 0;
            service s(options);
            s.drain_deadline(std::chrono::nanoseconds::max());
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(1h);
                co_return ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 4U);
            if (r.result) {
                EXPECT_GE(r.result->drain_time, 3h);
            }
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
