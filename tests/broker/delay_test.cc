// Rows D1 to D12 and X3, X4 with timers: delayed retries on real queues.
#include "broker.h"

#include <acquit/amqp/wire/properties.h>
#include <acquit/runtime/event.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace acquit;
using namespace acquit::tests;

namespace {

using clock = std::chrono::steady_clock;

/// How late a delayed retry may be on a machine that is busy with other things (README).
constexpr auto late_max = 10s;

bool server_is_4_3(amqp::connection& c)
{
    return c.server_is_at_least(4, 3);
}

/// Each delivery of each message, as the handler saw it.
struct tries {
    struct one {
        clock::time_point at;
        std::uint32_t attempt;
    };
    std::map<std::string, std::vector<one>> of;

    std::size_t add(const delivery& d)
    {
        auto& all = of[std::string(d.text())];
        all.push_back({clock::now(), d.attempt()});
        return all.size();
    }
};

void expect_delayed(const std::vector<tries::one>& each, std::chrono::milliseconds delay)
{
    for (std::size_t i = 1; i < each.size(); ++i) {
        const auto waited = each[i].at - each[i - 1].at;
        EXPECT_GE(waited, delay) << "before delivery " << i + 1;
        EXPECT_LE(waited, delay + late_max) << "before delivery " << i + 1;
    }
}

std::vector<std::uint32_t> attempts_of(const std::vector<tries::one>& each)
{
    std::vector<std::uint32_t> all;
    for (const auto& one : each)
        all.push_back(one.attempt);
    return all;
}

/// A service over a queue that delays each retry by 300 ms, three deliveries in all, then a dead letter.
template <class Queue>
task<> three_delayed_deliveries(place& here, amqp::connection& c, amqp::channel& ch, delay how,
                                std::size_t messages)
{
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    service s{service_options()};
    s.declare_topology(true);
    tries seen;
    s.consume(Queue{queue}.prefetch(64),
              [&](delivery& d) -> outcome {
                  seen.add(d);
                  return retry_after(300ms);
              })
        .max_attempts(3)
        .dead_letter(dead)
        .delay(std::move(how));
    const auto r = co_await while_serving(s, [&]() -> task<> {
        co_await publish(c, queue, messages);
        co_await until_ready(ch, dead, messages);
    });
    EXPECT_EQ(seen.of.size(), messages);
    clock::duration latest{};
    for (const auto& [body, each] : seen.of) {
        EXPECT_EQ(attempts_of(each), (std::vector<std::uint32_t>{1, 2, 3})) << body;
        expect_delayed(each, 300ms);
        for (std::size_t i = 1; i < each.size(); ++i)
            latest = std::max(latest, each[i].at - each[i - 1].at - 300ms);
    }
    fmt::print("late by at most {} ms\n",
               std::chrono::duration_cast<std::chrono::milliseconds>(latest).count());
    EXPECT_EQ((co_await count(ch, dead)).message_count, messages);
    EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    EXPECT_EQ(r.queues.at(0).metrics.retries.delays_dropped, 0U);
    EXPECT_TRUE(r.clean()) << r.text();
    expect_adds_up(r);
}

} // namespace

TEST(D1_in_process, exactly_n_deliveries_each_after_its_delay)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return three_delayed_deliveries<classic_queue>(here, c, ch, delay::none(), 20);
    });
}

TEST(D1_in_process, the_original_is_gone_while_the_copy_waits)
{
    place here;
    const auto queue = here.name();
    const auto rejected = here.name(".rejected");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, rejected, kind::classic);
        service s{service_options()};
        s.declare_topology(true);
        runtime::event again;
        auto& sub = s.consume(
            classic_queue{queue}.dead_letter_exchange("").dead_letter_routing_key(rejected),
            [&](delivery& d) -> outcome {
                if (d.attempt() == 1)
                    return retry_after(2s);
                again.set();
                return ack;
            });
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await until_ready(ch, rejected, 1);
            EXPECT_EQ(sub.metrics().retries.timers_pending, 1U);
            EXPECT_FALSE(again.is_set());
            co_await again.wait();
        });
    });
}

TEST(D3_hold, exactly_n_deliveries_each_after_its_delay_on_a_classic_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return three_delayed_deliveries<classic_queue>(here, c, ch, delay::hold(32), 20);
    });
}

TEST(D3_hold, exactly_n_deliveries_each_after_its_delay_on_a_quorum_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return three_delayed_deliveries<quorum_queue>(here, c, ch, delay::hold(32), 20);
    });
}

TEST(D3_hold, past_its_budget_a_message_waits_in_the_waiting_queue)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        tries seen;
        std::size_t twice = 0;
        runtime::event done;
        auto& sub = s.consume(quorum_queue{queue}.prefetch(16), [&](delivery& d) -> outcome {
                         if (seen.add(d) == 1)
                             return retry_after(1s);
                         if (++twice == 10)
                             done.set();
                         return ack;
                     }).delay(delay::hold(3).overflow_to(delay::dlx_ttl(here.name(".retry"))));
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 10);
            co_await until(ch, "copies", [&] {
                const auto now = sub.metrics().retries;
                return now.held == 3 && now.copies_confirmed == 7;
            });
            co_await done.wait();
        });
        for (const auto& [body, each] : seen.of)
            expect_delayed(each, 1s);
        EXPECT_EQ(r.queues.at(0).metrics.retries.delays_dropped, 0U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(D3_hold, past_its_budget_without_a_waiting_queue_the_delay_is_dropped_and_counted)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 5);
        service s{service_options()};
        tries seen;
        std::size_t acked = 0;
        runtime::event done;
        s.consume(quorum_queue{queue}, [&](delivery& d) -> outcome {
             if (seen.add(d) == 1)
                 return retry_after(500ms);
             if (++acked == 5)
                 done.set();
             return ack;
         }).delay(delay::hold(2));
        const auto r = co_await while_serving(s, [&]() -> task<> { co_await done.wait(); });
        EXPECT_EQ(r.queues.at(0).metrics.retries.delays_dropped, 3U);
    });
}

TEST(D4_dlx_ttl, exactly_n_deliveries_each_after_its_delay_on_a_classic_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return three_delayed_deliveries<classic_queue>(here, c, ch,
                                                       delay::dlx_ttl(here.name(".retry")), 20);
    });
}

TEST(D4_dlx_ttl, exactly_n_deliveries_each_after_its_delay_on_a_quorum_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return three_delayed_deliveries<quorum_queue>(here, c, ch,
                                                      delay::dlx_ttl(here.name(".retry")), 20);
    });
}

TEST(D4_dlx_ttl, a_classic_waiting_queue_serves_as_well)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return three_delayed_deliveries<classic_queue>(
            here, c, ch,
            delay::dlx_ttl(here.name(".retry")).waiting_in(settle::queue_kind::classic), 5);
    });
}

TEST(D4_dlx_ttl, less_than_a_millisecond_becomes_one)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        runtime::event done;
        s.consume(classic_queue{queue}, [&](delivery& d) -> outcome {
             if (d.attempt() == 1)
                 return retry_after(10us);
             const auto death = d.header("x-death");
             EXPECT_TRUE(death.has_value());
             done.set();
             return ack;
         }).delay(delay::dlx_ttl(here.name(".retry")));
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await done.wait();
        });
        (void)ch;
    });
}

namespace {

/// Message 0 is to wait for 2500 ms, message 1 for 200 ms, in this order. Their second deliveries.
task<tries> a_long_and_a_short_one(place& here, amqp::connection& c, delay how)
{
    const auto queue = here.name();
    service s{service_options()};
    s.declare_topology(true);
    tries seen;
    std::size_t second = 0;
    runtime::event done;
    s.consume(quorum_queue{queue}, [&](delivery& d) -> outcome {
         if (seen.add(d) == 1)
             return retry_after(d.text() == "0" ? 2500ms : 200ms);
         if (++second == 2)
             done.set();
         return ack;
     }).delay(std::move(how));
    const auto r = co_await while_serving(s, [&]() -> task<> {
        co_await publish(c, queue, 2);
        co_await done.wait();
    });
    EXPECT_TRUE(r.clean()) << r.text();
    expect_adds_up(r);
    expect_delayed(seen.of.at("0"), 2500ms);
    expect_delayed(seen.of.at("1"), 200ms);
    co_return seen;
}

} // namespace

// s76: what the head of the queue does to those behind it.
TEST(D4_dlx_ttl, a_short_delay_behind_a_long_one_waits_for_it)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        const auto seen =
            co_await a_long_and_a_short_one(here, c, delay::dlx_ttl(here.name(".retry")));
        EXPECT_GE(seen.of.at("1").at(1).at, seen.of.at("0").at(0).at + 2500ms);
    });
}

TEST(D5_buckets, a_short_delay_behind_a_long_one_does_not_wait_for_it)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        const auto seen =
            co_await a_long_and_a_short_one(here, c, delay::buckets({100ms, 500ms, 2000ms}));
        EXPECT_LT(seen.of.at("1").at(1).at, seen.of.at("0").at(1).at);
    });
}

TEST(D5_buckets, exactly_n_deliveries_each_after_its_delay_on_both_kinds_of_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await three_delayed_deliveries<classic_queue>(here, c, ch,
                                                         delay::buckets({100ms, 200ms}), 10);
        co_await three_delayed_deliveries<quorum_queue>(here, c, ch, delay::buckets({100ms, 200ms}),
                                                        10);
    });
}

TEST(D5_buckets, hops_between_the_steps_are_no_business_of_the_handler)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        tries seen;
        runtime::event done;
        s.consume(classic_queue{queue}, [&](delivery& d) -> outcome {
             if (seen.add(d) == 1)
                 return retry_after(750ms); // 400 and three hops of 100, and 50 more
             EXPECT_FALSE(d.header("x-acquit-wait-ms").has_value());
             done.set();
             return ack;
         }).delay(delay::buckets({100ms, 400ms}));
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await done.wait();
        });
        EXPECT_EQ(attempts_of(seen.of.at("0")), (std::vector<std::uint32_t>{1, 2}));
        expect_delayed(seen.of.at("0"), 750ms);
        EXPECT_EQ(r.queues.at(0).metrics.retries.hops, 4U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.copies_confirmed, 5U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(D6_plugin, without_the_plugin_the_start_says_what_to_do)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel&) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{queue}, [](delivery&) { return ack; }).delay(delay::plugin_dme());
        std::string why;
        try {
            (void)co_await s.run();
        } catch (const start_error& e) {
            why = e.what();
        }
        EXPECT_NE(why.find("rabbitmq_delayed_message_exchange"), std::string::npos) << why;
        EXPECT_NE(why.find("delay::dlx_ttl"), std::string::npos) << why;
    });
}

TEST(D7_native, the_server_delays_retries_from_4_3_on)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        tries seen;
        s.consume(quorum_queue{queue},
                  [&](delivery& d) -> outcome {
                      seen.add(d);
                      return retry();
                  })
            .max_attempts(3)
            .dead_letter(dead)
            .delay(delay::native(300ms, 500ms));
        if (!server_is_4_3(c)) {
            std::string why;
            try {
                (void)co_await s.run();
            } catch (const start_error& e) {
                why = e.what();
            }
            EXPECT_NE(why.find("4.3"), std::string::npos) << why;
            EXPECT_NE(why.find("delay::dlx_ttl"), std::string::npos) << why;
            co_return;
        }
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 5);
            co_await until_ready(ch, dead, 5);
        });
        EXPECT_EQ(seen.of.size(), 5U);
        for (const auto& [body, each] : seen.of) {
            EXPECT_EQ(attempts_of(each), (std::vector<std::uint32_t>{1, 2, 3})) << body;
            expect_delayed(each, 290ms); // the server's clock and ours
        }
        expect_adds_up(r);
    });
}

TEST(D8_cap, at_the_limit_a_message_does_not_wait_again)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{queue}, [](delivery&) -> outcome { return retry_after(1h); })
            .max_attempts(1)
            .dead_letter(dead)
            .delay(delay::dlx_ttl(here.name(".retry")));
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 3);
            co_await until_ready(ch, dead, 3); // now, not in an hour
        });
    });
}

TEST(D9_topology, without_declare_topology_a_missing_waiting_queue_fails_the_start)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        service s{service_options()};
        s.consume(classic_queue{queue}, [](delivery&) {
             return ack;
         }).delay(delay::dlx_ttl(here.name(".retry")));
        std::string why;
        try {
            (void)co_await s.run();
        } catch (const start_error& e) {
            why = e.what();
        }
        EXPECT_NE(why.find(".retry"), std::string::npos) << why;
        EXPECT_NE(why.find("404"), std::string::npos) << why;
    });
}

TEST(D12_backoff, retry_itself_is_delayed)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        tries seen;
        s.consume(quorum_queue{queue},
                  [&](delivery& d) -> outcome {
                      seen.add(d);
                      return retry();
                  })
            .max_attempts(3)
            .dead_letter(dead)
            .delay(delay::dlx_ttl(here.name(".retry")))
            .backoff(backoff::fixed(250ms));
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 5);
            co_await until_ready(ch, dead, 5);
        });
        for (const auto& [body, each] : seen.of) {
            EXPECT_EQ(each.size(), 3U);
            expect_delayed(each, 250ms);
        }
    });
}

TEST(S11_failure, a_handler_that_throws_can_be_retried_later)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        tries seen;
        runtime::event done;
        s.consume(classic_queue{queue}, [&](delivery& d) -> outcome {
             if (seen.add(d) == 1)
                 throw std::runtime_error("the first time");
             done.set();
             return ack;
         }).on_error(retry_after(400ms));
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await done.wait();
        });
        expect_delayed(seen.of.at("0"), 400ms);
    });
}

TEST(X3_drain, waits_for_timers_and_publishes_each_when_it_fires)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        auto& sub = s.consume(classic_queue{queue},
                              [](delivery&) -> outcome { return retry_after(1500ms); });
        clock::time_point parked;
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 10);
            co_await until(ch, "timers",
                           [&] { return sub.metrics().retries.timers_pending == 10; });
            parked = clock::now();
        });
        EXPECT_GE(clock::now() - parked, 1s);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 10U);
        EXPECT_EQ(r.timers_published(), 10U);
        EXPECT_EQ(r.timers_lost(), 0U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.timers_early, 0U);
        EXPECT_TRUE(r.clean()) << r.text();
        expect_adds_up(r);
    });
}

TEST(X3_drain, publishes_all_timers_at_once_where_that_was_asked_for)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true).drain_timers(timers_at_drain::publish_now);
        auto& sub =
            s.consume(classic_queue{queue}, [](delivery&) -> outcome { return retry_after(1h); });
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 10);
            co_await until(ch, "timers",
                           [&] { return sub.metrics().retries.timers_pending == 10; });
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 10U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.timers_early, 10U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(X3_drain, timers_beyond_the_deadline_are_published_early_instead_of_lost)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true).drain_deadline(4s);
        auto& sub =
            s.consume(classic_queue{queue}, [](delivery&) -> outcome { return retry_after(1h); });
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 10);
            co_await until(ch, "timers",
                           [&] { return sub.metrics().retries.timers_pending == 10; });
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 10U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.timers_early, 10U);
        EXPECT_FALSE(r.cut_short);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(X4_report, names_the_timers_that_an_abort_loses)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        auto& sub =
            s.consume(classic_queue{queue}, [](delivery&) -> outcome { return retry_after(1h); });
        const auto r = co_await while_serving(s, [&]() -> task<> {
            for (const char* id : {"first", "second"})
                co_await ch.publish_confirmed(
                    {.routing_key = queue, .properties = {.message_id = id}});
            co_await until(ch, "timers", [&] { return sub.metrics().retries.timers_pending == 2; });
            s.abort();
        });
        EXPECT_EQ(r.timers_lost(), 2U);
        EXPECT_FALSE(r.clean());
        EXPECT_NE(r.text().find("LOST: retry to " + queue + ", message id first"),
                  std::string::npos)
            << r.text();
        EXPECT_NE(r.text().find("message id second"), std::string::npos) << r.text();
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
}
