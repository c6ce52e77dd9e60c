// The stand-in server, from a client's side.

#include "../../bench/firehose/belt.h"
#include "firehose_support.h"

#include <acquit/amqp/wire/field_table.h>
#include <acquit/amqp/wire/settle_frames.h>

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <thread>

namespace acquit::testing {

namespace {

using firehose::settings;
using firehose::write_pattern;

TEST(firehose, fills_the_window_and_not_more)
{
    running_server there(settings{.messages = 100});
    script_client me(there.port());
    me.open_channel();
    me.consume(10);
    EXPECT_EQ(me.receive(10).back().tag, 10U);
    EXPECT_EQ(me.received_after_round_trip(), 10U);
    me.ack(3, true);
    EXPECT_EQ(me.received_after_round_trip(), 13U);
    me.ack(5); // out of order
    me.reject(7, false);
    EXPECT_EQ(me.received_after_round_trip(), 15U);
    me.nack(15, true, false);
    EXPECT_EQ(me.received_after_round_trip(), 25U);
    me.close();
    const auto& seen = there.stop();
    EXPECT_EQ(seen.deliveries, 25U);
    EXPECT_EQ(seen.acked, 4U);
    EXPECT_EQ(seen.rejected, 1U);
    EXPECT_EQ(seen.nacked, 10U);
    EXPECT_EQ(seen.left_unsettled, 10U);
    EXPECT_EQ(seen.settlement_frames, 4U);
    EXPECT_EQ(seen.settled_twice + seen.unknown_tags, 0U);
}

TEST(firehose, tags_of_a_channel_are_given_out_once_and_in_order)
{
    running_server there(settings{.messages = 20'000});
    script_client me(there.port());
    me.open_channel();
    me.consume(1000);
    for (std::uint64_t last = 1000; last <= 20'000; last += 1000) {
        me.receive(last);
        me.ack(last, true);
    }
    EXPECT_EQ(me.received_after_round_trip(), 20'000U);
    std::uint64_t expected = 1;
    for (const auto& each : me.receive(20'000)) {
        ASSERT_EQ(each.tag, expected++);
        ASSERT_EQ(each.body, "abcdefghijklmnop");
        ASSERT_EQ(each.consumer_tag, "me");
        ASSERT_FALSE(each.redelivered);
    }
    EXPECT_EQ(there.stop().acked, 20'000U);
}

TEST(firehose, without_a_prefetch_everything_is_delivered)
{
    running_server there(settings{.messages = 5000, .sizes = {1000}});
    script_client me(there.port());
    me.open_channel();
    me.consume(0);
    EXPECT_EQ(me.receive(5000).back().tag, 5000U);
    me.ack(0, true); // all there is
    EXPECT_EQ(me.received_after_round_trip(), 5000U);
    EXPECT_EQ(there.stop().acked, 5000U);
}

TEST(firehose, a_consumer_without_acks_has_nothing_to_settle)
{
    running_server there(settings{.messages = 3000});
    script_client me(there.port());
    me.open_channel();
    me.consume(10, true);
    EXPECT_EQ(me.receive(3000).back().tag, 3000U);
    me.ack(1);
    EXPECT_EQ(me.wait_for_channel_close().code, wire::reply_code::precondition_failed);
    const auto& seen = there.stop();
    EXPECT_EQ(seen.no_ack, 3000U);
    EXPECT_EQ(seen.left_unsettled, 0U);
}

TEST(firehose, settling_twice_closes_the_channel)
{
    running_server there(settings{.messages = 100});
    script_client me(there.port());
    me.open_channel();
    me.consume(10);
    me.receive(10);
    me.ack(4);
    me.ack(4);
    const auto closed = me.wait_for_channel_close();
    EXPECT_EQ(closed.code, wire::reply_code::precondition_failed);
    EXPECT_EQ(closed.text, "PRECONDITION_FAILED - unknown delivery tag 4");
    EXPECT_EQ(closed.offender, wire::id_of<wire::basic::ack>);
    me.close();
    const auto& seen = there.stop();
    EXPECT_EQ(seen.settled_twice, 1U);
    EXPECT_EQ(seen.unknown_tags, 0U);
    EXPECT_EQ(seen.acked, 1U);
    EXPECT_EQ(seen.left_unsettled, 10U);
}

TEST(firehose, a_tag_that_was_never_sent_closes_the_channel)
{
    for (const std::uint64_t tag : {std::uint64_t{0}, std::uint64_t{11}, ~std::uint64_t{0}}) {
        running_server there(settings{.messages = 100});
        script_client me(there.port());
        me.open_channel();
        me.consume(10);
        me.receive(10);
        me.reject(tag, true);
        const auto closed = me.wait_for_channel_close();
        EXPECT_EQ(closed.code, wire::reply_code::precondition_failed) << tag;
        EXPECT_EQ(closed.offender, wire::id_of<wire::basic::reject>);
        EXPECT_EQ(there.stop().unknown_tags, 1U);
    }
}

TEST(firehose, a_multiple_must_name_an_open_delivery)
{
    running_server there(settings{.messages = 100});
    script_client me(there.port());
    me.open_channel();
    me.consume(10);
    me.receive(10);
    me.ack(5);
    me.ack(5, true);
    EXPECT_EQ(me.wait_for_channel_close().code, wire::reply_code::precondition_failed);
    EXPECT_EQ(there.stop().settled_twice, 1U);
}

TEST(firehose, a_lenient_server_counts_and_goes_on)
{
    running_server there(settings{.messages = 100, .lenient = true});
    script_client me(there.port());
    me.open_channel();
    me.consume(10);
    me.receive(10);
    me.ack(4);
    me.ack(4);
    me.ack(500);
    me.ack(4, true); // settles 1 to 3 all the same
    EXPECT_EQ(me.received_after_round_trip(), 14U);
    const auto& seen = there.stop();
    EXPECT_EQ(seen.settled_twice, 2U);
    EXPECT_EQ(seen.unknown_tags, 1U);
    EXPECT_EQ(seen.acked, 4U);
}

TEST(firehose, what_is_requeued_is_delivered_again_and_says_so)
{
    running_server there(settings{.messages = 6});
    script_client me(there.port());
    me.open_channel();
    me.consume(4);
    me.receive(4);
    me.reject(2, true);
    me.nack(4, true, true); // 1, 3 and 4
    EXPECT_EQ(me.received_after_round_trip(), 8U);
    std::size_t again = 0;
    for (const auto& each : me.receive(8))
        again += each.redelivered ? 1U : 0U;
    EXPECT_EQ(again, 4U);
    EXPECT_TRUE(me.receive(8)[4].redelivered);
    me.ack(8, true);
    EXPECT_EQ(me.received_after_round_trip(), 10U); // the last two for the first time
    EXPECT_FALSE(me.receive(10)[9].redelivered);
    const auto& seen = there.stop();
    EXPECT_EQ(seen.redelivered, 4U);
    EXPECT_EQ(seen.requeued, 1U);
    EXPECT_EQ(seen.given_back, 3U);
}

TEST(firehose, what_a_closed_channel_held_is_delivered_again)
{
    running_server there(settings{.messages = 10});
    script_client me(there.port());
    me.open_channel();
    me.consume(5);
    me.receive(5);
    me.close_channel();
    me.open_channel(2);
    me.consume(0, false, 2);
    EXPECT_EQ(me.receive(15).back().tag, 10U);
    EXPECT_TRUE(me.receive(15)[5].redelivered);
    EXPECT_FALSE(me.receive(15)[14].redelivered);
    const auto& seen = there.stop();
    EXPECT_EQ(seen.left_unsettled, 15U);
    EXPECT_EQ(seen.redelivered, 5U);
}

TEST(firehose, recover_gives_everything_back)
{
    running_server there(settings{.messages = 3});
    script_client me(there.port());
    me.open_channel();
    me.consume(3);
    me.receive(3);
    me.ask(1, wire::basic::recover{.requeue = true}, wire::id_of<wire::basic::recover_ok>);
    EXPECT_EQ(me.received_after_round_trip(), 6U);
    EXPECT_TRUE(me.receive(6).back().redelivered);
    EXPECT_EQ(there.stop().recovered, 3U);
}

TEST(firehose, sizes_take_turns_and_long_bodies_are_split)
{
    running_server there(
        settings{.messages = 400, .sizes = {16, 0, 20'000, 7}, .frame_size_max = 8192});
    script_client me(there.port());
    me.open_channel();
    me.consume(0);
    const auto& all = me.receive(400);
    constexpr std::array<std::size_t, 4> sizes{16, 0, 20'000, 7};
    for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i].body.size(), sizes[i % 4]) << i;
        for (std::size_t at = 0; at < all[i].body.size(); ++at)
            ASSERT_EQ(all[i].body[at], static_cast<char>('a' + at % 26)) << i << ' ' << at;
    }
    EXPECT_EQ(me.session().tuned().frame_size_max, 8192U);
}

std::vector<std::byte> bytes_of_a_run(write_pattern writes)
{
    running_server there(settings{.messages = 300,
                                  .sizes = {16, 3000, 0, 20'000},
                                  .headers = firehose::header_kind::rich,
                                  .writes = writes,
                                  .frame_size_max = 8192});
    script_client me(there.port());
    me.open_channel();
    me.consume(0);
    me.receive(300);
    return me.bytes();
}

TEST(firehose, uneven_writes_carry_the_same_bytes)
{
    const auto whole = bytes_of_a_run({});
    EXPECT_EQ(bytes_of_a_run({write_pattern::kind::random, 7}), whole);
    EXPECT_EQ(bytes_of_a_run({write_pattern::kind::fixed, 333}), whole);
}

TEST(firehose, properties_can_be_read)
{
    for (const auto kind : {firehose::header_kind::none, firehose::header_kind::typical,
                            firehose::header_kind::rich}) {
        running_server there(settings{.messages = 1, .headers = kind});
        script_client me(there.port());
        me.open_channel();
        me.consume(1);
        wire::properties read;
        ASSERT_TRUE(wire::properties_view(me.receive(1)[0].properties).decode(read).ok());
        EXPECT_EQ(read.content_type.has_value(), kind != firehose::header_kind::none);
        EXPECT_EQ(read.app_id.has_value(), kind == firehose::header_kind::rich);
        EXPECT_EQ(read.headers && read.headers->find("x-death"),
                  kind == firehose::header_kind::rich);
        EXPECT_EQ(read.headers && read.headers->find("tenant"),
                  kind != firehose::header_kind::none);
    }
}

TEST(firehose, consumers_of_a_channel_share_its_tags_and_have_windows_of_their_own)
{
    running_server there(settings{});
    script_client me(there.port());
    me.open_channel();
    me.consume(3, false, 1, "a");
    me.consume(5, false, 1, "b");
    EXPECT_EQ(me.received_after_round_trip(), 8U);
    me.ack(8, true);
    EXPECT_EQ(me.received_after_round_trip(), 16U);
    std::set<std::uint64_t> tags;
    std::size_t of_a = 0;
    for (const auto& each : me.receive(16)) {
        tags.insert(each.tag);
        of_a += each.consumer_tag == "a" ? 1U : 0U;
    }
    EXPECT_EQ(tags.size(), 16U);
    EXPECT_EQ(of_a, 6U);
    me.ask(1, wire::basic::cancel{.consumer_tag = "a"}, wire::id_of<wire::basic::cancel_ok>);
    me.ack(16, true);
    EXPECT_EQ(me.received_after_round_trip(), 21U);
}

TEST(firehose, a_global_prefetch_bounds_the_channel)
{
    running_server there(settings{});
    script_client me(there.port());
    me.open_channel();
    me.ask(1, wire::basic::qos{.prefetch_count = 4, .global = true},
           wire::id_of<wire::basic::qos_ok>);
    me.consume(3, false, 1, "a");
    me.consume(3, false, 1, "b");
    EXPECT_EQ(me.received_after_round_trip(), 4U);
    me.ack(2, true);
    EXPECT_EQ(me.received_after_round_trip(), 6U);
}

TEST(firehose, everything_that_is_no_delivery_is_granted)
{
    running_server there(settings{.messages = 7});
    script_client me(there.port());
    me.open_channel();
    me.ask(1, wire::exchange::declare{.exchange = "e"}, wire::id_of<wire::exchange::declare_ok>);
    me.ask(1, wire::exchange::bind{.destination = "e", .source = "f"},
           wire::id_of<wire::exchange::bind_ok>);
    me.ask(1, wire::exchange::unbind{.destination = "e", .source = "f"},
           wire::id_of<wire::exchange::unbind_ok>);
    me.ask(1, wire::exchange::delete_{.exchange = "e"}, wire::id_of<wire::exchange::delete_ok>);
    me.ask(1, wire::queue::declare{.queue = ""}, wire::id_of<wire::queue::declare_ok>);
    me.ask(1, wire::queue::bind{.queue = "q", .exchange = "e"}, wire::id_of<wire::queue::bind_ok>);
    me.ask(1, wire::queue::unbind{.queue = "q", .exchange = "e"},
           wire::id_of<wire::queue::unbind_ok>);
    me.ask(1, wire::queue::purge{.queue = "q"}, wire::id_of<wire::queue::purge_ok>);
    me.ask(1, wire::queue::delete_{.queue = "q"}, wire::id_of<wire::queue::delete_ok>);
    me.ask(1, wire::basic::get{.queue = "q"}, wire::id_of<wire::basic::get_empty>);
    me.ask(1, wire::channel::flow{.active = false}, wire::id_of<wire::channel::flow_ok>);
    me.consume(5);
    EXPECT_EQ(me.received_after_round_trip(), 0U);
    me.ask(1, wire::channel::flow{.active = true}, wire::id_of<wire::channel::flow_ok>);
    EXPECT_EQ(me.receive(5).size(), 5U);
    me.close();
    EXPECT_EQ(there.stop().protocol_errors, 0U);
}

TEST(firehose, publishes_are_confirmed_and_forgotten)
{
    running_server there(settings{.messages = 1});
    script_client me(there.port());
    me.open_channel();
    me.ask(1, wire::confirm::select{}, wire::id_of<wire::confirm::select_ok>);
    me.publish("one");
    me.publish(std::string(300'000, 'x'));
    me.publish("");
    me.ask(1, wire::queue::declare{.queue = "q"}, wire::id_of<wire::queue::declare_ok>);
    me.close();
    EXPECT_EQ(there.stop().publishes, 3U);
}

TEST(firehose, a_paced_delivery_carries_its_time_and_its_settlement_is_timed)
{
    running_server there(settings{.messages = 20, .sizes = {16}, .rate = 2000});
    script_client me(there.port());
    me.open_channel();
    const auto before = firehose::clock_ns();
    me.consume(0);
    std::uint64_t last = before;
    for (std::size_t i = 0; i < 20; ++i) {
        const auto& each = me.receive(i + 1)[i];
        const auto sent =
            wire::detail::load_u64(reinterpret_cast<const std::byte*>(each.body.data()));
        EXPECT_GE(sent, last);
        last = sent;
        me.ack(each.tag);
    }
    EXPECT_LE(last, firehose::clock_ns());
    EXPECT_GE(last - before, 19U * 500'000U);
    me.received_after_round_trip();
    EXPECT_EQ(there.stop().settlement_latency.count(), 20U);
}

TEST(firehose, garbage_ends_its_connection_alone)
{
    running_server there(settings{});
    script_client good(there.port());
    script_client bad(there.port());
    bad.open_channel();
    const std::array<std::byte, 16> garbage{std::byte{9}};
    bad.raw(garbage);
    EXPECT_EQ(bad.wait_for_end().code, wire::reply_code::frame_error);
    good.open_channel();
    good.consume(10);
    EXPECT_EQ(good.received_after_round_trip(), 10U);
    EXPECT_EQ(there.stop().protocol_errors, 1U);
}

TEST(firehose, a_paced_server_sleeps_until_it_is_time_or_the_client_settles)
{
    running_server there(settings{.messages = 40, .rate = 200});
    script_client me(there.port());
    me.open_channel();
    me.consume(20);
    me.receive(20); // after a tenth of a second
    // The window is full, and deliveries become due all the same.
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(me.received_after_round_trip(), 20U);
    me.ack(20, true);
    me.receive(40);
    // Of a server that never sleeps it would be tens of thousands.
    EXPECT_LT(there.stop().turns, 3000U);
}

// A conversation with a few bytes changed, again and again.
TEST(firehose, damaged_bytes_harm_nobody_else)
{
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    running_server there(settings{.sizes = {16, 9000}});
    for (int i = 0; i < 200; ++i) {
        script_client me(there.port());
        me.open_channel();
        me.consume(10);
        std::vector<std::byte> said(4 * wire::settle_frame_size + 64);
        auto* to = wire::write_ack(said.data(), 1, 1 + random() % 12, random() % 2 == 0);
        to = wire::write_nack(to, 1, 1 + random() % 12, random() % 2 == 0, random() % 2 == 0);
        to = wire::write_reject(to, 1, 1 + random() % 12, random() % 2 == 0);
        const wire::basic::consume again{.queue = "q", .consumer_tag = "other"};
        const auto used = static_cast<std::size_t>(to - said.data());
        said.resize(used + wire::encode_frame(std::span(said).subspan(used), 1, again));
        for (int change = 0; change < 3; ++change)
            said[random() % said.size()] = static_cast<std::byte>(random());
        me.leave(said);
    }
    script_client good(there.port());
    good.open_channel();
    good.consume(10);
    EXPECT_EQ(good.received_after_round_trip(), 10U);
    const auto& seen = there.stop();
    EXPECT_EQ(seen.connections, 201U);
    EXPECT_GT(seen.protocol_errors + seen.settled_twice + seen.unknown_tags, 0U);
}

TEST(firehose, a_settlement_on_a_channel_that_is_not_open_ends_the_connection)
{
    running_server there(settings{});
    script_client me(there.port());
    std::array<std::byte, wire::settle_frame_size> frame;
    wire::write_ack(frame.data(), 9, 1, false);
    me.raw(frame);
    EXPECT_EQ(me.wait_for_end().code, wire::reply_code::channel_error);
    wire::write_ack(frame.data(), 65535, 1, false);
    script_client other(there.port());
    other.raw(frame);
    EXPECT_EQ(other.wait_for_end().code, wire::reply_code::channel_error);
}

TEST(firehose, a_client_that_goes_with_its_last_settlement_is_gone)
{
    firehose::server there(settings{.messages = 10, .connections = 1});
    std::thread running([&] { there.run(); }); // ends with the connection
    script_client me(there.port());
    me.open_channel();
    me.consume(10);
    me.receive(10);
    std::array<std::byte, wire::settle_frame_size> frame;
    wire::write_ack(frame.data(), 1, 10, true);
    me.leave(frame);
    running.join();
    EXPECT_EQ(there.seen().acked, 10U);
    EXPECT_EQ(there.seen().left_unsettled, 0U);
}

TEST(firehose, many_connections_and_channels_are_served_at_once)
{
    constexpr std::uint16_t channels = 100;
    running_server there(settings{});
    std::vector<std::unique_ptr<script_client>> clients;
    for (int i = 0; i < 10; ++i) {
        clients.push_back(std::make_unique<script_client>(there.port()));
        for (std::uint16_t channel = 1; channel <= channels; ++channel)
            clients.back()->open_channel(channel);
        for (std::uint16_t channel = 1; channel <= channels; ++channel)
            clients.back()->consume(2, false, channel);
    }
    for (const auto& each : clients) {
        each->receive(2 * channels);
        for (std::uint16_t channel = 1; channel <= channels; ++channel)
            each->ack(2, true, channel);
        each->receive(4 * channels);
        EXPECT_EQ(each->received_after_round_trip(), 4U * channels);
    }
    const auto& seen = there.stop();
    EXPECT_EQ(seen.channels, 1000U);
    EXPECT_EQ(seen.deliveries, 4000U);
    EXPECT_EQ(seen.left_unsettled, 2000U);
}

TEST(firehose, an_empty_queue_is_full_again_for_the_next_consumer)
{
    running_server there(settings{.messages = 5});
    for (int i = 0; i < 2; ++i) {
        script_client me(there.port());
        me.open_channel();
        me.consume(0);
        me.receive(5);
        me.ack(5, true);
        EXPECT_EQ(me.received_after_round_trip(), 5U);
        me.close();
    }
    EXPECT_EQ(there.stop().acked, 10U);
}

} // namespace

} // namespace acquit::testing
