#include "service_support.h"

#include <random>
#include <set>

// What a service does when channels, consumers and connections go.
namespace acquit::testing {
namespace {

task<outcome> acks(delivery&)
{
    co_return ack;
}

/// A handler that waits until the test lets it decide.
struct gate {
    runtime::event open;
    int begun = 0;
    auto handler()
    {
        return [this](delivery&) -> task<outcome> {
            ++begun;
            co_await open.wait();
            co_return ack;
        };
    }
};

// c13, c14, c15, s1, s3, s4, s6, s10, s12: a token of the old connection writes nothing.
TEST(service_recovery, drops_settlements_of_a_connection_that_is_gone)
{
    for (const bool reset : {true, false}) {
        virtually(
            [reset](host& there) -> task<> {
                there.model.put("q", 10);
                service s(there.client());
                gate g;
                s.consume(existing_queue("q").prefetch(10), g.handler()).concurrency(5);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await settle_down();
                    EXPECT_EQ(g.begun, 5);
                    if (reset)
                        there.latest().reset();
                    else
                        there.latest().close(wire::reply_code::connection_forced, "restart");
                    co_await there.connected(2);
                    co_await s.started();
                    co_await settle_down();
                    g.open.set();
                    co_await runtime::sleep(1s);
                });
                EXPECT_TRUE(r.result) << text_of(r.failure);
                if (!r.result)
                    co_return;
                expect_adds_up(*r.result);
                const auto& m = r.result->queues[0].metrics;
                EXPECT_EQ(m.stale, 5U);
                EXPECT_EQ(m.dropped_unhandled, 5U)
                    << "s52: what waited is dropped with its connection";
                EXPECT_EQ(r.result->finished(), 10U);
                EXPECT_EQ(r.result->reconnects, 1U);
                auto& q = there.model["q"];
                EXPECT_EQ(q.acked.size(), 10U);
                EXPECT_EQ(there.model.unknown_tags, 0U);
                for (const auto& each : there.latest().heard()) {
                    if (each.is<wire::basic::ack>()) {
                        EXPECT_NE(each.as<wire::basic::ack>().delivery_tag, 0U);
                    }
                }
            },
            automatic());
    }
}

// c18, s2, s46, s57, s5: the channel is opened again, alone, with exactly one consumer.
TEST(service_recovery, reopens_a_channel_without_touching_the_connection)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 20);
            service s(there.client());
            gate g;
            s.consume(existing_queue("q").prefetch(8), g.handler()).concurrency(4);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await settle_down();
                auto& p = there.latest();
                p.close_channel(
                    p.channel_of<wire::basic::consume>(), wire::reply_code::precondition_failed,
                    "PRECONDITION_FAILED - delivery acknowledgement on channel 2 timed out");
                co_await runtime::sleep(0ns);
                co_await settle_down();
                EXPECT_EQ(s[0].state(), health::reconnecting);
                EXPECT_EQ(g.begun, 4) << "s52: nothing of the old channel is handled any more";
                g.open.set();
                while (s[0].state() != health::consuming)
                    co_await runtime::sleep(10ms);
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.connects(), 1U);
                EXPECT_EQ(there.model["q"].consumers, 1U);
            });
            expect_clean(r);
            if (!r.result)
                co_return;
            EXPECT_EQ(r.result->queues[0].metrics.stale, 4U);
            EXPECT_EQ(r.result->queues[0].metrics.reopened, 1U);
            EXPECT_EQ(there.model["q"].acked.size(), 20U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
        },
        automatic());
}

// s47: nothing but close-ok for the old channel.
TEST(service_recovery, says_nothing_more_on_a_channel_that_was_closed)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 20);
            service s(there.client());
            s.consume(existing_queue("q").prefetch(8), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(1ms);
                co_return ack;
            });
            (void)co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(3ms);
                auto& p = there.latest();
                p.close_channel(p.channel_of<wire::basic::consume>(),
                                wire::reply_code::precondition_failed, "x");
                co_await runtime::sleep(100us);
                s.stop();
            });
            // Whatever was said on a channel that was not open would have failed the peer.
            EXPECT_EQ(there.latest().count<wire::connection::close>(), 1U);
        },
        automatic());
}

// c66, s53, s54, s36: the consumer is made again; what it had delivered is still settled.
TEST(service_recovery, consumes_again_after_the_broker_ended_the_consumer)
{
    for (const char* version : {"4.0.5", "4.3.0"}) {
        SCOPED_TRACE(version);
        virtually(
            [version](host& there) -> task<> {
                there.model.put("q", 10);
                service s(there.client());
                gate g;
                s.consume(existing_queue("q").prefetch(4), g.handler()).concurrency(4);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await settle_down();
                    there.model.cancel_consumers("q");
                    co_await settle_down();
                    EXPECT_EQ(s[0].state(), health::reconnecting);
                    g.open.set();
                    while (s[0].state() != health::consuming)
                        co_await runtime::sleep(10ms);
                    co_await runtime::sleep(1s);
                    EXPECT_EQ(there.model["q"].consumers, 1U);
                });
                expect_clean(r);
                if (!r.result)
                    co_return;
                EXPECT_EQ(there.model["q"].acked.size(), 10U);
                EXPECT_EQ(r.result->queues[0].metrics.stale, 0U);
                EXPECT_EQ(there.model.unknown_tags, 0U);
                std::vector<std::string> tags;
                for (const auto& each : there.latest().heard()) {
                    if (each.is<wire::basic::consume>())
                        tags.emplace_back(each.as<wire::basic::consume>().consumer_tag);
                }
                EXPECT_EQ(tags.size(), 2U);
                if (tags.size() == 2) {
                    EXPECT_NE(tags[0], tags[1]);
                }
                // s56; one more in the drain
                EXPECT_EQ(there.latest().count<wire::basic::cancel>(), version[2] == '3' ? 2U : 1U);
            },
            automatic(version));
    }
}

// s53, s54: and goes on trying while the queue is missing.
TEST(service_recovery, waits_for_a_queue_that_was_deleted)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 1);
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await settle_down();
                there.model.remove("q");
                co_await runtime::sleep(10s);
                EXPECT_EQ(s[0].state(), health::reconnecting);
                there.model.put("q", 5);
                co_await runtime::sleep(60s);
                EXPECT_EQ(s[0].state(), health::consuming);
                EXPECT_EQ(there.model["q"].acked.size(), 5U);
                EXPECT_EQ(there.connects(), 1U);
            });
            expect_clean(r);
        },
        automatic());
}

// A consumer was ended, and then the connection goes with deliveries in hand: their tokens are stale.
TEST(service_recovery, forgets_the_channel_also_when_no_consumer_was_left_on_it)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            s.reconnect_backoff(backoff::fixed(100ms));
            gate g;
            s.consume(existing_queue("q").prefetch(4), g.handler()).concurrency(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await settle_down();
                there.model.cancel_consumers("q");
                co_await settle_down();
                there.latest().reset();
                co_await settle_down();
                g.open.set();
                co_await runtime::sleep(5s);
                EXPECT_EQ(there.model["q"].acked.size(), 4U);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            expect_adds_up(*r.result);
            EXPECT_EQ(r.result->queues[0].metrics.stale, 2U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
        },
        automatic());
}

// A consume whose answer does not come: the broker may have a consumer that nobody here knows.
TEST(service_recovery, gives_up_a_channel_whose_consume_was_not_answered)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            auto options = there.client();
            options.operation_timeout = 2s;
            service s(options);
            s.consume(existing_queue("q").prefetch(4), acks);
            int consumes = 0;
            there.model.before = [&](peer& p, const said& what) {
                if (!what.is<wire::basic::consume>() || ++consumes != 2)
                    return false;
                (void)p; // neither answered nor refused
                return true;
            };
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await settle_down();
                there.model.cancel_consumers("q");
                co_await runtime::sleep(30s);
                EXPECT_EQ(s[0].state(), health::consuming);
                there.model.put("q", 10);
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.model["q"].acked.size(), 20U);
                EXPECT_EQ(there.connects(), 1U);
            });
            expect_clean(r);
            EXPECT_EQ(consumes, 3);
        },
        automatic());
}

// c16
TEST(service_recovery, tries_again_when_the_first_connects_are_refused)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 5);
            there.refuse(3);
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(there.refused(), 3U);
            EXPECT_EQ(there.model["q"].acked.size(), 5U);
            EXPECT_EQ(s.reconnects(), 0U) << "none was lost";
        },
        automatic());
}

TEST(service_recovery, counts_a_reconnect_once_however_often_it_was_refused)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 5);
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.refuse(5);
                there.latest().reset();
                co_await there.connected(2);
                co_await runtime::sleep(1s);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_EQ(there.refused(), 5U);
            EXPECT_EQ(s.reconnects(), 1U);
        },
        automatic());
}

TEST(service_start, gives_up_at_its_deadline)
{
    virtually(
        [](host& there) -> task<> {
            there.refuse(1'000'000);
            service s(there.client());
            s.start_deadline(20s);
            s.consume(existing_queue("q"), acks);
            const auto began = runtime::loop::current().now();
            ran r;
            co_await run_into(s, r);
            EXPECT_TRUE(as<amqp::connection_error>(r.failure)) << text_of(r.failure);
            EXPECT_GE(runtime::loop::current().now() - began, 20s);
            EXPECT_LE(runtime::loop::current().now() - began, 60s);
        },
        automatic());
}

TEST(service_start, fails_at_once_when_the_login_is_refused)
{
    virtually(
        [](host& there) -> task<> {
            auto options = there.client();
            options.session.password = "wrong";
            service s(options);
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await run_into(s, r);
            const auto e = as<amqp::connection_error>(r.failure);
            EXPECT_TRUE(e) << text_of(r.failure);
            if (e) {
                EXPECT_EQ(e->code(), 403);
            }
            EXPECT_EQ(there.connects(), 1U);
        },
        automatic());
}

// X1: the cause is named, and everything that was started is undone.
TEST(service_start, unwinds_when_the_last_of_several_queues_is_missing)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("a", 5);
            there.model.put("b", 5);
            service s(there.client());
            gate g;
            s.consume(existing_queue("a"), g.handler());
            s.consume(existing_queue("b"), g.handler());
            s.consume(existing_queue("missing"), g.handler());
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn([](gate& each) -> task<> {
                    co_await runtime::sleep(5s);
                    each.open.set(); // what had begun is waited for
                }(g));
                ran r;
                co_await run_into(s, r);
                EXPECT_TRUE(as<start_error>(r.failure)) << text_of(r.failure);
                EXPECT_NE(text_of(r.failure).find("\"missing\""), std::string::npos)
                    << text_of(r.failure);
                EXPECT_NE(text_of(r.failure).find("404"), std::string::npos) << text_of(r.failure);
            });
            auto& p = there.latest();
            EXPECT_EQ(p.count<wire::connection::close>(), 1U);
            EXPECT_EQ(there.model["a"].consumers + there.model["b"].consumers, 0U);
            // What had been received was handled, and its settlements arrived before the close.
            EXPECT_EQ(there.model["a"].acked.size(), 5U);
            EXPECT_EQ(there.model["b"].acked.size(), 5U);
        },
        automatic());
}

// X1: exchanges, queue, bindings, qos, consume.
TEST(service_start, declares_in_order_and_only_when_told)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.declare_topology(true);
            s.exchange(topic_exchange("events"));
            s.consume(classic_queue("q").bind("events", "a.#"), acks);
            expect_clean(co_await serving(s, [&]() -> task<> { co_await s.started(); }));
            std::vector<std::string> order;
            for (const auto& each : there.latest().heard()) {
                if (each.channel != 0 && !each.is<wire::channel::open>() &&
                    !each.is<wire::channel::close>())
                    order.emplace_back(wire::method_name(each.id));
            }
            order.resize(5);
            EXPECT_EQ(order,
                      (std::vector<std::string>{"exchange.declare", "queue.declare", "queue.bind",
                                                "basic.qos", "basic.consume"}));
            for (const auto& each : there.latest().heard()) {
                if (each.is<wire::basic::qos>()) {
                    EXPECT_FALSE(each.as<wire::basic::qos>().global);
                }
            }
        },
        automatic());
}

TEST(service_start, checks_and_creates_nothing_without_declare_topology)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 0);
            there.model["q"];
            service s(there.client());
            s.consume(classic_queue("q"), acks);
            expect_clean(co_await serving(s, [&]() -> task<> { co_await s.started(); }));
            EXPECT_EQ(there.latest().count<wire::queue::declare>(), 1U);
            for (const auto& each : there.latest().heard()) {
                if (each.is<wire::queue::declare>()) {
                    EXPECT_TRUE(each.as<wire::queue::declare>().passive);
                }
            }
        },
        automatic());
}

// c17: twenty consumers, one of which is refused once after the reconnect.
TEST(service_recovery, brings_back_every_one_of_its_consumers)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            for (int i = 0; i < 20; ++i) {
                there.model["q" + std::to_string(i)];
                s.consume(existing_queue("q" + std::to_string(i)), acks);
            }
            bool refused = false;
            there.model.before = [&](peer& p, const said& what) {
                if (there.connects() < 2 || refused || !what.is<wire::basic::consume>() ||
                    what.as<wire::basic::consume>().queue != "q7")
                    return false;
                refused = true;
                p.close_channel(what.channel, wire::reply_code::not_found,
                                "NOT_FOUND - leader is elected");
                return true;
            };
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.latest().reset();
                co_await there.connected(2);
                co_await runtime::sleep(120s);
                for (int i = 0; i < 20; ++i) {
                    EXPECT_EQ(there.model["q" + std::to_string(i)].consumers, 1U) << i;
                    EXPECT_EQ(s[static_cast<std::size_t>(i)].state(), health::consuming) << i;
                }
                EXPECT_TRUE(refused);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
        },
        automatic());
}

// All at once, at random, by seed: no message is lost, none is settled on a wrong channel.
TEST(service_recovery, loses_nothing_whatever_breaks)
{
    for (unsigned seed = 1; seed <= 15; ++seed) {
        SCOPED_TRACE(seed);
        auto o = automatic(seed % 2 == 0 ? "4.3.0" : "3.10.8");
        o.shuffle_seed = seed;
        o.stream.delay = std::chrono::microseconds(seed * 50);
        virtually(
            [seed](host& there) -> task<> {
                std::mt19937 random(seed);
                there.model.put("q", 400);
                service s(there.client());
                s.reconnect_backoff(backoff::fixed(20ms));
                s.consume(existing_queue("q").prefetch(20), [&](delivery&) -> task<outcome> {
                     co_await runtime::sleep(std::chrono::microseconds(random() % 5000));
                     co_return random() % 10 == 0 ? retry() : ack;
                 }).concurrency(8);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    for (int i = 0; i < 12; ++i) {
                        co_await runtime::sleep(std::chrono::milliseconds(random() % 60));
                        auto& p = there.latest();
                        switch (random() % 5) {
                        case 0:
                            if (!p.is_over())
                                p.reset();
                            break;
                        case 1:
                            if (p.session().is_open())
                                p.close(wire::reply_code::connection_forced, "restart");
                            break;
                        case 4: // c11: in the middle of a frame
                            if (!p.is_over())
                                p.cut_after(1 + random() % 300);
                            break;
                        case 2:
                            there.model.cancel_consumers("q");
                            break;
                        default:
                            if (const auto n = p.channel_of<wire::basic::consume>();
                                p.session().channel(n) == amqp::channel_state::open)
                                p.close_channel(n, wire::reply_code::precondition_failed, "x");
                        }
                    }
                    co_await runtime::sleep(300s);
                });
                EXPECT_FALSE(r.failure) << text_of(r.failure);
                if (!r.result)
                    co_return;
                expect_adds_up(*r.result);
                auto& q = there.model["q"];
                EXPECT_EQ(q.acked.size(), 400U);
                EXPECT_EQ(std::set<std::string>(q.acked.begin(), q.acked.end()).size(), 400U);
                EXPECT_EQ(q.unsettled + q.ready.size(), 0U);
                EXPECT_EQ(there.model.unknown_tags, 0U);
                EXPECT_GE(r.result->finished(), 400U)
                    << "what is written just before an end may be lost";
            },
            o);
    }
}

} // namespace
} // namespace acquit::testing
