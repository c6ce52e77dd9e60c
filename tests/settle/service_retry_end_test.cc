#include "service_support.h"

#include <acquit/amqp/wire/table.h>

// Retries that are under way when a service ends, or that its broker does not take.
namespace acquit::testing {
namespace {

using fate = broker_model::publish_fate;

/// The peer whose client publishes.
peer& publisher_of(host& there)
{
    for (std::size_t i = there.connects(); i-- > 0;) {
        if (there.at(i).channel_of<wire::confirm::select>() != 0)
            return there.at(i);
    }
    throw std::runtime_error("nobody publishes");
}

outcome an_hour_then_ack(delivery& d)
{
    return d.attempt() == 1 ? retry_after(1h) : ack;
}

TEST(drain, without_a_consumer_connection_publishes_timers_early_instead_of_losing_them)
{
    for (const auto policy : {timers_at_drain::wait, timers_at_drain::publish_now}) {
        virtually(
            [policy](host& there) -> task<> {
                there.model["q"];
                service s(there.client());
                s.drain_timers(policy);
                s.consume(classic_queue("q"), an_hour_then_ack).max_attempts(5);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    there.model.put("q", 5);
                    co_await settle_down();
                    there.refuse(1000);
                    there.at(0).reset();
                    co_await runtime::sleep(1s);
                    EXPECT_GT(there.refused(), 0U);
                });
                expect_clean(r);
                EXPECT_EQ(r.result->timers_lost(), 0U);
                EXPECT_EQ(r.result->timers_published(), 5U);
                EXPECT_EQ(there.model["q"].ready.size(), 5U);
            },
            automatic());
    }
}

TEST(drain, whose_connection_is_lost_first_publishes_timers_early_as_well)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.consume(classic_queue("q"), an_hour_then_ack).max_attempts(5);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 5);
                co_await settle_down();
                s.stop();
                there.refuse(1000);
                there.at(0).reset();
                co_await settle_down();
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_EQ(r.result->timers_lost(), 0U);
            EXPECT_EQ(r.result->timers_published(), 5U);
        },
        automatic());
}

TEST(drain, begins_early_enough_to_publish_many_timers)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.drain_deadline(4s);
            there.model.on_publish = [](const said&) { return fate{.delay = 400ms}; };
            s.consume(classic_queue("q"), an_hour_then_ack).max_attempts(5);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 4'200); // beyond two windows of unconfirmed copies
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(r.result->timers_lost(), 0U);
            EXPECT_EQ(r.result->timers_published(), 4'200U);
        },
        automatic());
}

TEST(drain, tries_failed_copies_of_timers_again_before_its_deadline)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.drain_deadline(10s);
            auto& loop = runtime::loop::current();
            auto accept_from = runtime::time_point::max();
            there.model.on_publish = [&](const said&) {
                return fate{.what = loop.now() >= accept_from ? fate::kind::accepted
                                                              : fate::kind::nacked};
            };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                 return d.attempt() == 1 ? retry_after(1s) : ack;
             }).max_attempts(5);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 20);
                co_await runtime::sleep(300s); // pauses have grown
                accept_from = loop.now() + 1s;
            });
            expect_clean(r);
            EXPECT_EQ(r.result->timers_lost(), 0U);
            EXPECT_EQ(r.result->timers_published(), 20U);
        },
        automatic());
}

TEST(drain, does_not_wait_for_a_goodbye_to_copies_that_nobody_answers)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.drain_deadline(5s);
            s.consume(classic_queue("q"), [](delivery&) -> outcome { return ack; }).max_attempts(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                publisher_of(there).freeze();
                co_await settle_down();
            });
            expect_clean(r);
        },
        automatic());
}

TEST(drain, gives_nothing_back_that_is_on_its_way_to_the_next_bucket)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.declare_topology(true).drain(drain_policy::give_back);
            there.model.on_publish = [](const said& what) {
                return fate{.delay = what.routing_key == "q" ? 0s : 5s};
            };
            s.consume(classic_queue("q").prefetch(8),
                      [](std::span<delivery>) -> outcome { return ack; })
                .delay(delay::buckets({10s, 100s}))
                .batch({.size = 8, .within = 1h});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                (void)co_await connected(there, [&](auto& c, peer&) -> task<> {
                    amqp::channel publishing(c);
                    co_await publishing.open();
                    wire::table waits;
                    waits.set("x-acquit-wait-ms", "150000");
                    for (const std::string body : {"a", "b", "c"}) {
                        amqp::outgoing message{.routing_key = "q"};
                        if (body == "b")
                            message.properties.headers = waits.view();
                        message.body = std::as_bytes(std::span(body));
                        co_await publishing.publish(message);
                    }
                    co_await publishing.close();
                });
                co_await settle_down();
                EXPECT_EQ(there.model["q"].unsettled, 3U);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].given_back, 2U);
            EXPECT_EQ(there.model.instances("b"), 1U);
            EXPECT_EQ(r.result->given_back(), 2U);
            EXPECT_EQ(r.result->unknown(), 0U) << r.result->text();
        },
        automatic());
}

TEST(service_stop, during_the_connect_for_copies_ends_at_once)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.consume(classic_queue("q"), [](delivery&) -> outcome { return ack; }).max_attempts(2);
            const auto began = runtime::loop::current().now();
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await there.connected(1);
                there.be_silent();
                co_await there.connected(2);
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_LT(runtime::loop::current().now() - began, 3s);
        },
        automatic());
}

TEST(service_start, that_fails_without_a_deadline_of_its_drain_says_why)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.drain_deadline(runtime::duration::max());
            there.model["there"];
            s.consume(classic_queue("there"), an_hour_then_ack).max_attempts(5);
            s.consume(classic_queue("missing"), an_hour_then_ack);
            const auto failure = co_await failure_of(s.run());
            EXPECT_TRUE(as<start_error>(failure)) << text_of(failure);
        },
        automatic());
}

TEST(service, that_is_cancelled_from_outside_leaves_no_copy_and_no_timer)
{
    std::unique_ptr<service> s;
    virtually(
        [&](host& there) -> task<> {
            there.model["q"];
            s = std::make_unique<service>(there.client());
            there.model.on_publish = [](const said&) {
                return fate{.delay = runtime::duration::max()};
            };
            s->consume(classic_queue("q"), [](delivery& d) -> outcome {
                 return number_of(d) % 2 == 0 ? retry() : retry_after(1h);
             }).max_attempts(5);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(*s, r));
                co_await s->started();
                there.model.put("q", 4);
                co_await runtime::sleep(1s);
                tasks.cancel();
            });
            EXPECT_TRUE(as<runtime::operation_cancelled>(r.failure)) << text_of(r.failure);
        },
        automatic());
    s.reset();
}

TEST(copies, unconfirmed_ones_pile_up_no_further_than_their_bound)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            auto& sub =
                s.consume(classic_queue("q").prefetch(100),
                          [](delivery& d) -> outcome { return d.attempt() == 1 ? retry() : ack; })
                    .max_attempts(2)
                    .copies(settle::copies::unconfirmed);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                publisher_of(there).block("low on memory");
                co_await settle_down();
                there.model.put("q", 6'000);
                co_await runtime::sleep(1s);
                EXPECT_LE(sub.metrics().retries.copies_open, 4'200U);
                publisher_of(there).unblock();
                co_await runtime::sleep(60s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 6'000U);
        },
        automatic());
}

TEST(timers, of_a_queue_that_the_server_names_anew_come_to_the_new_one)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.declare_topology(true);
            s.consume(classic_queue("").exclusive(), [](delivery& d) -> outcome {
                return d.attempt() == 1 ? retry_after(5s) : ack;
            });
            std::string first;
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                first = there.model.queues().begin()->first;
                there.model.put(first, 3);
                co_await runtime::sleep(1s);
                there.model.remove(first);
                co_await runtime::sleep(60s);
            });
            expect_clean(r);
            EXPECT_EQ(r.result->timers_published(), 3U);
            std::size_t acked = 0;
            for (const auto& [name, queue] : there.model.queues())
                acked += name != first ? queue.acked.size() : 0;
            EXPECT_EQ(acked, 3U);
        },
        automatic());
}

TEST(D8_limit, holds_for_all_attempts_together_where_a_quorum_queue_counts_copies_from_zero)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.declare_topology(true);
            std::size_t calls = 0;
            s.consume(quorum_queue("q"),
                      [&](delivery& d) -> outcome {
                          ++calls;
                          return d.attempt() < 3 ? retry_after(1s) : retry();
                      })
                .max_attempts(3)
                .dead_letter("q.dead")
                .delay(delay::dlx_ttl());
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 1);
                co_await runtime::sleep(60s);
            });
            expect_clean(r);
            EXPECT_EQ(calls, 3U);
            EXPECT_EQ(there.model["q.dead"].ready.size(), 1U);
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
