#include "ledger_harness.h"

#include <acquit/settle/ledger.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace acquit::settle::testing {
namespace {

using enum disposition;

TEST(ledger_L1, frames_leave_in_ascending_tag_order_whatever_the_order_of_settling)
{
    ledger_harness h{16};
    h.deliver(9);
    for (const std::uint64_t tag : {9u, 4u, 7u, 2u, 8u})
        h.settle(tag, tag % 2 == 0 ? reject : ack);
    h.flush();
    EXPECT_EQ(h.server.tags_received(), (std::vector<std::uint64_t>{2, 4, 7, 8, 9}));
    h.finish();
}

TEST(ledger_L2, a_run_of_acks_at_the_low_end_is_one_multiple)
{
    ledger_harness h{16};
    h.deliver(10);
    for (std::uint64_t tag = 1; tag <= 8; ++tag)
        h.settle(tag, ack);
    const flush_result told = h.flush();
    EXPECT_EQ(told.frames, 1u);
    EXPECT_EQ(told.settled, 8u);
    EXPECT_EQ(h.server.multiples(), 1u);
    EXPECT_EQ(h.server.tags_received(), (std::vector<std::uint64_t>{8}));
    h.finish();
}

TEST(ledger_L2, rejects_inside_the_run_go_first_and_the_multiple_passes_over_them)
{
    ledger_harness h{16};
    h.deliver(6);
    h.settle(1, ack);
    h.settle(2, reject);
    h.settle(3, ack);
    h.settle(4, requeue);
    h.settle(5, ack);
    h.settle(6, reject);
    EXPECT_EQ(h.flush().frames, 4u);
    EXPECT_EQ(h.server.tags_received(), (std::vector<std::uint64_t>{2, 4, 5, 6}));
    EXPECT_EQ(h.server.multiples(), 1u);
    h.finish();
}

TEST(ledger_L2, the_tag_of_a_multiple_is_itself_acked_and_outstanding)
{
    ledger_harness h{16};
    h.deliver(4);
    h.skip(); // the server's list does not have this one
    h.settle(1, ack);
    h.settle(2, ack);
    h.settle(3, reject);
    h.settle(4, reject);
    h.flush();
    EXPECT_EQ(h.server.tags_received(), (std::vector<std::uint64_t>{2, 3, 4}));
    h.finish();
}

TEST(ledger_L2, a_lone_ack_is_no_multiple)
{
    ledger_harness h{16};
    h.deliver(3);
    h.settle(1, reject);
    h.settle(2, ack);
    h.flush();
    EXPECT_EQ(h.server.multiples(), 0u);
    h.finish();
}

TEST(ledger_L3, one_slow_delivery_does_not_hold_back_the_acks_of_others)
{
    ledger_harness h{16};
    h.deliver(10);
    for (std::uint64_t tag = 2; tag <= 10; ++tag)
        h.settle(tag, ack);
    EXPECT_EQ(h.flush().frames, 9u);
    EXPECT_EQ(h.server.unacked(), (std::vector<std::uint64_t>{1}));
    h.finish();
}

TEST(ledger_L5, in_order_acks_cost_one_frame_per_flush_whatever_the_batch)
{
    ledger_harness h{2000};
    for (int batch = 1; batch <= 512; batch *= 2) {
        const std::uint64_t before = h.server.frames();
        h.deliver(batch);
        for (const std::uint64_t tag : std::vector{h.open})
            h.settle(tag, ack);
        h.flush();
        EXPECT_EQ(h.server.frames() - before, 1u) << batch;
    }
    h.finish();
}

TEST(ledger_L7, no_ack_deliveries_of_another_consumer_leave_holes_that_nobody_settles)
{
    ledger_harness h{4};
    for (int i = 0; i < 500; ++i) {
        const std::uint64_t hole = h.skip();
        const std::uint64_t tag = h.deliver();
        EXPECT_EQ(h.book.settle(hole, ack), settled::stale);
        h.settle(tag, i % 7 == 0 ? requeue : ack);
        if (i % 5 == 0)
            h.flush();
    }
    h.finish();
}

TEST(ledger, a_traffic_of_no_ack_deliveries_alone_takes_no_room)
{
    ledger_harness h{1};
    const std::size_t before = h.book.capacity();
    h.deliver();
    for (int i = 0; i < 100'000; ++i)
        h.skip();
    EXPECT_EQ(h.book.capacity(), before);
    h.finish();
    for (int i = 0; i < 1000; ++i)
        h.skip();
    EXPECT_EQ(h.book.capacity(), before);
    EXPECT_EQ(h.book.settle(h.book.next_tag() - 1, ack), settled::stale);
}

TEST(ledger, a_delivery_that_stays_open_does_not_make_the_ring_grow_with_the_distance)
{
    ledger_harness h{16};
    const std::size_t before = h.book.capacity();
    h.deliver(3);
    for (int i = 0; i < 20'000; ++i) {
        const std::uint64_t tag = h.deliver();
        h.settle(tag, ack);
        if (i % 8 == 7)
            h.flush();
    }
    EXPECT_EQ(h.book.capacity(), before);
    EXPECT_EQ(h.book.settle(4, ack), settled::stale);
    // The old ones are settled like any other.
    h.settle(2, requeue);
    EXPECT_EQ(h.book.settle(2, ack), settled::already);
    h.flush();
    h.settle(3, ack);
    h.settle(1, ack);
    h.deliver(2);
    h.settle(h.open.front(), ack);
    EXPECT_EQ(h.flush().frames, 1u); // one multiple over the old ones and the new one
    h.finish();
}

TEST(ledger, grows_when_more_is_outstanding_than_it_was_told)
{
    ledger_harness h{1};
    const std::size_t before = h.book.capacity();
    h.deliver(5000);
    EXPECT_GT(h.book.capacity(), before);
    EXPECT_LE(h.book.capacity(), 8 * std::bit_ceil(5000u));
    for (std::uint64_t tag = 5000; tag > 0; tag -= 2)
        h.settle(tag, tag % 3 == 0 ? reject : ack);
    h.flush();
    h.finish();
}

TEST(ledger, refuses_a_tag_that_is_not_the_next_one)
{
    ledger book{8};
    EXPECT_FALSE(book.delivered(0));
    EXPECT_FALSE(book.delivered(2));
    EXPECT_FALSE(book.skipped(UINT64_MAX));
    EXPECT_TRUE(book.delivered(1));
    EXPECT_FALSE(book.delivered(1));
    EXPECT_TRUE(book.skipped(2));
    EXPECT_FALSE(book.skipped(2));
    EXPECT_EQ(book.next_tag(), 3u);
    EXPECT_EQ(book.unsettled(), 1u);
}

TEST(ledger, an_unknown_tag_is_stale_and_writes_nothing)
{
    ledger_harness h{8};
    h.deliver(2);
    for (const std::uint64_t tag : {std::uint64_t{0}, std::uint64_t{3}, UINT64_MAX})
        EXPECT_EQ(h.book.settle(tag, ack), settled::stale) << tag;
    EXPECT_EQ(h.book.flush_size(), 0u);
    EXPECT_EQ(h.flush().frames, 0u);
    h.finish();
}

TEST(ledger, the_first_of_two_decisions_stands)
{
    ledger_harness h{8};
    h.deliver(3);
    h.settle(2, reject);
    EXPECT_EQ(h.book.settle(2, ack), settled::already);
    h.flush();
    EXPECT_EQ(h.book.settle(2, ack), settled::already); // told, and an older one is still open
    h.settle(1, ack);
    h.flush();
    EXPECT_EQ(h.book.settle(2, ack), settled::stale); // long gone
    h.finish();
}

TEST(ledger, a_span_without_room_for_a_frame_changes_nothing)
{
    ledger_harness h{8};
    h.deliver(2);
    h.settle(1, ack);
    h.settle(2, ack);
    std::array<std::byte, 20> small{};
    const flush_result told = h.book.flush(small, test_channel);
    EXPECT_EQ(told.bytes, 0u);
    EXPECT_FALSE(told.complete);
    EXPECT_EQ(h.book.unflushed(), 2u);
    h.finish();
}

TEST(ledger, what_did_not_fit_comes_with_the_next_flush)
{
    for (std::size_t room = 1; room <= 5; ++room) {
        ledger_harness h{8};
        h.deliver(8);
        h.settle(1, ack);
        h.settle(2, reject);
        h.settle(3, ack);
        h.settle(4, requeue);
        h.settle(6, ack);
        h.settle(8, reject);
        int calls = 0;
        while (!h.flush(room).complete)
            ASSERT_LT(++calls, 6);
        EXPECT_EQ(h.server.frames(), 6u - 1u);
        h.finish();
    }
}

TEST(ledger, give_back_is_one_frame_when_nothing_older_is_outstanding)
{
    ledger_harness h{8};
    h.deliver(8);
    for (std::uint64_t tag = 1; tag <= 3; ++tag)
        h.settle(tag, ack);
    h.flush();
    EXPECT_EQ(h.give_back(4, 8).frames, 1u);
    EXPECT_EQ(h.server.multiples(), 2u);
    EXPECT_EQ(h.book.outstanding(), 0u);
    h.finish();
}

TEST(ledger, give_back_never_covers_what_a_handler_has_or_has_decided)
{
    ledger_harness h{8};
    h.deliver(8);
    h.settle(2, ack);
    h.settle(6, reject); // inside the range, not written yet
    EXPECT_EQ(h.give_back(4, UINT64_MAX - 3).frames, 4u);
    EXPECT_EQ(h.server.multiples(), 0u);
    EXPECT_EQ(h.server.fate_of(6), fate::unacked);
    h.finish();
    EXPECT_EQ(h.server.fate_of(6), fate::rejected);
}

TEST(ledger, give_back_ends_where_it_was_told)
{
    ledger_harness h{8};
    h.deliver(6);
    EXPECT_EQ(h.give_back(1, 4).frames, 1u);
    EXPECT_EQ(h.server.unacked(), (std::vector<std::uint64_t>{5, 6}));
    h.deliver(1);
    h.settle(5, ack);
    EXPECT_EQ(h.give_back(6, 6).frames, 1u);
    EXPECT_EQ(h.server.unacked(), (std::vector<std::uint64_t>{5, 7}));
    h.finish();
}

TEST(ledger, give_back_of_old_ones_leaves_decided_and_newer_old_ones_alone)
{
    ledger_harness h{16};
    h.deliver(6);
    for (int i = 0; i < 200; ++i)
        h.settle(h.deliver(), ack), h.flush();
    h.settle(2, reject);
    EXPECT_EQ(h.give_back(1, 4).frames, 3u);
    EXPECT_EQ(h.server.unacked(), (std::vector<std::uint64_t>{2, 5, 6}));
    h.finish();
    EXPECT_EQ(h.server.fate_of(2), fate::rejected);
}

TEST(ledger, give_back_of_nothing_writes_nothing)
{
    ledger_harness h{8};
    EXPECT_EQ(h.book.give_back({}, test_channel, 1, UINT64_MAX).frames, 0u);
    h.deliver(2);
    h.settle(1, ack);
    h.settle(2, ack);
    EXPECT_EQ(h.book.give_back({}, test_channel, 1, 2).frames, 0u);
    EXPECT_TRUE(h.book.give_back({}, test_channel, 3, 9).complete);
    EXPECT_TRUE(h.book.give_back({}, test_channel, 2, 1).complete);
    h.finish();
}

TEST(ledger, give_back_of_a_lone_delivery_is_no_multiple)
{
    ledger_harness h{8};
    h.deliver(1);
    EXPECT_EQ(h.give_back(1, 1).frames, 1u);
    EXPECT_EQ(h.server.multiples(), 0u);
}

TEST(ledger, give_back_with_a_short_span_goes_on_at_the_next_call)
{
    ledger_harness h{8};
    h.deliver(6);
    EXPECT_FALSE(h.give_back(2, 6, 2).complete);
    EXPECT_FALSE(h.give_back(2, 6, 2).complete);
    EXPECT_TRUE(h.give_back(2, 6, 2).complete);
    EXPECT_FALSE(h.give_back(1, 6, 0).complete);
    h.finish();
}

TEST(field_case_s6, no_order_of_stale_settlements_writes_tag_0)
{
    ledger_harness h{8};
    h.deliver(3);
    const std::uint32_t old = h.book.epoch();
    h.reset();
    std::array<std::uint64_t, 4> tags{0, 1, 2, 3};
    do {
        for (const std::uint64_t tag : tags)
            EXPECT_EQ(h.book.settle(old, tag, ack), settled::stale);
        EXPECT_EQ(h.book.settle(h.book.epoch(), 0, ack), settled::stale);
        EXPECT_EQ(h.flush().bytes, 0u);
    } while (std::ranges::next_permutation(tags).found);
}

TEST(field_case_s8, a_multiple_ends_at_an_outstanding_tag_when_two_tasks_settle_crosswise)
{
    ledger_harness h{8};
    h.deliver(5);
    for (const std::uint64_t tag : {5u, 1u, 2u, 4u, 3u})
        h.settle(tag, ack);
    h.flush();
    EXPECT_EQ(h.server.tags_received(), (std::vector<std::uint64_t>{5}));
    h.finish();
}

TEST(field_case_s13, a_retry_of_the_second_delivery_leaves_the_first_alone)
{
    ledger_harness h{8};
    h.deliver(2);
    h.settle(2, requeue);
    h.flush();
    EXPECT_EQ(h.server.unacked(), (std::vector<std::uint64_t>{1}));
    EXPECT_EQ(h.server.nacks(), 0u);
    h.finish();
}

TEST(field_case_s18, acks_decided_in_descending_order_do_not_make_the_server_scan)
{
    constexpr std::uint64_t prefetch = 2000;
    ledger_harness h{prefetch};
    h.deliver(prefetch);
    for (std::uint64_t tag = prefetch; tag > 1; --tag)
        h.settle(tag, ack);
    h.flush(); // 1 is open: all singles
    EXPECT_LE(h.server.scanned(), prefetch);

    // The same, told one by one as they are decided.
    ledger_harness eager{prefetch};
    eager.deliver(prefetch);
    for (std::uint64_t tag = prefetch; tag > 1; --tag) {
        eager.settle(tag, ack);
        eager.flush();
    }
    EXPECT_GT(eager.server.scanned(), 500 * h.server.scanned());
}

TEST(field_case_s20, nine_acks_leave_while_the_oldest_of_ten_is_held)
{
    ledger_harness h{10};
    h.deliver(10);
    for (std::uint64_t tag = 2; tag <= 10; ++tag) {
        h.settle(tag, ack);
        h.flush();
    }
    EXPECT_EQ(h.server.unacked().size(), 1u);
    h.finish();
}

TEST(field_case_s21, an_extra_settlement_does_not_confuse_the_counts)
{
    ledger_harness h{8};
    h.deliver(4);
    h.settle(1, ack);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(h.book.settle(1, reject), settled::already);
    h.flush();
    EXPECT_EQ(h.book.unsettled(), 3u);
    h.deliver(4);
    h.finish();
}

TEST(field_case_c14, a_token_of_the_channel_before_never_acks_what_has_its_tag_now)
{
    ledger_harness h{8};
    h.deliver(5);
    const std::uint32_t before = h.book.epoch();
    h.reset();
    h.deliver(5);
    EXPECT_EQ(h.book.settle(before, 5, ack), settled::stale);
    EXPECT_EQ(h.flush().bytes, 0u);
    EXPECT_EQ(h.server.unacked().size(), 5u);
    h.finish();
}

TEST(field_case_c15, deliveries_1_to_5_of_a_restored_channel_are_all_acked)
{
    ledger_harness h{8};
    h.deliver(5);
    h.finish();
    h.reset();
    h.deliver(5);
    for (std::uint64_t tag = 1; tag <= 5; ++tag)
        EXPECT_EQ(h.book.settle(h.book.epoch(), tag, ack), settled::done);
    std::array<std::byte, 5 * 21> out{};
    const flush_result told = h.book.flush(out, test_channel);
    EXPECT_TRUE(h.server.receive(std::span{out}.first(told.bytes))) << h.server.error();
    EXPECT_TRUE(h.server.unacked().empty());
}

TEST(field_case_c63, four_deliveries_that_finish_in_reverse_are_acked_each_for_itself)
{
    ledger_harness h{4};
    h.deliver(4);
    for (std::uint64_t tag = 4; tag >= 1; --tag) {
        h.settle(tag, ack);
        h.flush();
        EXPECT_EQ(h.server.unacked().size(), tag - 1);
    }
}

TEST(ledger_S10, a_reset_forgets_what_was_open_and_what_was_not_told)
{
    ledger_harness h{4};
    h.deliver(2);
    for (int i = 0; i < 300; ++i) // leaves the two far behind
        h.settle(h.deliver(), ack), h.flush();
    h.settle(2, reject);
    h.settle(h.deliver(), requeue);
    const std::uint32_t before = h.book.epoch();
    h.reset();
    EXPECT_NE(h.book.epoch(), before);
    EXPECT_EQ(h.book.outstanding(), 0u);
    EXPECT_EQ(h.book.flush_size(), 0u);
    EXPECT_EQ(h.book.next_tag(), 1u);
    h.deliver(3);
    h.finish();
}

} // namespace
} // namespace acquit::settle::testing
