#include "session_peers.h"

#include <gtest/gtest.h>

namespace acquit::amqp::testing {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

bool is_heartbeat(const bytes& said)
{
    return said == raw_frame(wire::frame_heartbeat, 0, {});
}

TEST(session_heartbeat, is_sent_at_half_the_interval_when_nothing_else_was)
{
    two_peers both({.heartbeat_s = 10});
    both.open();
    auto& client = both.client.session;
    EXPECT_EQ(client.next_tick_ns(), 5 * second);
    EXPECT_EQ(client.tick(5 * second - 1).next_ns, 5 * second);
    EXPECT_TRUE(client.output().open_empty());
    EXPECT_EQ(client.tick(5 * second).next_ns, 10 * second);
    EXPECT_TRUE(is_heartbeat(both.client.say()));
    client.note_output(7 * second); // something else went out
    EXPECT_EQ(client.tick(10 * second).next_ns, 12 * second);
    EXPECT_TRUE(client.output().open_empty());
}

TEST(session_heartbeat, that_cannot_leave_does_not_pile_up)
{
    two_peers both({.heartbeat_s = 2});
    both.open();
    auto& client = both.client.session;
    for (std::uint64_t now = 1; now < 100; ++now) {
        const auto result = client.tick(now * second);
        EXPECT_GT(result.next_ns, now * second); // or its owner would spin
    }
    EXPECT_EQ(client.output().pending(), 8u);
}

TEST(session_heartbeat, zero_switches_it_off)
{
    two_peers both({.heartbeat_s = 0});
    both.open();
    const auto result = both.client.session.tick(std::uint64_t{1} << 62);
    EXPECT_FALSE(result.peer_dead);
    EXPECT_EQ(result.next_ns, never_ns);
    EXPECT_TRUE(both.client.say().empty());
}

TEST(session_heartbeat, is_silent_before_tuning_and_after_the_end)
{
    two_peers both;
    both.client.session.start(0);
    EXPECT_EQ(both.client.session.tick(1000 * second).next_ns, never_ns);
    both.talk();
    ASSERT_TRUE(both.client.session.is_open());
    (void)both.client.session.close();
    both.talk();
    EXPECT_EQ(both.client.session.tick(5000 * second).next_ns, never_ns);
    EXPECT_TRUE(both.client.say().empty());
}

TEST(session_heartbeat, the_server_keeps_it_too)
{
    two_peers both({.heartbeat_s = 4});
    both.open();
    EXPECT_EQ(both.server.session.tick(2 * second).next_ns, 4 * second);
    EXPECT_TRUE(is_heartbeat(both.server.say()));
    EXPECT_TRUE(both.server.session.tick(8 * second).peer_dead);
}

TEST(field_case_c1, any_byte_that_comes_in_is_a_sign_of_life)
{
    two_peers both({.heartbeat_s = 5});
    both.open();
    auto& client = both.client.session;
    // The broker sends heartbeats and nothing else for a minute; ours go out all the time.
    for (std::uint64_t half = 1; half <= 24; ++half) {
        const auto now = half * 5 * second / 2;
        client.note_input(now);
        both.client.receive(raw_frame(wire::frame_heartbeat, 0, {}));
        EXPECT_FALSE(client.tick(now).peer_dead);
        EXPECT_TRUE(is_heartbeat(both.client.say()));
    }
    // One byte of a frame that is not complete is as good.
    client.note_input(69 * second);
    EXPECT_FALSE(client.tick(78 * second).peer_dead);
    EXPECT_TRUE(client.tick(79 * second).peer_dead);
}

TEST(field_case_c2, a_peer_that_wants_a_byte_per_interval_gets_one_in_time)
{
    two_peers both({.heartbeat_s = 3});
    both.open();
    auto& client = both.client.session;
    std::uint64_t last = 0;
    auto next = client.next_tick_ns();
    for (int i = 0; i < 100; ++i) {
        client.note_input(next);
        const auto now = next + second / 2; // called late, as busy programs do
        const auto result = client.tick(now);
        EXPECT_FALSE(result.peer_dead);
        ASSERT_TRUE(is_heartbeat(both.client.say()));
        EXPECT_LE(now - last, 3 * second);
        last = now;
        next = result.next_ns;
    }
}

TEST(field_case_c5, a_short_interval_holds_from_its_tuning_on_and_silence_ends_after_two)
{
    two_peers both({.heartbeat_s = 60}, {.heartbeat_s = 1});
    both.open();
    auto& client = both.client.session;
    EXPECT_EQ(client.next_tick_ns(), second / 2);
    (void)client.tick(second / 2);
    EXPECT_TRUE(is_heartbeat(both.client.say()));
    EXPECT_FALSE(client.tick(2 * second - 1).peer_dead);
    EXPECT_TRUE(client.tick(2 * second).peer_dead);
}

} // namespace
} // namespace acquit::amqp::testing
