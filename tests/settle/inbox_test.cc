#include "service_support.h"

#include <acquit/amqp/wire/methods.h>

// What an inbox keeps, and how little of it.
namespace acquit::testing {
namespace {

using amqp::connection;

/// A body of so many bytes in which every byte tells its place and its message.
std::string body_of(std::size_t size, unsigned message)
{
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
        body[i] = static_cast<char>((i * 31 + i / 251 + message) & 0xFF);
    return body;
}

// c50: views stay good as long as their delivery is held, whatever is received meanwhile.
TEST(inbox, keeps_the_bytes_of_deliveries_that_are_held)
{
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(seed);
        auto o = automatic();
        o.stream.chunk_seed = seed;
        o.stream.capacity = 300'000;
        virtually(
            [](host& there) -> task<> {
                std::size_t held_max = 0;
                const auto ended = co_await connected(there, [&](connection& c, peer&) -> task<> {
                    there.model["q"];
                    deliveries incoming(c, existing_queue("q").prefetch(300));
                    co_await incoming.open();
                    // 100 kB each: a frame each, two or three to a segment; and some of several frames.
                    std::vector<std::size_t> sizes;
                    for (unsigned i = 0; i < 100; ++i) {
                        sizes.push_back(i % 10 == 9 ? 200'000 + i : 100'000 + i);
                        there.model.put_body("q", body_of(sizes.back(), i));
                    }
                    std::vector<owned_delivery> held;
                    for (unsigned i = 0; i < 100; ++i) {
                        held.push_back(co_await incoming.next());
                        held_max = std::max(held_max, c.input().held_segments());
                    }
                    for (unsigned i = 0; i < 100; ++i) {
                        EXPECT_EQ(held[i].text() == body_of(sizes[i], i), true) << i;
                        EXPECT_EQ(held[i]->routing_key(), "q");
                        (void)held[i].settle(ack);
                    }
                    held.clear();
                    co_await settle_down();
                    EXPECT_EQ(c.input().held_segments(), 0U);
                    co_await incoming.close();
                });
                EXPECT_FALSE(ended) << text_of(ended);
                EXPECT_LE(held_max, inbox::held_segments_max);
                EXPECT_GE(held_max, inbox::held_segments_max / 2) << "nothing was held in place";
                EXPECT_EQ(there.model["q"].acked.size(), 100U);
            },
            o);
    }
}

// c82: without acknowledgements only reading less slows the broker down.
TEST(inbox, stops_reading_while_a_no_ack_consumer_is_behind)
{
    auto o = automatic();
    o.server.heartbeat_s = 5;
    o.stream.capacity = 65536;
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            std::uint64_t seen = 0;
            runtime::event go_on;
            s.consume(existing_queue("q"), [&](message&) -> task<> {
                co_await go_on.wait();
                if (++seen % 1000 == 0)
                    co_await runtime::sleep(1ms);
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                const std::string body(1000, 'x');
                for (int i = 0; i < 50'000; ++i)
                    there.model.put_body("q", body);
                co_await runtime::sleep(1s);
                const auto received = s[0].metrics().received;
                EXPECT_GE(received, inbox::backlog_max_no_ack);
                EXPECT_LE(received, inbox::backlog_max_no_ack + 1000)
                    << "read on far beyond its bound";
                // Longer than two heartbeats; the server has not gone, nobody reads what it says.
                co_await runtime::sleep(60s);
                EXPECT_EQ(s[0].metrics().received, received);
                EXPECT_EQ(there.connects(), 1U);
                go_on.set();
                co_await runtime::sleep(4s);
                EXPECT_EQ(seen, 50'000U);
            });
            expect_clean(r);
        },
        o);
}

TEST(inbox, reads_again_when_the_channel_of_a_consumer_that_is_behind_goes)
{
    auto o = automatic();
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            runtime::event go_on;
            s.consume(existing_queue("q"), [&](message&) -> task<> { co_await go_on.wait(); });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", inbox::backlog_max_no_ack + 10);
                co_await runtime::sleep(1s);
                EXPECT_GE(s[0].metrics().waiting, inbox::backlog_max_no_ack);
                go_on.set();
                co_await runtime::sleep(1s);
                EXPECT_EQ(s[0].metrics().acked, inbox::backlog_max_no_ack + 10);
            });
            expect_clean(r);
        },
        o);
}

// C12: a broker whose tags are not in order is not believed.
TEST(inbox, ends_the_connection_when_delivery_tags_are_out_of_order)
{
    auto o = automatic();
    o.automatic = false;
    virtually(
        [](host& there) -> task<> {
            const auto ended = co_await connected(there, [&](connection& c, peer& p) -> task<> {
                deliveries incoming(c, existing_queue("q").prefetch(10));
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn([](peer& each) -> task<> {
                        (void)co_await each.expect<wire::basic::qos>();
                        each.say(1, wire::basic::qos_ok{});
                        const auto asked = co_await each.expect<wire::basic::consume>();
                        const std::string tag(asked.as<wire::basic::consume>().consumer_tag);
                        each.say(1, wire::basic::consume_ok{.consumer_tag = tag});
                        each.deliver(1, {.consumer_tag = tag, .tag = 1, .body = "x"});
                    }(p));
                    co_await incoming.open();
                    auto one = co_await incoming.next();
                    EXPECT_EQ(one.text(), "x");
                    const std::string tag(p.heard().back().as<wire::basic::consume>().consumer_tag);
                    p.deliver(1, {.consumer_tag = tag, .tag = 3, .body = "y"});
                    co_await settle_down();
                    EXPECT_EQ(one.settle(ack), settled::stale);
                    EXPECT_TRUE(as<amqp::connection_error>(co_await failure_of(
                        [](deliveries& d) -> task<> { (void)co_await d.next(); }(incoming))));
                });
                EXPECT_EQ(p.session().close_info().code, wire::reply_code::command_invalid);
            });
            EXPECT_TRUE(as<amqp::connection_error>(ended)) << text_of(ended);
        },
        o);
}

// ...and nobody waits for what it has to say to that.
TEST(inbox, does_not_wait_for_the_broker_whose_tags_were_out_of_order)
{
    auto o = automatic();
    virtually(
        [](host& there) -> task<> {
            const auto ended = co_await connected(there, [&](connection& c, peer& p) -> task<> {
                there.model["q"];
                deliveries incoming(c, existing_queue("q").prefetch(10));
                co_await incoming.open();
                const auto asked = co_await p.expect<wire::basic::consume>();
                p.stop_listening();
                p.deliver(asked.channel,
                          {.consumer_tag = asked.as<wire::basic::consume>().consumer_tag,
                           .tag = 2,
                           .body = "x"});
                co_await runtime::sleep(3s);
                EXPECT_TRUE(c.is_over());
                p.hang_up();
            });
            EXPECT_TRUE(as<amqp::connection_error>(ended)) << text_of(ended);
        },
        o);
}

} // namespace
} // namespace acquit::testing
