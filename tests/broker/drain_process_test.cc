// Rows X3 to X5 with real signals: a process with deliveries in flight is told to end.
#include "broker.h"
#include "child.h"
#include "tap.h"

#include <acquit/amqp/wire/methods.h>

#include <gtest/gtest.h>

#include <csignal>
#include <set>

using namespace acquit;
using namespace acquit::tests;

namespace {

/// Until `n` handlers of the child have said so.
task<> until_said(amqp::channel& ch, child& c, std::string_view what, std::size_t n)
{
    return until(ch, "broker_consumer to say it", [&c, what, n] {
        require(c.read_available(), "broker_consumer has ended: " + c.text());
        return c.numbers(what).size() >= n;
    });
}

task<> until_ended(amqp::channel& ch, child& c)
{
    return until(ch, "the end of broker_consumer", [&c] { return !c.read_available(); });
}

std::string uri_of(const tap& line)
{
    return "amqp://guest:guest@127.0.0.1:" + std::to_string(line.options().hosts.front().port);
}

/// What is left in the queue: nothing that was handled, nothing counted, nothing missing.
task<> expect_rest(amqp::connection& c, amqp::channel& ch, const std::string& queue,
                   const std::vector<std::size_t>& handled, std::size_t total, bool was_nacked)
{
    const std::set<std::size_t> done(handled.begin(), handled.end());
    EXPECT_EQ(done.size(), handled.size()) << "a message was handled twice";
    std::set<std::size_t> rest;
    for (const auto& m : co_await take_all(ch, queue)) {
        const auto n = number_in(m.body_text());
        EXPECT_FALSE(done.contains(n)) << "message " << n << " was acked and came back";
        EXPECT_TRUE(rest.insert(n).second) << "message " << n << " came twice";
        if (!was_nacked || c.server_is_at_least(4, 3))
            EXPECT_EQ(header_of(m, "x-delivery-count").value_or(0), 0)
                << "the stop counted as a failure of message " << n;
    }
    EXPECT_EQ(done.size() + rest.size(), total);
}

} // namespace

TEST(X3_drain, sigterm_with_500_in_flight_finishes_them_all_and_loses_nothing)
{
    place here;
    const auto queue = here.name();
    constexpr std::size_t total = 700;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, total);
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            child consumer({uri_of(line), queue, "finish", "500", "500", "gate"});
            co_await until_said(ch, consumer, "begin", 500);
            consumer.signal(SIGTERM);
            co_await until(ch, "the cancel", [&] {
                return line.times(amqp::wire::id_of<amqp::wire::basic::cancel>) == 1;
            });
            EXPECT_EQ((co_await count(ch, queue)).message_count, total - 500);
            consumer.open_gate();
            co_await until_ended(ch, consumer);
            EXPECT_EQ(consumer.wait(), 0) << consumer.text();
            EXPECT_EQ(consumer.numbers("done").size(), 500U);
            EXPECT_EQ(consumer.numbers("begin").size(), 500U) << "a drain begins nothing new";
            EXPECT_TRUE(
                consumer.said("500 received (0 redelivered), 500 acked, 0 dropped, 0 retried"))
                << consumer.text();
            EXPECT_EQ(line.times(amqp::wire::id_of<amqp::wire::basic::nack>), 0U);
            co_await expect_rest(c, ch, queue, consumer.numbers("done"), total, false);
            tasks.cancel();
        });
    });
}

TEST(X3_drain, sigterm_under_give_back_returns_what_no_handler_saw)
{
    place here;
    const auto queue = here.name();
    constexpr std::size_t total = 600;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, total);
        child consumer({broker_uri(), queue, "give_back", "500", "50", "gate"});
        co_await until_said(ch, consumer, "begin", 50);
        co_await until_ready(ch, queue, total - 500); // the window is full
        consumer.signal(SIGTERM);
        co_await until_ready(ch, queue, total - 50);
        consumer.open_gate();
        co_await until_ended(ch, consumer);
        EXPECT_EQ(consumer.wait(), 0) << consumer.text();
        EXPECT_EQ(consumer.numbers("done").size(), 50U);
        EXPECT_EQ(consumer.numbers("begin").size(), 50U);
        EXPECT_TRUE(consumer.said("50 acked")) << consumer.text();
        EXPECT_TRUE(consumer.said("450 given back")) << consumer.text();
        co_await expect_rest(c, ch, queue, consumer.numbers("done"), total, true);
    });
}

TEST(X4_deadline, a_second_signal_ends_the_drain_and_the_report_says_what_was_abandoned)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 10);
        child consumer({broker_uri(), queue, "finish", "10", "4", "forever"});
        co_await until_said(ch, consumer, "begin", 4);
        co_await until_ready(ch, queue, 0);
        consumer.signal(SIGTERM);
        consumer.signal(SIGINT);
        co_await until_ended(ch, consumer);
        EXPECT_EQ(consumer.wait(), 1) << consumer.text();
        EXPECT_TRUE(consumer.said("the drain was cut short")) << consumer.text();
        EXPECT_TRUE(consumer.said("10 ABANDONED")) << consumer.text();
        EXPECT_TRUE(consumer.said("10 deliveries have an unknown fate")) << consumer.text();
        EXPECT_EQ(consumer.numbers("done").size(), 0U);
        co_await until_ready(ch, queue, 10);
    });
}

TEST(X3_drain, a_killed_process_loses_nothing_either)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 20);
        child consumer({broker_uri(), queue, "finish", "10", "10", "gate"});
        co_await until_said(ch, consumer, "begin", 10);
        co_await until_ready(ch, queue, 10);
        consumer.signal(SIGKILL);
        EXPECT_EQ(consumer.wait(), -SIGKILL);
        co_await until_ready(ch, queue, 20);
        std::size_t counted = 0;
        for (const auto& m : co_await take_all(ch, queue))
            counted += header_of(m, "x-delivery-count").value_or(0) == 1 ? 1 : 0;
        EXPECT_EQ(counted, 10U) << "each unsettled delivery of a lost connection counts as failed";
    });
}
