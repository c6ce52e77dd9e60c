// Row S10 and C8: what happens to deliveries and consumers when a connection, a channel, a queue or
// a consumer is taken away. Field cases s36, s56, c13.
#include "broker.h"
#include "tap.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

TEST(S10_stale, outcomes_of_a_lost_connection_are_not_written_on_the_next_one)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 5);
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            s.reconnect_backoff(backoff::fixed(1ms));
            std::multiset<std::size_t> first;
            std::multiset<std::size_t> second;
            runtime::event finish_first;
            runtime::event finish_second;
            std::size_t finished_late = 0;
            s.consume(existing_queue{queue}.prefetch(20), [&](delivery& d) -> task<outcome> {
                 const auto n = number_in(d.text());
                 if (!d.redelivered()) {
                     first.insert(n);
                     co_await finish_first.wait();
                     EXPECT_EQ(number_in(d.text()), n) << "the bytes went with the connection";
                     ++finished_late;
                     co_return n % 2 == 0 ? ack : drop;
                 }
                 second.insert(n);
                 co_await finish_second.wait();
                 co_return ack;
             }).concurrency(20);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "five deliveries", [&] { return first.size() == 5; });
                line.cut();
                co_await until(ch, "all of them again", [&] { return second.size() == 5; });
                // Now the tags of the old deliveries are those of new, unsettled ones.
                finish_first.set();
                co_await until(ch, "the late outcomes", [&] { return finished_late == 5; });
                co_await ch.barrier();
                EXPECT_EQ(line.times(wire::id_of<wire::basic::ack>), 0U);
                EXPECT_EQ(line.times(wire::id_of<wire::basic::reject>), 0U);
                finish_second.set();
            });
            EXPECT_EQ(second, (std::multiset<std::size_t>{0, 1, 2, 3, 4}))
                << "each again, exactly once";
            const auto& m = r.queues.at(0).metrics;
            EXPECT_EQ(m.stale, 5U);
            EXPECT_EQ(m.received, 10U);
            EXPECT_EQ(r.finished(), 5U);
            EXPECT_EQ(r.unknown(), 5U);
            EXPECT_EQ(r.reconnects, 1U);
            EXPECT_EQ(line.times(wire::id_of<wire::basic::reject>), 0U);
            tasks.cancel();
        });
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
    });
}

TEST(S10_stale, deliveries_that_no_handler_took_are_dropped_with_their_connection)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await publish(c, queue, 10);
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            s.reconnect_backoff(backoff::fixed(1ms));
            std::multiset<std::size_t> handled;
            runtime::event go_on;
            runtime::event all;
            s.consume(existing_queue{queue}.prefetch(10), [&](delivery& d) -> task<outcome> {
                 co_await go_on.wait();
                 handled.insert(number_in(d.text()));
                 if (handled.size() == 12)
                     all.set();
                 co_return ack;
             }).concurrency(2);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "ten deliveries", [&] { return s[0].metrics().received == 10; });
                line.cut();
                co_await until(ch, "the next connection",
                               [&] { return s[0].metrics().received == 20; });
                go_on.set();
                co_await all.wait();
            });
            const auto& m = r.queues.at(0).metrics;
            EXPECT_EQ(m.dropped_unhandled, 8U);
            EXPECT_EQ(m.stale, 2U);
            EXPECT_EQ(handled.size(), 12U); // the two that were in a handler twice, the rest once
            expect_adds_up(r);
            tasks.cancel();
        });
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
    });
}

TEST(S10_stale, a_connection_lost_in_the_middle_of_a_drain_ends_it_with_a_report)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 6);
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            runtime::event finish;
            s.consume(existing_queue{queue}.prefetch(6), [&](delivery&) -> task<outcome> {
                 co_await finish.wait();
                 co_return ack;
             }).concurrency(3);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "six deliveries", [&] { return s[0].metrics().received == 6; });
                s.stop();
                co_await until_draining(ch, s);
                line.cut();
                co_await until_ready(ch, queue, 6);
                finish.set();
            });
            EXPECT_FALSE(r.clean());
            EXPECT_NE(r.error, nullptr);
            EXPECT_EQ(r.finished(), 0U) << r.text();
            EXPECT_EQ(r.unknown(), 6U) << r.text();
            tasks.cancel();
        });
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 6U);
    });
}

namespace {

// RabbitMQ 4.3, now and then: a quorum queue that is declared while the one of that name before it is
// still going away fails its first consumer, and the broker closes the connection for that (541,
// "failed consuming from quorum queue"). The service connects again then, which is another story:
// true is returned.
bool a_deleted_queue_is_consumed_again(kind k)
{
    bool broker_failed = false;
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            s.declare_topology(true);
            std::multiset<std::size_t> handled;
            runtime::event finish;
            runtime::event again;
            std::size_t begun = 0;
            const auto handler = [&](delivery& d) -> task<outcome> {
                ++begun;
                if (number_in(d.text()) == 0)
                    co_await finish.wait();
                handled.insert(number_in(d.text()));
                if (handled.size() == 2)
                    again.set();
                co_return ack;
            };
            if (k == kind::quorum)
                s.consume(quorum_queue{queue}, handler).concurrency(2);
            else
                s.consume(classic_queue{queue}, handler).concurrency(2);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await publish(c, queue, 1);
                co_await until(ch, "a delivery", [&] { return begun == 1; });
                (void)co_await ch.delete_queue({.queue = queue});
                co_await until(ch, "consuming again", [&] {
                    return s[0].metrics().reopened == 1 || line.connections() > 1;
                });
                broker_failed = line.connections() > 1;
                if (broker_failed) {
                    finish.set();
                    co_return;
                }
                EXPECT_EQ(s[0].state(), settle::health::consuming);
                finish.set(); // s36: what was in a handler is finished on the same channel
                co_await publish(c, queue, 1, 1);
                co_await again.wait();
            });
            if (broker_failed) {
                tasks.cancel();
                co_return;
            }
            EXPECT_EQ(handled, (std::multiset<std::size_t>{0, 1}));
            EXPECT_TRUE(r.clean()) << r.text();
            EXPECT_EQ(r.reconnects, 0U) << "the connection was not touched";
            EXPECT_EQ(line.connections(), 1U);
            // s56: before 4.3 a cancel-ok of ours would close the connection.
            EXPECT_EQ(line.times(wire::id_of<wire::basic::cancel_ok>), 0U);
            expect_adds_up(r);
            tasks.cancel();
        });
        if (!broker_failed)
            EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
    return broker_failed;
}

} // namespace

TEST(C8_server_cancel, a_deleted_queue_is_declared_and_consumed_again)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        SCOPED_TRACE(k == kind::quorum ? "quorum" : "classic");
        int failures = 0;
        while (a_deleted_queue_is_consumed_again(k) && ++failures < 5)
            EXPECT_EQ(k, kind::quorum);
        EXPECT_LT(failures, 5);
    }
}

TEST(C8_server_cancel, and_then_a_lost_connection_leave_nothing_to_settle_on)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()}; // without declare_topology: nobody makes the queue again
            s.reconnect_backoff(backoff::fixed(1ms));
            co_await make_queue(ch, queue, kind::classic);
            runtime::event finish;
            std::size_t handled = 0;
            s.consume(queue, [&](delivery& d) -> task<outcome> {
                 if (number_in(d.text()) == 0)
                     co_await finish.wait();
                 ++handled;
                 co_return ack;
             }).concurrency(2);
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await publish(c, queue, 1);
                co_await until(ch, "a delivery", [&] { return s[0].metrics().received == 1; });
                (void)co_await ch.delete_queue({.queue = queue});
                co_await until(ch, "notice",
                               [&] { return s[0].state() == settle::health::reconnecting; });
                line.cut();
                co_await until(ch, "another connection", [&] { return line.connections() > 1; });
                finish.set();
                co_await until(ch, "the late outcome", [&] { return handled == 1; });
                co_await make_queue(ch, queue, kind::classic);
                co_await publish(c, queue, 1, 1);
                co_await until(ch, "the next message", [&] { return handled == 2; });
            });
            EXPECT_EQ(r.queues.at(0).metrics.stale, 1U);
            tasks.cancel();
        });
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
    });
}

TEST(C8_server_cancel, s56_a_consumer_by_hand_hears_of_it_and_its_channel_stays_open)
{
    struct listener final : amqp::consumer_sink {
        void on_delivery(const amqp::content_event& content,
                         const runtime::segment_ref&) noexcept override
        {
            tags.push_back(content.delivery_tag);
        }
        void on_server_cancel() noexcept override { cancelled = true; }
        void on_channel_lost(std::exception_ptr) noexcept override { lost = true; }
        std::vector<std::uint64_t> tags;
        bool cancelled = false;
        bool lost = false;
    };
    place here;
    const auto queue = here.name();
    listener heard;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 1);
        amqp::channel consuming(c);
        co_await consuming.open();
        const auto tag = co_await consuming.consume({.queue = queue}, heard);
        co_await until(consuming, "a delivery", [&] { return heard.tags.size() == 1; });
        (void)co_await ch.delete_queue({.queue = queue});
        co_await until(consuming, "the cancel", [&] { return heard.cancelled; });
        consuming.ack(heard.tags.at(0)); // RabbitMQ: of a deleted queue, accepted without effect
        co_await consuming.barrier();
        co_await consuming.cancel(tag); // too late: does nothing
        co_await make_queue(ch, queue, kind::quorum);
        (void)co_await consuming.consume({.queue = queue}, heard);
        co_await publish(c, queue, 1);
        co_await until(consuming, "a delivery", [&] { return heard.tags.size() == 2; });
        consuming.ack(heard.tags.at(1));
        co_await consuming.close();
        EXPECT_TRUE(c.is_open());
        EXPECT_TRUE(heard.lost) << "closing by hand ends a consumer, too";
    });
}
