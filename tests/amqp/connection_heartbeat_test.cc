#include "../peer/host.h"

#include <gtest/gtest.h>

namespace acquit::testing {
namespace {

using amqp::connection;
using amqp::connection_error;

host_options beating(std::uint16_t seconds)
{
    host_options o;
    o.server.heartbeat_s = seconds;
    return o;
}

/// Says every `interval` that it lives, as a server does.
task<> beat_from(peer& p, runtime::duration interval)
{
    const auto beat = std::to_array({std::byte{8}, std::byte{0}, std::byte{0}, std::byte{0},
                                     std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0xCE}});
    while (!p.is_over()) {
        p.raw(beat);
        co_await runtime::sleep(interval);
    }
}

// c1, c2, c3: an idle consumer stays connected, and is heard within every interval.
TEST(heartbeats, keep_an_idle_connection)
{
    virtually(
        [](host& there) -> task<> {
            const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn(beat_from(p, 2500ms));
                    for (int second = 0; second < 60; second += 5) {
                        const auto before = p.receives();
                        co_await runtime::sleep(5s);
                        EXPECT_GE(p.receives() - before, 1U) << "silent from second " << second;
                    }
                    EXPECT_TRUE(c.is_open());
                    EXPECT_LE(p.receives(), 60U) << "more beats than anybody needs";
                    s.cancel();
                });
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        beating(5));
}

// c5, c7
TEST(heartbeats, notice_a_dead_peer_after_two_intervals)
{
    virtually(
        [](host& there) -> task<> {
            const auto began = runtime::loop::current().now();
            connection c(there.client());
            const auto ended = as<connection_error>(co_await failure_of(c.run()));
            EXPECT_TRUE(ended);
            const auto took = runtime::loop::current().now() - began;
            EXPECT_GE(took, 2s);
            EXPECT_LE(took, 2100ms) << "a graceful close must not wait for who is dead";
        },
        beating(1));
}

// c4: bytes that come in without end do not keep ours from going out.
TEST(heartbeats, go_out_under_a_flood_of_deliveries)
{
    struct counting final : amqp::consumer_sink {
        std::uint64_t count = 0;
        void on_delivery(const amqp::content_event&, const runtime::segment_ref&) noexcept override
        {
            ++count;
        }
        void on_server_cancel() noexcept override {}
        void on_channel_lost(std::exception_ptr) noexcept override {}
    };
    host_options o = beating(2);
    o.automatic = true;
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            counting sink;
            const auto ended = co_await connected(there, [&](connection& c, peer& p) -> task<> {
                amqp::channel ch(c);
                co_await ch.open();
                (void)co_await ch.consume({.queue = "q", .no_ack = true}, sink);
                auto silent_since = runtime::loop::current().now();
                auto receives = p.receives();
                for (int i = 0; i < 6000; ++i) { // one batch per millisecond, for three intervals
                    for (int j = 0; j < 3; ++j)
                        there.model.put_body("q", "x");
                    co_await runtime::sleep(1ms);
                    if (p.receives() != receives) {
                        receives = p.receives();
                        silent_since = runtime::loop::current().now();
                    }
                    EXPECT_LE(runtime::loop::current().now() - silent_since, 2s);
                }
                EXPECT_EQ(sink.count, 18000U);
                co_await ch.close();
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        o);
}

// c6: a handler that waits for long leaves the beats to the loop.
TEST(heartbeats, go_on_while_a_consumer_is_busy_elsewhere)
{
    virtually(
        [](host& there) -> task<> {
            const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
                amqp::channel ch(c);
                co_await ch.open();
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn(beat_from(p, 1s));
                    const auto before = p.receives();
                    co_await runtime::sleep(6s);
                    EXPECT_GE(p.receives() - before, 3U);
                    s.cancel();
                });
                EXPECT_TRUE(ch.is_open());
                co_await ch.close();
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        beating(2));
}

// A reader that does not look cannot tell whether the peer is silent.
TEST(heartbeats, do_not_blame_the_peer_while_reading_is_paused)
{
    virtually(
        [](host& there) -> task<> {
            const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn(beat_from(p, 1s));
                    co_await settle_down();
                    c.pause_reading();
                    co_await runtime::sleep(10s);
                    EXPECT_TRUE(c.is_open());
                    c.resume_reading();
                    co_await runtime::sleep(10s);
                    EXPECT_TRUE(c.is_open());
                    s.cancel();
                });
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        beating(2));
}

TEST(heartbeats, are_off_when_either_side_says_so)
{
    virtually(
        [](host& there) -> task<> {
            auto options = there.client();
            options.session.heartbeat_s = 0;
            const auto ended =
                co_await connected(there, options, [](connection& c, peer& p) -> task<> {
                    const auto before = p.receives();
                    co_await runtime::sleep(1h);
                    EXPECT_TRUE(c.is_open());
                    EXPECT_EQ(p.receives(), before);
                });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        beating(60));
}

} // namespace
} // namespace acquit::testing
