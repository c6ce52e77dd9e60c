#include <acquit/runtime/loop.h>
#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timeout.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <set>
#include <string>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

std::span<const std::byte> bytes_of(const std::string& text)
{
    return std::as_bytes(std::span(text));
}

task<std::string> read_all(stream& from, std::set<std::size_t>* sizes = nullptr)
{
    std::string all;
    std::array<char, 64> part;
    while (const auto count = co_await from.read_some(std::as_writable_bytes(std::span(part)))) {
        all.append(part.data(), count);
        if (sizes != nullptr)
            sizes->insert(count);
    }
    co_return all;
}

task<> write_and_finish(stream& to, std::string text)
{
    co_await to.write(bytes_of(text));
    to.shutdown_write();
}

task<int> error_of(task<std::string> reading)
{
    try {
        (void)co_await std::move(reading);
    } catch (const io_error& failure) {
        co_return failure.code();
    }
    co_return 0;
}

} // namespace

TEST(memory_stream, carries_bytes_both_ways_and_waits_when_it_is_full)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events, {.capacity = 10});
    auto root = [](stream& a, stream& b) -> task<> {
        const std::string text(1000, 'x');
        scope all;
        all.spawn(write_and_finish(a, text));
        all.spawn(write_and_finish(b, "back"));
        co_await sleep(1s);
        EXPECT_EQ(all.size(), 1u) << "the long one waits";
        EXPECT_EQ(co_await read_all(b), text);
        EXPECT_EQ(co_await read_all(a), "back");
        co_await all.join();
    };
    events.run(root(*left, *right));
    EXPECT_EQ(left->bytes_written(), 1000u);
    EXPECT_EQ(left->bytes_delivered(), 1000u);
}

TEST(memory_stream, splits_reads_at_random_and_equally_for_equal_seeds)
{
    auto sizes_for = [](std::uint64_t seed) {
        loop events({.virtual_time = true});
        auto [left, right] = memory_stream_pair(events, {.chunk_seed = seed});
        std::set<std::size_t> sizes;
        auto root = [](stream& a, stream& b, std::set<std::size_t>& into) -> task<> {
            const std::string text(2000, 'y');
            co_await write_and_finish(a, text);
            EXPECT_EQ(co_await read_all(b, &into), text);
        };
        events.run(root(*left, *right, sizes));
        return sizes;
    };
    EXPECT_GT(sizes_for(1).size(), 5u);
    EXPECT_EQ(sizes_for(7), sizes_for(7));
    EXPECT_EQ(sizes_for(0), (std::set<std::size_t>{16, 64})); // 2000 = 31 * 64 + 16
}

TEST(memory_stream, delays_each_byte)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events, {.delay = 5ms});
    auto root = [](stream& a, stream& b) -> task<duration> {
        const auto begin = loop::current().now();
        co_await a.write(bytes_of("late"));
        EXPECT_EQ(loop::current().now(), begin);
        std::array<std::byte, 8> memory{};
        EXPECT_EQ(co_await b.read_some(memory), 4u);
        co_return loop::current().now() - begin;
    };
    EXPECT_EQ(events.run(root(*left, *right)), 5ms);
}

TEST(memory_stream, cut_after_so_many_bytes_both_ends_see_a_reset)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events, {.capacity = 4});
    left->cut_after(10);
    auto root = [](stream& a, stream& b) -> task<> {
        int write_error = 0;
        scope all;
        all.spawn([](stream& to, int& code) -> task<> {
            try {
                const std::string text(100, 'z');
                co_await to.write(bytes_of(text));
            } catch (const io_error& failure) {
                code = failure.code();
            }
        }(a, write_error));
        EXPECT_EQ(co_await error_of(read_all(b)), ECONNRESET);
        co_await all.join();
        EXPECT_EQ(write_error, ECONNRESET);
        EXPECT_EQ(co_await error_of(read_all(a)), ECONNRESET);
    };
    events.run(root(*left, *right));
    EXPECT_EQ(left->bytes_delivered(), 10u);
}

TEST(memory_stream, frozen_it_delivers_nothing_until_it_thaws)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events);
    auto root = [](memory_stream& a, stream& b) -> task<> {
        a.freeze();
        co_await a.write(bytes_of("ice"));
        bool silent = false;
        auto reads = [](stream& from) -> task<std::size_t> {
            std::array<std::byte, 8> memory{};
            co_return co_await from.read_some(memory);
        };
        try {
            (void)co_await with_timeout(1h, reads(b));
        } catch (const timed_out&) {
            silent = true;
        }
        EXPECT_TRUE(silent);
        a.thaw();
        EXPECT_EQ(co_await reads(b), 3u);
    };
    events.run(root(*left, *right));
}

TEST(memory_stream, closed_by_one_end_the_other_reads_the_rest_and_cannot_write)
{
    loop events({.virtual_time = true});
    auto [left, right] = memory_stream_pair(events);
    auto root = [](stream& a, stream& b) -> task<> {
        co_await a.write(bytes_of("rest"));
        a.close();
        EXPECT_EQ(co_await read_all(b), "rest");
        int code = 0;
        try {
            co_await b.write(bytes_of("x"));
        } catch (const io_error& failure) {
            code = failure.code();
        }
        EXPECT_EQ(code, EPIPE);
        EXPECT_EQ(co_await error_of(read_all(a)), ECONNABORTED);
    };
    events.run(root(*left, *right));
}
