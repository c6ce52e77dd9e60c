#include <acquit/runtime/loop.h>
#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <sys/socket.h>

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

// Every way in which a kernel may fill segments.
enum class way { memory_stream, single_receives, provided_memory };

struct stream_pair {
    explicit stream_pair(loop& owner, way how, const memory_stream_options& options = {})
    {
        if (how == way::memory_stream) {
            std::tie(left, right) = memory_stream_pair(owner, options);
            return;
        }
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
            throw io_error(errno, "socketpair");
        left = std::make_unique<socket_stream>(owner, ends[0], "left");
        right = std::make_unique<socket_stream>(owner, ends[1], "right");
    }
    std::unique_ptr<stream> left;
    std::unique_ptr<stream> right;
};

loop_options options_for(way how)
{
    return {.provided_memory = how == way::provided_memory,
            .virtual_time = how == way::memory_stream};
}

class receive_buffer_ways : public testing::TestWithParam<way> {};

std::string name_of_way(const testing::TestParamInfo<way>& tested)
{
    const char* const names[] = {"memory_stream", "single_receives", "provided_memory"};
    return names[static_cast<int>(tested.param)];
}

INSTANTIATE_TEST_SUITE_P(by, receive_buffer_ways,
                         testing::Values(way::memory_stream, way::single_receives,
                                         way::provided_memory),
                         name_of_way);

// In pieces, so that a frame may lie anywhere in the reads.
task<> send_in_pieces(stream& to, const std::string& bytes, std::uint64_t seed)
{
    random_source random(seed);
    for (std::size_t at = 0; at < bytes.size();) {
        const auto size = std::min<std::size_t>(bytes.size() - at, 1 + random.below(3000));
        co_await to.write(std::as_bytes(std::span(bytes).subspan(at, size)));
        at += size;
    }
    to.shutdown_write();
}

#define SKIP_WHERE_NOTHING_IS_PROVIDED()                                                           \
    if (GetParam() == way::provided_memory && !kernel_provides())                                  \
    GTEST_SKIP() << "this kernel fills no provided memory (6.12)"

bool kernel_provides()
{
    loop events;
    return events.io().provide() != nullptr;
}

} // namespace

TEST_P(receive_buffer_ways, keep_every_frame_contiguous_and_every_held_frame_intact)
{
    SKIP_WHERE_NOTHING_IS_PROVIDED();
    const std::uint64_t first_seed = std::random_device{}();
    for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        loop events(options_for(GetParam()));
        stream_pair ends(events, GetParam(), {.capacity = 3000, .chunk_seed = seed | 1});
        auto root = [](loop& owner, stream& from, stream& to, way how, std::uint64_t by) -> task<> {
            random_source random(by);
            constexpr std::size_t count = 400;
            // Some are longer than the headroom, and some than a segment.
            const std::string sent = frames(random, count, random.below(2) == 0 ? 600 : 4000);
            receive_buffer buffer(owner,
                                  {.segment_size = 2048, .headroom = 602, .smallest_receive = 100});
            std::deque<held_frame> held;
            std::size_t number = 0;
            scope all;
            all.spawn(send_in_pieces(from, sent, by));
            while (co_await buffer.receive(to) > 0) {
                EXPECT_EQ(buffer.is_fed(), how == way::provided_memory);
                for (;;) {
                    const auto unread = buffer.unread();
                    std::uint16_t size = 0;
                    if (unread.size() < 2)
                        break;
                    std::memcpy(&size, unread.data(), 2);
                    if (unread.size() < std::size_t{2} + size) {
                        buffer.require(std::size_t{2} + size);
                        break;
                    }
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
        events.run(root(events, *ends.left, *ends.right, GetParam(), seed));
        EXPECT_EQ(events.segments().held(), 0u);
    }
}

TEST_P(receive_buffer_ways, take_no_more_memory_while_nobody_reads)
{
    SKIP_WHERE_NOTHING_IS_PROVIDED();
    if (GetParam() == way::memory_stream)
        GTEST_SKIP() << "sockets only: they buffer by themselves";
    loop events(options_for(GetParam()));
    stream_pair ends(events, GetParam());
    auto root = [](loop& owner, stream& from, stream& to) -> task<> {
        receive_buffer buffer(owner,
                              {.segment_size = 4096, .headroom = 100, .smallest_receive = 512});
        std::string sent(1'000'000, '\0');
        for (std::size_t index = 0; index < sent.size(); ++index)
            sent[index] = static_cast<char>(index / 777);
        scope all;
        all.spawn(send_all(from, sent));
        std::size_t got = 0;
        bool same = true;
        for (;;) {
            // The kernel goes on with what it has, turn after turn.
            for (int turn = 0; turn < 5; ++turn)
                co_await sleep(duration::zero());
            EXPECT_LE(owner.segments().held(), 4u);
            if (co_await buffer.receive(to) == 0)
                break;
            const auto unread = buffer.unread();
            same = same && std::memcmp(unread.data(), sent.data() + got, unread.size()) == 0;
            got += unread.size();
            buffer.consume(unread.size());
        }
        EXPECT_TRUE(same);
        EXPECT_EQ(got, sent.size());
        EXPECT_LE(owner.segments().allocated_total(), 4u);
        co_await all.join();
    };
    events.run(root(events, *ends.left, *ends.right));
}

TEST_P(receive_buffer_ways, give_what_comes_after_a_cancelled_receive)
{
    SKIP_WHERE_NOTHING_IS_PROVIDED();
    loop events(options_for(GetParam()));
    stream_pair ends(events, GetParam());
    auto root = [](loop& owner, stream& from, stream& to) -> task<> {
        receive_buffer buffer(owner);
        auto receive = [](receive_buffer& into, stream& source) -> task<> {
            (void)co_await into.receive(source);
        };
        bool late = false;
        try {
            co_await with_timeout(std::chrono::milliseconds(1), receive(buffer, to));
        } catch (const timed_out&) {
            late = true;
        }
        EXPECT_TRUE(late);
        const std::string text = "after all";
        co_await from.write(std::as_bytes(std::span(text)));
        EXPECT_EQ(co_await buffer.receive(to), text.size());
        EXPECT_EQ(std::memcmp(buffer.unread().data(), text.data(), text.size()), 0);
        from.shutdown_write();
        EXPECT_EQ(co_await buffer.receive(to), 0u);
        EXPECT_EQ(co_await buffer.receive(to), 0u);
    };
    events.run(root(events, *ends.left, *ends.right));
}

TEST_P(receive_buffer_ways, fail_when_the_stream_is_closed_on_this_side)
{
    SKIP_WHERE_NOTHING_IS_PROVIDED();
    loop events(options_for(GetParam()));
    stream_pair ends(events, GetParam());
    auto root = [](loop& owner, stream& to) -> task<> {
        receive_buffer buffer(owner);
        scope all;
        int code = 0;
        auto receive = [](receive_buffer& into, stream& source, int& failed) -> task<> {
            try {
                (void)co_await into.receive(source);
            } catch (const io_error& e) {
                failed = e.code();
            }
        };
        all.spawn(receive(buffer, to, code));
        co_await sleep(duration::zero());
        to.close();
        co_await all.join();
        EXPECT_EQ(code, ECONNABORTED);
        code = 0;
        co_await receive(buffer, to, code);
        EXPECT_EQ(code, ECONNABORTED);
    };
    events.run(root(events, *ends.right));
}

TEST_P(receive_buffer_ways, let_go_of_the_stream_when_cleared)
{
    SKIP_WHERE_NOTHING_IS_PROVIDED();
    loop events(options_for(GetParam()));
    stream_pair ends(events, GetParam());
    stream_pair others(events, GetParam());
    auto root = [](loop& owner, stream_pair& first, stream_pair& second) -> task<> {
        receive_buffer buffer(owner);
        const std::string old = "half a frame of a connection that is gone";
        const std::string text = "new";
        co_await first.left->write(std::as_bytes(std::span(old)));
        EXPECT_EQ(co_await buffer.receive(*first.right), old.size());
        buffer.clear();
        co_await first.left->write(std::as_bytes(std::span(old)));
        co_await second.left->write(std::as_bytes(std::span(text)));
        EXPECT_EQ(co_await buffer.receive(*second.right), text.size());
        EXPECT_EQ(std::memcmp(buffer.unread().data(), text.data(), text.size()), 0);
    };
    events.run(root(events, ends, others));
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
