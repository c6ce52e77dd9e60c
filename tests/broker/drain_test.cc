// Rows X3 to X6 within one process, and the field cases of stopping: s28, s30, s32, s37.
#include "broker.h"
#include "tap.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>

#include <gtest/gtest.h>

#include <set>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

TEST(X3_drain, s28_five_hundred_single_acks_right_before_the_close_all_take_effect)
{
    place here;
    const auto queue = here.name();
    constexpr std::size_t total = 500;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, total);
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            runtime::event finish_first;
            runtime::event finish_rest;
            // The open first delivery keeps the acks of the others from being one `multiple`.
            s.consume(existing_queue{queue}.prefetch(total), [&](delivery& d) -> task<outcome> {
                 if (number_in(d.text()) == 0)
                     co_await finish_first.wait();
                 else
                     co_await finish_rest.wait();
                 co_return ack;
             }).concurrency(total);
            std::optional<report> r;
            tasks.spawn(detail::into(s.run(), r));
            co_await s.started();
            co_await until(ch, "all deliveries",
                           [&] { return s[0].metrics().in_handler == total; });
            s.stop();
            co_await until_draining(ch, s);
            finish_rest.set();
            co_await until(ch, "all acks but one",
                           [&] { return line.times(wire::id_of<wire::basic::ack>) >= total - 1; });
            finish_first.set();
            co_await until(ch, "the report", [&] { return r.has_value(); });
            EXPECT_TRUE(r->clean()) << r->text();
            expect_adds_up(*r);
            EXPECT_GE(line.times(wire::id_of<wire::basic::ack>), total - 1)
                << "they were to be singles";
            tasks.cancel();
        });
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U) << "acked messages came back";
    });
}

TEST(X3_drain, s30_with_a_prefetch_of_one_nothing_more_is_pulled_in)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 100);
        service s{service_options()};
        runtime::event begun;
        runtime::event finish;
        s.consume(existing_queue{queue}.prefetch(1), [&](delivery&) -> task<outcome> {
            begun.set();
            co_await finish.wait();
            co_return ack;
        });
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await begun.wait();
            s.stop();
            co_await until_draining(ch, s);
            finish.set();
        });
        EXPECT_EQ(r.received(), 1U);
        EXPECT_EQ(r.queues.at(0).metrics.acked, 1U);
        expect_adds_up(r);
        const auto rest = co_await take_all(ch, queue);
        EXPECT_EQ(rest.size(), 99U);
        for (const auto& m : rest)
            EXPECT_FALSE(m.redelivered) << m.body_text();
    });
}

TEST(X3_drain, s32_what_was_received_is_handled_and_the_backlog_stays_where_it_is)
{
    for (const auto policy : {drain_policy::finish_received, drain_policy::give_back}) {
        SCOPED_TRACE(policy == drain_policy::give_back ? "give back" : "finish");
        place here;
        const auto queue = here.name();
        const auto other = here.name(".other");
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, kind::classic);
            co_await make_queue(ch, other, kind::quorum);
            co_await publish(c, queue, 200);
            co_await publish(c, other, 3);
            service s{service_options()};
            s.drain(policy);
            std::multiset<std::size_t> handled;
            runtime::event finish;
            const auto handler = [&](delivery& d) -> task<outcome> {
                co_await finish.wait();
                handled.insert(number_in(d.text()));
                co_return ack;
            };
            s.consume(existing_queue{queue}.prefetch(50), handler).concurrency(5);
            s.consume(other, handler).concurrency(10);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "a full window", [&] {
                    return s[0].metrics().received == 50 && s[1].metrics().received == 3;
                });
                s.stop();
                co_await until_draining(ch, s);
                if (policy == drain_policy::give_back)
                    co_await until_ready(ch, queue, 195);
                finish.set();
            });
            const std::size_t from_queue = policy == drain_policy::give_back ? 5 : 50;
            EXPECT_EQ(r.received(), 53U);
            EXPECT_EQ(r.finished(), from_queue + 3);
            EXPECT_EQ(r.given_back(), 50 - from_queue);
            EXPECT_EQ(r.unknown(), 0U);
            EXPECT_TRUE(r.clean()) << r.text();
            expect_adds_up(r);
            EXPECT_EQ(handled.size(), from_queue + 3);
            std::set<std::size_t> rest;
            for (const auto& m : co_await take_all(ch, queue))
                rest.insert(number_in(m.body_text()));
            EXPECT_EQ(rest.size(), 200 - from_queue);
            EXPECT_FALSE(rest.contains(0));
            EXPECT_EQ((co_await take_all(ch, other)).size(), 0U);
        });
    }
}

TEST(X3_drain, s37_an_ack_right_before_the_close_of_the_connection_arrives)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 1);
            auto m = co_await ch.get(queue);
            require(m.has_value(), "a message");
            ch.ack(m->delivery_tag);
            co_await c.close();
        });
        here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
            EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
        });
    }
}

TEST(X4_deadline, ends_a_drain_whose_handlers_do_not_and_says_so)
{
    for (const bool by_abort : {false, true}) {
        SCOPED_TRACE(by_abort ? "abort" : "deadline");
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, kind::quorum);
            co_await publish(c, queue, 10);
            service s{service_options()};
            if (!by_abort)
                s.drain_deadline(50ms);
            runtime::event never;
            std::size_t cancelled = 0;
            s.consume(existing_queue{queue}.prefetch(8), [&](delivery& d) -> task<outcome> {
                 if (number_in(d.text()) == 0)
                     co_return ack;
                 try {
                     co_await never.wait();
                 } catch (const operation_cancelled&) {
                     ++cancelled;
                     throw;
                 }
                 co_return ack;
             }).concurrency(4);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "nine deliveries", [&] { return s[0].metrics().received == 9; });
                s.stop();
                if (!by_abort)
                    co_return;
                co_await until_draining(ch, s);
                s.abort();
            });
            EXPECT_TRUE(r.cut_short);
            EXPECT_FALSE(r.clean());
            EXPECT_EQ(cancelled, 4U);
            EXPECT_EQ(r.finished(), 1U);
            EXPECT_EQ(r.unknown(), 8U);
            EXPECT_EQ(r.queues.at(0).metrics.abandoned, 8U);
            expect_adds_up(r);
            co_await until_ready(ch, queue, 9); // message 0 was acked all the same
        });
    }
}

TEST(X6_stop, twice_before_the_start_and_after_the_end_is_harmless)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        {
            service s{service_options()};
            s.consume(queue, [](delivery&) { return ack; });
            s.stop();
            s.stop();
            const auto r = co_await s.run();
            EXPECT_TRUE(r.clean());
            EXPECT_EQ(r.received(), 0U);
            s.stop();
        }
        {
            service s{service_options()};
            s.consume(queue, [](delivery&) { return ack; });
            const auto r = co_await while_serving(s, [&]() -> task<> {
                s.stop();
                s.stop();
                co_return;
            });
            EXPECT_TRUE(r.clean());
            s.stop();
            s.abort();
        }
    });
}

TEST(X6_stop, at_any_step_of_the_start_ends_cleanly)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 30);
        tap line{runtime::loop::current()};
        std::uint64_t acked = 0;
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            for (std::size_t step = 0; step < 10; ++step) {
                SCOPED_TRACE(step);
                service s{line.options()};
                s.declare_topology(true);
                s.consume(quorum_queue{queue}.prefetch(2), [](delivery&) { return ack; });
                std::optional<report> r;
                const std::size_t connection = line.connections();
                tasks.spawn(detail::into(s.run(), r));
                co_await until(ch, "the step", [&] {
                    return line.connections() > connection &&
                           line.methods(connection).size() >= step;
                });
                s.stop();
                co_await until(ch, "the end", [&] { return r.has_value(); });
                EXPECT_TRUE(r->clean()) << r->text();
                expect_adds_up(*r);
                acked += r->queues.at(0).metrics.acked;
            }
            tasks.cancel();
        });
        co_await until_ready(ch, queue, 30 - acked);
        for (const auto& m : co_await take_all(ch, queue))
            EXPECT_EQ(header_of(m, "x-delivery-count").value_or(0), 0) << m.body_text();
    });
}

TEST(X6_stop, during_a_reconnect_ends_at_once)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            s.reconnect_backoff(backoff::fixed(1h));
            s.consume(queue, [](delivery&) { return ack; });
            std::optional<report> r;
            tasks.spawn(detail::into(s.run(), r));
            co_await s.started();
            line.refuse(true);
            line.cut();
            co_await until(ch, "notice",
                           [&] { return s[0].state() == settle::health::reconnecting; });
            s.stop();
            co_await until(ch, "the report", [&] { return r.has_value(); });
            EXPECT_FALSE(r->cut_short);
            tasks.cancel();
        });
    });
}
