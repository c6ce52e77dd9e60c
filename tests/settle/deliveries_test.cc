#include "service_support.h"

// The loop that a user writes alone; and when settlements leave (L4), in virtual time.
namespace acquit::testing {
namespace {

using amqp::connection;

template <class F>
void over_broker(F body, host_options o = automatic())
{
    virtually(
        [&body](host& there) -> task<> {
            const auto ended = co_await connected(
                there, [&](connection& c, peer& p) -> task<> { co_await body(there, c, p); });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        std::move(o));
}

TEST(deliveries, come_one_by_one_and_are_settled_by_hand)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 100);
        deliveries incoming(c, existing_queue("q").prefetch(10));
        co_await incoming.open();
        int seen = 0;
        while (auto message = co_await incoming.next()) {
            EXPECT_EQ(message.text(), std::to_string(seen));
            EXPECT_EQ(message.settle(ack), settled::done);
            if (++seen == 100)
                co_await incoming.stop();
        }
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].acked.size(), 100U);
        EXPECT_EQ(there.model["q"].lost_unsettled, 0U);
    });
}

// S12
TEST(deliveries, retry_and_count_what_is_dropped_without_a_decision)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 1);
        deliveries incoming(c, existing_queue("q").prefetch(10));
        co_await incoming.open();
        {
            auto forgotten = co_await incoming.next();
            EXPECT_FALSE(forgotten->redelivered());
        }
        auto again = co_await incoming.next();
        EXPECT_TRUE(again->redelivered());
        (void)again.settle(ack);
        EXPECT_EQ(incoming.undecided(), 1U);
        EXPECT_EQ(there.model["q"].requeued, 1U);
        co_await incoming.close();
    });
}

TEST(deliveries, retry_the_one_that_an_assignment_overwrites)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 2);
        deliveries incoming(c, existing_queue("q").prefetch(2));
        co_await incoming.open();
        owned_delivery held = co_await incoming.next();
        held = co_await incoming.next();
        EXPECT_EQ(incoming.undecided(), 1U);
        EXPECT_EQ(held.text(), "1");
        (void)held.settle(drop);
        auto again = co_await incoming.next();
        (void)again.settle(ack);
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].acked, std::vector<std::string>{"0"});
    });
}

TEST(deliveries, give_back_what_nobody_took)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        there.model.put("q", 20);
        deliveries incoming(c, existing_queue("q").prefetch(10));
        co_await incoming.open();
        auto one = co_await incoming.next();
        co_await settle_down();
        (void)one.settle(ack);
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].acked.size(), 1U);
        EXPECT_GE(there.model["q"].given_back, 9U);
        EXPECT_EQ(there.model["q"].lost_unsettled, 0U);
        EXPECT_EQ(there.model["q"].ready.front().body, "1");
        EXPECT_EQ(p.count<wire::basic::reject>(), 0U);
    });
}

// s9, s10: the channel's error ends the stream of deliveries, and what is in hand is stale.
TEST(deliveries, end_with_the_error_of_their_channel)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        there.model.put("q", 5);
        deliveries incoming(c, existing_queue("q").prefetch(2));
        co_await incoming.open();
        auto one = co_await incoming.next();
        auto two = co_await incoming.next();
        p.close_channel(p.channel_of<wire::basic::consume>(), wire::reply_code::precondition_failed,
                        "x");
        std::exception_ptr why;
        try {
            (void)co_await incoming.next();
        } catch (...) {
            why = std::current_exception();
        }
        const auto e = as<amqp::channel_error>(why);
        EXPECT_TRUE(e) << text_of(why);
        if (e) {
            EXPECT_EQ(e->code(), 406);
        }
        EXPECT_EQ(one.settle(ack), settled::stale);
        EXPECT_EQ(two.settle(ack), settled::stale);
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].acked.size(), 0U);
    });
}

TEST(deliveries, are_stale_when_the_channel_goes_after_they_were_stopped)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        there.model.put("q", 1);
        deliveries incoming(c, existing_queue("q").prefetch(2));
        co_await incoming.open();
        auto one = co_await incoming.next();
        co_await incoming.stop();
        p.close_channel(p.channel_of<wire::basic::consume>(), wire::reply_code::precondition_failed,
                        "x");
        co_await settle_down();
        EXPECT_EQ(one.settle(ack), settled::stale);
        co_await incoming.close();
    });
}

// c66
TEST(deliveries, end_when_the_broker_ends_the_consumer_but_are_still_settled)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 1);
        deliveries incoming(c, existing_queue("q").prefetch(2));
        co_await incoming.open();
        auto one = co_await incoming.next();
        there.model.cancel_consumers("q");
        bool ended = false;
        try {
            (void)co_await incoming.next();
        } catch (const amqp::channel_error& e) {
            ended = true;
            EXPECT_EQ(e.code(), 404);
        }
        EXPECT_TRUE(ended);
        EXPECT_EQ(one.settle(ack), settled::done);
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].acked.size(), 1U);
    });
}

// c72: destroyed without close, in any order.
TEST(deliveries, may_be_destroyed_without_being_closed)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 20);
        {
            deliveries incoming(c, existing_queue("q").prefetch(10));
            co_await incoming.open();
            auto one = co_await incoming.next();
            (void)one.settle(ack); // its frame is never written: the channel closes first
        }
        deliveries never_opened(c, existing_queue("q"));
        co_await settle_down();
        EXPECT_EQ(there.model["q"].consumers, 0U);
        EXPECT_EQ(there.model["q"].unsettled, 0U);
        EXPECT_EQ(there.model["q"].ready.size() + there.model["q"].acked.size(), 20U);
    });
}

TEST(deliveries_death, are_an_assertion_when_closed_with_one_unsettled)
{
    EXPECT_DEATH(over_broker([](host& there, connection& c, peer&) -> task<> {
                     there.model.put("q", 1);
                     deliveries incoming(c, existing_queue("q"));
                     co_await incoming.open();
                     auto one = co_await incoming.next();
                     co_await incoming.close();
                 }),
                 "deliveries closed while 1 of them are not settled");
}

// c75: the connection is closed from where a delivery is handed over, on its reader's stack.
TEST(deliveries, may_close_the_connection_that_brings_them)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model["q"];
        deliveries incoming(c, existing_queue("q").prefetch(10));
        co_await incoming.open();
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](deliveries& from, connection& by) -> task<> {
                auto one = co_await from.next();
                (void)one.settle(ack);
                co_await by.close();
            }(incoming, c));
            co_await settle_down();
            there.model.put("q", 20);
        });
        EXPECT_TRUE(c.is_over());
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].unsettled, 0U);
    });
}

// s22: a count that could never be reached is refused.
TEST(flush_timing, refuses_a_count_above_the_prefetch)
{
    over_broker([](host&, connection& c, peer&) -> task<> {
        EXPECT_THROW(deliveries(c, existing_queue("q").prefetch(5), {.count = 10}), start_error);
        co_return;
    });
}

struct timed_acks {
    std::vector<runtime::duration> at; ///< since `from`, of each ack
    std::vector<std::uint64_t> tags;
    std::vector<bool> multiple;
};

timed_acks acks_of(const peer& p, runtime::time_point from)
{
    timed_acks found;
    for (const auto& each : p.heard()) {
        if (!each.is<wire::basic::ack>())
            continue;
        found.at.push_back(each.at - from);
        found.tags.push_back(each.as<wire::basic::ack>().delivery_tag);
        found.multiple.push_back(each.as<wire::basic::ack>().multiple);
    }
    return found;
}

// The slot that a settlement frees is used by the delivery `prefetch` tags later.
TEST(settlement_latency, is_measured_for_each_delivery_that_needed_a_freed_slot)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 10);
        deliveries incoming(c, existing_queue("q").prefetch(2), {.hold = 0ns});
        co_await incoming.open();
        for (int n = 0; n < 10; ++n) {
            auto message = co_await incoming.next();
            co_await runtime::sleep(1s); // a slow handler: the broker waits for the slot
            EXPECT_EQ(message.settle(ack), settled::done);
        }
        co_await incoming.close();
        const auto& latency = incoming.metrics().settlement_latency;
        EXPECT_EQ(latency.count(), 8U);
        // Each was sent as soon as its slot was free: none waited a handler's second.
        EXPECT_LT(latency.max(), 1s);
    });
}

// L4: alone after a pause: at once.
TEST(flush_timing, never_delays_a_lone_settlement)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        deliveries incoming(c, existing_queue("q").prefetch(100), {.hold = 50ms});
        there.model["q"];
        co_await incoming.open();
        for (int i = 0; i < 5; ++i) {
            co_await runtime::sleep(1s);
            there.model.put_body("q", "x");
            auto message = co_await incoming.next();
            const auto now = runtime::loop::current().now();
            (void)message.settle(ack);
            co_await runtime::sleep(1us);
            const auto seen = acks_of(p, now);
            EXPECT_EQ(seen.at.size(), static_cast<std::size_t>(i + 1));
            EXPECT_EQ(seen.at.back(), 0ns);
        }
        co_await incoming.close();
    });
}

// L4, c64, s23: the second within the hold time waits for its end, by a timer, without any traffic.
TEST(flush_timing, holds_the_next_ones_until_the_hold_time_is_over)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        there.model.put("q", 11);
        deliveries incoming(c, existing_queue("q").prefetch(100), {.hold = 50ms});
        co_await incoming.open();
        co_await runtime::sleep(1s);
        const auto began = runtime::loop::current().now();
        (void)(co_await incoming.next()).settle(ack);
        co_await runtime::sleep(1ms);
        for (int i = 0; i < 10; ++i) {
            (void)(co_await incoming.next()).settle(ack);
            co_await runtime::sleep(1ms);
        }
        co_await runtime::sleep(1s);
        const auto seen = acks_of(p, began);
        EXPECT_EQ(seen.tags, (std::vector<std::uint64_t>{1, 11}));
        EXPECT_EQ(seen.at, (std::vector<runtime::duration>{0ms, 50ms}));
        EXPECT_EQ(seen.multiple, (std::vector<bool>{false, true}));
        co_await incoming.close();
    });
}

// L4: by number, before the time is over. Here a quarter of the prefetch.
TEST(flush_timing, does_not_wait_once_enough_are_decided)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        there.model.put("q", 60);
        deliveries incoming(c, existing_queue("q").prefetch(40), {.hold = 10s});
        co_await incoming.open();
        co_await runtime::sleep(1s);
        const auto began = runtime::loop::current().now();
        for (int i = 0; i < 21; ++i) {
            (void)(co_await incoming.next()).settle(ack);
            co_await runtime::sleep(1ms);
        }
        const auto seen = acks_of(p, began);
        EXPECT_EQ(seen.tags, (std::vector<std::uint64_t>{1, 11, 21}));
        EXPECT_EQ(seen.at, (std::vector<runtime::duration>{0ms, 10ms, 20ms}));
        co_await incoming.close();
    });
}

// s20: the oldest is slow, the others are not held back.
TEST(flush_timing, lets_others_pass_one_that_is_slow)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        there.model.put("q", 10);
        deliveries incoming(c, existing_queue("q").prefetch(10));
        co_await incoming.open();
        auto slow = co_await incoming.next();
        for (int i = 0; i < 9; ++i)
            (void)(co_await incoming.next()).settle(ack);
        co_await runtime::sleep(1ms);
        EXPECT_EQ(there.model["q"].acked.size(), 9U);
        const auto seen = acks_of(p, {});
        EXPECT_EQ(seen.tags, (std::vector<std::uint64_t>{2, 3, 4, 5, 6, 7, 8, 9, 10}));
        for (const bool multiple : seen.multiple)
            EXPECT_FALSE(multiple);
        (void)slow.settle(ack);
        co_await incoming.close();
        EXPECT_EQ(there.model["q"].acked.size(), 10U);
    });
}

// L4: everything that settles in a turn leaves in one send, on all channels.
TEST(flush_timing, sends_once_for_all_channels_of_a_turn)
{
    over_broker([](host& there, connection& c, peer& p) -> task<> {
        std::vector<std::unique_ptr<deliveries>> all;
        std::vector<owned_delivery> held;
        for (int i = 0; i < 5; ++i) {
            const auto name = "q" + std::to_string(i);
            there.model.put(name, 3);
            all.push_back(std::make_unique<deliveries>(c, existing_queue(name).prefetch(10)));
            co_await all.back()->open();
            for (int n = 0; n < 3; ++n)
                held.push_back(co_await all.back()->next());
        }
        co_await runtime::sleep(1s);
        const auto before = c.stats().sends;
        for (auto& each : held)
            (void)each.settle(ack);
        held.clear();
        co_await settle_down();
        EXPECT_EQ(c.stats().sends - before, 1U);
        EXPECT_EQ(p.count<wire::basic::ack>(), 5U) << "one frame per channel";
        for (auto& each : all)
            co_await each->close();
    });
}

// c68: deliveries that were received before cancel-ok are still to be had, none comes after.
TEST(deliveries, hand_out_what_was_buffered_when_they_were_stopped)
{
    over_broker([](host& there, connection& c, peer&) -> task<> {
        there.model.put("q", 2000);
        deliveries incoming(c, existing_queue("q").prefetch(1000));
        co_await incoming.open();
        co_await settle_down();
        co_await incoming.stop();
        int seen = 0;
        while (auto message = co_await incoming.next()) {
            (void)message.settle(ack);
            ++seen;
        }
        EXPECT_EQ(seen, 1000);
        EXPECT_EQ(there.model["q"].delivered, 1000U);
        co_await incoming.close();
    });
}

} // namespace
} // namespace acquit::testing
