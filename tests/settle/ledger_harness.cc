#include "ledger_harness.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace acquit::settle::testing {

fate fate_after(disposition how)
{
    return how == disposition::ack      ? fate::acked
           : how == disposition::reject ? fate::rejected
                                        : fate::requeued;
}

std::uint64_t ledger_harness::deliver()
{
    const std::uint64_t tag = server.deliver();
    EXPECT_TRUE(book.delivered(tag));
    open.push_back(tag);
    return tag;
}

void ledger_harness::deliver(int count)
{
    for (int i = 0; i < count; ++i)
        deliver();
}

std::uint64_t ledger_harness::skip()
{
    const std::uint64_t tag = server.deliver_no_ack();
    EXPECT_TRUE(book.skipped(tag));
    return tag;
}

void ledger_harness::settle(std::uint64_t tag, disposition how)
{
    const auto at = std::ranges::lower_bound(open, tag);
    ASSERT_TRUE(at != open.end() && *at == tag) << "the test settles " << tag << " twice";
    ASSERT_EQ(book.settle(tag, how), settled::done) << tag;
    open.erase(at);
    decided[tag] = unwritten_[tag] = fate_after(how);
}

std::uint64_t ledger_harness::fewest_frames() const
{
    const std::uint64_t gap = open.empty() ? UINT64_MAX : open.front();
    std::uint64_t frames = 0;
    bool acks_below = false;
    for (const auto& [tag, how] : unwritten_) {
        if (how == fate::acked && tag < gap)
            acks_below = true;
        else
            ++frames;
    }
    return frames + acks_below;
}

flush_result ledger_harness::flush(std::size_t frames_max)
{
    const std::uint64_t fewest = fewest_frames();
    const std::size_t room =
        std::min(book.flush_size(), frames_max == SIZE_MAX ? SIZE_MAX : frames_max * 21);
    buffer_.assign(room, std::byte{0xEE});
    server.forget_received();
    const flush_result result = book.flush(buffer_, test_channel);
    EXPECT_LE(result.bytes, room);
    EXPECT_EQ(result.bytes, result.frames * 21u);
    EXPECT_TRUE(server.receive(std::span{buffer_}.first(result.bytes))) << server.error();
    EXPECT_TRUE(std::ranges::is_sorted(server.tags_received()));
    EXPECT_LE(result.frames, fewest);
    EXPECT_EQ(result.complete, result.frames == fewest);
    std::uint64_t told = 0;
    for (auto each = unwritten_.begin(); each != unwritten_.end();) {
        const fate now = server.fate_of(each->first);
        if (now == fate::unacked) {
            ++each;
            continue;
        }
        EXPECT_EQ(now, each->second) << "tag " << each->first;
        each = unwritten_.erase(each);
        ++told;
    }
    EXPECT_EQ(result.settled, told);
    check_counts();
    return result;
}

flush_result ledger_harness::give_back(std::uint64_t first, std::uint64_t last,
                                       std::size_t frames_max)
{
    buffer_.assign(std::min<std::size_t>(frames_max, open.size()) * 21, std::byte{0xEE});
    server.forget_received();
    const flush_result result = book.give_back(buffer_, test_channel, first, last);
    EXPECT_EQ(result.bytes, result.frames * 21u);
    EXPECT_TRUE(server.receive(std::span{buffer_}.first(result.bytes))) << server.error();
    EXPECT_TRUE(std::ranges::is_sorted(server.tags_received()));
    std::uint64_t told = 0;
    std::erase_if(open, [&](std::uint64_t tag) {
        if (server.fate_of(tag) == fate::unacked)
            return false;
        EXPECT_EQ(server.fate_of(tag), fate::given_back);
        EXPECT_TRUE(first <= tag && tag <= last);
        decided[tag] = fate::given_back;
        ++told;
        return true;
    });
    EXPECT_EQ(result.settled, told);
    if (result.complete) {
        EXPECT_TRUE(std::ranges::none_of(
            open, [&](std::uint64_t tag) { return first <= tag && tag <= last; }));
    }
    check_counts();
    return result;
}

void ledger_harness::check_counts()
{
    EXPECT_EQ(book.unsettled(), open.size());
    EXPECT_EQ(book.unflushed(), unwritten_.size());
    EXPECT_EQ(book.outstanding(), server.unacked().size());
    EXPECT_EQ(book.oldest_unsettled_tag(), open.empty() ? 0 : open.front());
}

void ledger_harness::finish()
{
    for (const std::uint64_t tag : std::vector{open})
        settle(tag, disposition::ack);
    flush();
    EXPECT_EQ(book.flush_size(), 0u);
    EXPECT_TRUE(server.unacked().empty());
    for (const auto& [tag, how] : decided)
        EXPECT_EQ(server.fate_of(tag), how) << "tag " << tag;
}

void ledger_harness::reset()
{
    book.reset();
    server.reset();
    decided.clear();
    open.clear();
    unwritten_.clear();
}

} // namespace acquit::settle::testing
