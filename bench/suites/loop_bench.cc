#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/turn_hook.h>

#include <benchmark/benchmark.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <vector>

#include <sys/resource.h>
#include <sys/socket.h>

// A turn of the loop, with the kernel's part: `enters` are io_uring_enter calls per iteration,
// `cpu_us` is user and system time per iteration of this thread.

namespace {

using namespace acquit::runtime;

class meter {
public:
    meter(benchmark::State& state, loop& events)
        : state_(state), loop_(events), before_(events.stats()), cpu_before_(cpu_us())
    {
    }
    ~meter()
    {
        const auto now = loop_.stats();
        const auto each = [&](auto count) {
            return static_cast<double>(count) / static_cast<double>(state_.iterations());
        };
        state_.counters["enters"] = each(now.enters - before_.enters);
        state_.counters["turns"] = each(now.turns - before_.turns);
        state_.counters["completions"] = each(now.completions - before_.completions);
        state_.counters["cpu_us"] = each(cpu_us() - cpu_before_);
    }

private:
    static double cpu_us()
    {
        rusage used{};
        ::getrusage(RUSAGE_THREAD, &used);
        const auto of = [](const timeval& t) {
            return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
        };
        return of(used.ru_utime) + of(used.ru_stime);
    }
    benchmark::State& state_;
    loop& loop_;
    loop_statistics before_;
    double cpu_before_;
};

struct idle_hook final : turn_hook {
    idle_hook() : turn_hook(turn_phase::settle) {}
    void at_turn_end() noexcept override {}
};

/// Nothing to do but a hook, which keeps it from sleeping.
void empty_turn(benchmark::State& state)
{
    loop events;
    idle_hook hook;
    const meter m(state, events);
    for (auto _ : state) {
        events.at_turn_end(hook);
        events.turn();
    }
}

/// The same without a ring: the loop's own part.
void empty_turn_in_virtual_time(benchmark::State& state)
{
    loop events({.virtual_time = true});
    idle_hook hook;
    for (auto _ : state) {
        events.at_turn_end(hook);
        events.turn();
    }
}

struct counting_node final : post_node {
    counting_node()
        : post_node([](post_node& n) noexcept { ++static_cast<counting_node&>(n).calls; })
    {
    }
    std::uint64_t calls = 0;
};

/// A post, and the turn that runs it.
void post_and_turn(benchmark::State& state)
{
    loop events;
    counting_node node;
    const meter m(state, events);
    for (auto _ : state) {
        events.post(node);
        events.turn();
    }
    benchmark::DoNotOptimize(node.calls);
}

/// Posting alone: a thousand nodes per turn, in the time of one.
void post(benchmark::State& state)
{
    loop events({.virtual_time = true});
    std::vector<counting_node> nodes(1000);
    for (auto _ : state) {
        for (auto& node : nodes)
            events.post(node);
        events.turn();
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(nodes.size()));
}

using stream_pair = std::array<std::unique_ptr<stream>, 2>;

stream_pair unix_pair(loop& events)
{
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw io_error(errno, "socketpair");
    return {std::make_unique<socket_stream>(events, ends[0], "a"),
            std::make_unique<socket_stream>(events, ends[1], "b")};
}

task<stream_pair> tcp_pair(loop& events)
{
    auto incoming = listener::tcp(events, "127.0.0.1", 0);
    auto there = co_await connect_tcp("127.0.0.1", incoming.port());
    auto here = co_await incoming.accept();
    co_return stream_pair{std::move(there), std::move(here)};
}

task<> echo(stream& s, std::size_t size)
{
    std::vector<std::byte> buffer(size);
    for (;;) {
        std::size_t have = 0;
        while (have < size) {
            const auto read = co_await s.read_some(std::span(buffer).subspan(have));
            if (read == 0)
                co_return;
            have += read;
        }
        co_await s.write(buffer);
    }
}

/// Over the receive buffer, as a connection reads: multishot into provided memory where the kernel
/// has that.
task<> echo_buffered(stream& s, std::size_t size)
{
    receive_buffer input(loop::current());
    std::vector<std::byte> answer(size);
    for (;;) {
        while (input.unread().size() < size) {
            if (co_await input.receive(s) == 0)
                co_return;
        }
        input.consume(size);
        co_await s.write(answer);
    }
}

/// A round: one send and one receive at either end, both ends in this loop.
task<> rounds(benchmark::State& state, loop& events, stream_pair ends, bool buffered)
{
    const auto size = static_cast<std::size_t>(state.range(0));
    co_await with_scope([&](scope& tasks) -> task<> {
        tasks.start(buffered ? echo_buffered(*ends[1], size) : echo(*ends[1], size));
        std::vector<std::byte> buffer(size);
        const meter m(state, events);
        for (auto _ : state) {
            co_await ends[0]->write(buffer);
            for (std::size_t have = 0; have < size;)
                have += co_await ends[0]->read_some(std::span(buffer).subspan(have));
        }
        ends[0]->shutdown_write();
    });
}

void unix_round(benchmark::State& state)
{
    loop events;
    events.run(rounds(state, events, unix_pair(events), false));
}

void tcp_round(benchmark::State& state)
{
    loop events;
    auto ends = events.run(tcp_pair(events));
    events.run(rounds(state, events, std::move(ends), false));
}

void tcp_round_by_receive_buffer(benchmark::State& state)
{
    loop events;
    auto ends = events.run(tcp_pair(events));
    events.run(rounds(state, events, std::move(ends), true));
}

/// The same on a kernel that cannot fill provided memory.
void tcp_round_by_receive_buffer_single_shot(benchmark::State& state)
{
    loop events({.provided_memory = false});
    auto ends = events.run(tcp_pair(events));
    events.run(rounds(state, events, std::move(ends), true));
}

BENCHMARK(empty_turn);
BENCHMARK(empty_turn_in_virtual_time);
BENCHMARK(post_and_turn);
BENCHMARK(post);
BENCHMARK(unix_round)->Arg(64)->Arg(16384);
BENCHMARK(tcp_round)->Arg(64)->Arg(16384);
BENCHMARK(tcp_round_by_receive_buffer)->Arg(64)->Arg(16384);
BENCHMARK(tcp_round_by_receive_buffer_single_shot)->Arg(64)->Arg(16384);

} // namespace

BENCHMARK_MAIN();
