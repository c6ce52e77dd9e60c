// A program of its own, since it counts the calls of the global operator new.
#include <acquit/runtime/event.h>
#include <acquit/runtime/frame_pool.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/mailbox.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timeout.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include <sys/socket.h>

namespace {
std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment)
{
    ++allocations;
    const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
    if (void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded))
        return memory;
    throw std::bad_alloc();
}
} // namespace

void* operator new(std::size_t size)
{
    return counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment)
{
    return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept
{
    std::free(memory);
}

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

#define SKIP_WITHOUT_FRAME_POOL()                                                                  \
    if (ACQUIT_PLAIN_FRAMES)                                                                       \
    GTEST_SKIP() << "frames are plain allocations under this sanitizer"

task<> sleeps()
{
    co_await sleep(10us);
}

task<> takes(mailbox<int>& from, int count)
{
    for (int index = 0; index < count; ++index)
        (void)co_await from.pop();
}

task<> gives(mailbox<int>& to, int count)
{
    for (int index = 0; index < count; ++index)
        co_await to.push(index);
}

task<> echoes(stream& with, int count)
{
    std::array<std::byte, 64> memory;
    for (int index = 0; index < count; ++index) {
        const auto size = co_await with.read_some(memory);
        co_await with.write(std::span<const std::byte>(memory.data(), size));
    }
}

task<> asks(stream& of, receive_buffer& into, int count)
{
    const std::array<std::byte, 16> request{};
    for (int index = 0; index < count; ++index) {
        co_await of.write(request);
        std::size_t size = 0;
        while (size < request.size())
            size += co_await into.receive(of);
        into.consume(size);
    }
}

task<> round(stream& left, stream& right, receive_buffer& buffer, mailbox<int>& box)
{
    co_await with_scope([&](scope& s) -> task<> {
        for (int index = 0; index < 50; ++index)
            s.spawn(sleeps());
        s.spawn(takes(box, 200));
        s.spawn(gives(box, 200));
        s.spawn(echoes(right, 20));
        s.spawn(asks(left, buffer, 20));
        co_await with_timeout(1h, sleeps());
    });
}

} // namespace

TEST(allocation, a_steady_state_of_tasks_timers_mailboxes_and_streams_takes_nothing_from_the_heap)
{
    SKIP_WITHOUT_FRAME_POOL();
    loop events;
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    socket_stream left(events, fds[0], "left");
    socket_stream right(events, fds[1], "right");
    receive_buffer buffer(events, {});
    mailbox<int> box(4);
    auto root = [](stream& a, stream& b, receive_buffer& into, mailbox<int>& through,
                   int rounds) -> task<> {
        for (int index = 0; index < rounds; ++index)
            co_await round(a, b, into, through);
    };
    events.run(root(left, right, buffer, box, 5));
    const auto before = allocations.load();
    const auto frames_before = frame_pool::allocated_total();
    events.run(root(left, right, buffer, box, 100));
    EXPECT_EQ(allocations.load() - before, 0u);
    EXPECT_EQ(frame_pool::allocated_total() - frames_before, 0u);
}

TEST(allocation, the_counter_counts)
{
    const auto before = allocations.load();
    const auto made = std::make_unique<int>(1);
    EXPECT_EQ(allocations.load() - before, 1u);
    EXPECT_EQ(*made, 1);
}

TEST(frame_pool, reuses_frames_and_gives_back_what_exceeds_its_bound)
{
    SKIP_WITHOUT_FRAME_POOL();
    void* const first = frame_pool::allocate(500);
    frame_pool::release(first, 500);
    const auto taken = frame_pool::allocated_total();
    EXPECT_EQ(frame_pool::allocate(510), first) << "the same class of size";
    EXPECT_EQ(frame_pool::allocated_total(), taken);
    frame_pool::release(first, 510);
    void* const large = frame_pool::allocate(100'000);
    frame_pool::release(large, 100'000);
    EXPECT_EQ(frame_pool::allocated_total(), taken + 1);
}
