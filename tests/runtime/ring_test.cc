#include <acquit/runtime/error.h>
#include <acquit/runtime/ring.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

struct seen {
    int calls = 0;
    std::int32_t result = 0;
    completion_target target()
    {
        return {[](void* self, std::int32_t with, std::uint32_t) noexcept {
                    ++static_cast<seen*>(self)->calls;
                    static_cast<seen*>(self)->result = with;
                },
                this};
    }
};

struct pair_of_sockets {
    pair_of_sockets() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0); }
    ~pair_of_sockets()
    {
        ::close(fds[0]);
        ::close(fds[1]);
    }
    void say(const char* text) const
    {
        EXPECT_EQ(::write(fds[1], text, std::strlen(text)),
                  static_cast<ssize_t>(std::strlen(text)));
    }
    int fds[2];
};

void wait_for(ring& io, const seen& what)
{
    while (what.calls == 0) {
        io.submit_and_wait(std::nullopt);
        io.reap();
    }
}

// Both ways in which the kernel can run completions, since old kernels know only one.
class ring_kinds : public testing::TestWithParam<bool> {
protected:
    ring io{{.entries = 8, .defer_taskrun = GetParam()}};
};

} // namespace

INSTANTIATE_TEST_SUITE_P(, ring_kinds, testing::Bool());

TEST_P(ring_kinds, receives_what_was_sent)
{
    pair_of_sockets sockets;
    std::array<std::byte, 16> memory{};
    seen received;
    io.recv(sockets.fds[0], memory, received.target());
    EXPECT_EQ(io.in_flight(), 1u);
    io.submit();
    EXPECT_EQ(io.reap(), 0u);
    sockets.say("hello");
    wait_for(io, received);
    EXPECT_EQ(received.result, 5);
    EXPECT_EQ(std::memcmp(memory.data(), "hello", 5), 0);
    EXPECT_EQ(io.in_flight(), 0u);
    if (!GetParam())
        EXPECT_FALSE(io.defers_taskrun());
}

TEST_P(ring_kinds, cancelling_calls_the_target_once_and_an_old_token_reaches_nobody)
{
    pair_of_sockets sockets;
    std::array<std::byte, 16> memory{};
    seen first;
    const ring_token old = io.recv(sockets.fds[0], memory, first.target());
    io.cancel(old);
    wait_for(io, first);
    EXPECT_EQ(first.result, -ECANCELED);

    seen second; // takes the slot of the first
    io.recv(sockets.fds[0], memory, second.target());
    io.cancel(old);
    io.abandon(old);
    io.submit_and_wait(duration::zero());
    io.reap();
    EXPECT_EQ(second.calls, 0);
    sockets.say("x");
    wait_for(io, second);
    EXPECT_EQ(second.result, 1);
    EXPECT_EQ(first.calls, 1);
}

TEST_P(ring_kinds, the_late_completion_of_an_abandoned_operation_does_not_hit_the_next_in_its_slot)
{
    pair_of_sockets early;
    pair_of_sockets late;
    std::array<std::byte, 16> memory{};
    std::array<std::byte, 16> other{};
    seen abandoned;
    const ring_token token = io.recv(early.fds[0], memory, abandoned.target());
    io.submit();
    io.abandon(token);
    EXPECT_EQ(io.in_flight(), 0u);
    seen next;
    io.recv(late.fds[0], other, next.target());
    io.submit();
    early.say("late completion");
    while (io.statistics().late == 0) {
        io.submit_and_wait(1s);
        io.reap();
    }
    EXPECT_EQ(abandoned.calls, 0);
    EXPECT_EQ(next.calls, 0);
    late.say("mine");
    wait_for(io, next);
    EXPECT_EQ(next.result, 4);
}

TEST_P(ring_kinds, more_operations_than_entries_may_be_prepared_and_be_in_flight)
{
    constexpr std::size_t many = 100; // 8 entries
    pair_of_sockets sockets;
    std::vector<seen> polls(many);
    for (auto& each : polls)
        io.poll(sockets.fds[0], POLLIN, each.target());
    EXPECT_EQ(io.in_flight(), many);
    sockets.say("!");
    while (io.in_flight() > 0) {
        io.submit_and_wait(std::nullopt);
        io.reap();
    }
    for (const auto& each : polls) {
        EXPECT_EQ(each.calls, 1);
        EXPECT_EQ(each.result, POLLIN);
    }
}

TEST_P(ring_kinds, waits_no_longer_than_its_limit)
{
    pair_of_sockets sockets;
    seen polled;
    const auto token = io.poll(sockets.fds[0], POLLIN, polled.target());
    io.submit_and_wait(2ms);
    io.reap();
    EXPECT_EQ(polled.calls, 0);
    io.cancel(token);
    wait_for(io, polled);
}

TEST(ring, says_what_to_change_where_the_system_has_none_for_us)
{
    // More entries than any kernel gives are clamped, none are refused: the text carries the call.
    try {
        ring impossible({.entries = 0});
        FAIL() << "a ring without entries";
    } catch (const io_error& failure) {
        EXPECT_EQ(failure.code(), EINVAL);
        EXPECT_NE(std::string(failure.what()).find("io_uring_setup"), std::string::npos);
    }
}
