#include <acquit/runtime/loop.h>
#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/scope.h>

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

using namespace acquit::runtime;

namespace {

// Frames of the test: two bytes of length, then that many bytes, each the frame's number.
std::string frames(random_source& random, std::size_t count, std::size_t longest)
{
    std::string bytes;
    for (std::size_t number = 0; number < count; ++number) {
        const auto size = static_cast<std::uint16_t>(random.below(longest - 1));
        bytes.append(reinterpret_cast<const char*>(&size), 2);
        bytes.append(size, static_cast<char>(number));
    }
    return bytes;
}

task<> send_all(stream& to, const std::string& bytes)
{
    co_await to.write(std::as_bytes(std::span(bytes)));
    to.shutdown_write();
}

struct held_frame {
    segment_ref hold;
    std::span<const std::byte> bytes;
    std::byte value;
};

bool intact(const held_frame& frame)
{
    for (const auto byte : frame.bytes)
        if (byte != frame.value)
            return false;
    return true;
}

} // namespace

TEST(receive_buffer, keeps_every_frame_contiguous_and_every_held_frame_intact)
{
    const std::uint64_t first_seed = std::random_device{}();
    for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        loop events({.virtual_time = true});
        auto [left, right] = memory_stream_pair(events, {.capacity = 3000, .chunk_seed = seed | 1});
        auto root = [](loop& owner, stream& from, stream& to, std::uint64_t by) -> task<> {
            random_source random(by);
            constexpr std::size_t count = 400;
            const std::string sent = frames(random, count, 600);
            receive_buffer buffer(owner,
                                  {.segment_size = 2048, .headroom = 602, .smallest_receive = 100});
            std::deque<held_frame> held;
            std::size_t number = 0;
            scope all;
            all.spawn(send_all(from, sent));
            while (co_await buffer.receive(to) > 0) {
                for (;;) {
                    const auto unread = buffer.unread();
                    std::uint16_t size = 0;
                    if (unread.size() < 2)
                        break;
                    std::memcpy(&size, unread.data(), 2);
                    if (unread.size() < std::size_t{2} + size)
                        break;
                    held.push_back({buffer.current(), unread.subspan(2, size),
                                    static_cast<std::byte>(number++)});
                    if (random.below(3) != 0) // most are let go at once
                        held.pop_back();
                    buffer.consume(std::size_t{2} + size);
                }
                while (held.size() > 30) {
                    EXPECT_TRUE(intact(held.front()));
                    held.pop_front();
                }
            }
            EXPECT_EQ(number, count);
            EXPECT_TRUE(buffer.unread().empty());
            for (const auto& frame : held)
                EXPECT_TRUE(intact(frame));
            EXPECT_GT(buffer.held_segments() + 1, 1u);
            held.clear();
            EXPECT_EQ(buffer.held_segments(), 0u);
            co_await all.join();
        };
        events.run(root(events, *left, *right, seed));
    }
}

TEST(receive_buffer, uses_one_segment_over_and_over_while_nobody_holds_it)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events);
    auto root = [](loop& owner, stream& from, stream& to) -> task<> {
        receive_buffer buffer(owner,
                              {.segment_size = 4096, .headroom = 100, .smallest_receive = 512});
        const std::string sent(200'000, 'a');
        std::size_t got = 0;
        scope all;
        all.spawn(send_all(from, sent));
        while (co_await buffer.receive(to) > 0) {
            // Leaves a few bytes of the last "frame" unread, as a parser does.
            const std::size_t take = buffer.unread().size() - buffer.unread().size() % 10;
            got += take;
            buffer.consume(take);
        }
        EXPECT_EQ(got, sent.size());
        EXPECT_EQ(owner.segments().allocated_total(), 1u);
        co_await all.join();
    };
    events.run(root(events, *left, *right));
}

TEST(receive_buffer, makes_a_bigger_segment_for_a_frame_that_needs_one)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events, {.capacity = 500});
    auto root = [](loop& owner, stream& from, stream& to) -> task<> {
        receive_buffer buffer(owner,
                              {.segment_size = 1000, .headroom = 100, .smallest_receive = 100});
        std::string sent(50'000, '\0');
        for (std::size_t index = 0; index < sent.size(); ++index)
            sent[index] = static_cast<char>(index / 100);
        scope all;
        all.spawn(send_all(from, sent));
        (void)co_await buffer.receive(to);
        buffer.consume(77);
        buffer.require(20'000);
        while (buffer.unread().size() < 20'000)
            EXPECT_GT(co_await buffer.receive(to), 0u);
        EXPECT_EQ(std::memcmp(buffer.unread().data(), sent.data() + 77, 20'000), 0);
        const std::size_t at = 77 + 20'000;
        buffer.consume(20'000);
        std::string rest;
        for (;;) {
            const auto unread = buffer.unread();
            rest.append(reinterpret_cast<const char*>(unread.data()), unread.size());
            buffer.consume(unread.size());
            if (co_await buffer.receive(to) == 0)
                break;
        }
        EXPECT_TRUE(rest == sent.substr(at));
        co_await all.join();
    };
    events.run(root(events, *left, *right));
}

TEST(receive_buffer, held_segments_outlive_the_buffer_and_the_loop)
{
    segment_ref held;
    std::span<const std::byte> bytes;
    {
        loop events({.virtual_time = true});
        auto [left, right] = memory_stream_pair(events);
        auto root = [](loop& owner, stream& from, stream& to, segment_ref& hold,
                       std::span<const std::byte>& kept) -> task<> {
            receive_buffer buffer(owner, {});
            const std::string text = "kept";
            co_await from.write(std::as_bytes(std::span(text)));
            EXPECT_EQ(co_await buffer.receive(to), 4u);
            hold = buffer.current();
            kept = buffer.unread();
        };
        events.run(root(events, *left, *right, held, bytes));
        EXPECT_EQ(events.segments().held(), 1u);
    }
    EXPECT_EQ(std::memcmp(bytes.data(), "kept", 4), 0);
    held.reset();
}

TEST(segment_pool, gives_out_first_what_was_used_last_and_caches_no_more_than_its_bound)
{
    loop events({.virtual_time = true});
    auto& pool = events.segments();
    auto first = pool.take(1 << 20);
    auto second = pool.take(1 << 20);
    auto* const warmest = second.get();
    first.reset();
    second.reset();
    auto again = pool.take(1 << 20);
    EXPECT_EQ(again.get(), warmest);
    EXPECT_EQ(pool.allocated_total(), 2u);
    again.reset();
    std::vector<segment_ref> many;
    for (int index = 0; index < 10; ++index)
        many.push_back(pool.take(1 << 20));
    EXPECT_EQ(pool.held(), 10u);
    EXPECT_EQ(pool.allocated_total(), 10u);
    many.clear();
    for (int index = 0; index < 10; ++index)
        many.push_back(pool.take(1 << 20));
    EXPECT_EQ(pool.allocated_total(), 16u) << "4 MiB were cached";
}
