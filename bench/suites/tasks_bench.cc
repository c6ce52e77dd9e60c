#include <acquit/runtime/event.h>
#include <acquit/runtime/frame_pool.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/task.h>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <new>
#include <utility>

// Coroutines and where their frames come from: what it costs to start one, to await one, to resume
// one. In virtual time, without a kernel.

namespace {

using namespace acquit::runtime;

/// Runs `body(state)` as a coroutine of a loop.
template <class F>
void in_loop(benchmark::State& state, F body)
{
    loop events({.virtual_time = true});
    const auto frames = frame_pool::allocated_total();
    events.run(body(state));
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
    // Of the heap, in all: 0 beyond the first iterations.
    state.counters["frames_taken"] = static_cast<double>(frame_pool::allocated_total() - frames);
}

task<int> at_once(int value)
{
    co_return value;
}

task<int> through(int depth)
{
    if (depth == 0)
        co_return 1;
    co_return co_await through(depth - 1);
}

task<> nothing()
{
    co_return;
}

/// A child that never suspends.
void await_finished(benchmark::State& state)
{
    in_loop(state, [](benchmark::State& s) -> task<> {
        int sum = 0;
        for (auto _ : s)
            sum += co_await at_once(1);
        benchmark::DoNotOptimize(sum);
    });
}

/// Ten children, each within the other.
void await_ten_deep(benchmark::State& state)
{
    in_loop(state, [](benchmark::State& s) -> task<> {
        int sum = 0;
        for (auto _ : s)
            sum += co_await through(9);
        benchmark::DoNotOptimize(sum);
    });
}

/// As a dispatcher does: begun on the spot, and over when `start` returns.
void start_in_a_scope(benchmark::State& state)
{
    in_loop(state, [](benchmark::State& s) -> task<> {
        co_await with_scope([&](scope& tasks) -> task<> {
            for (auto _ : s)
                tasks.start(nothing());
            co_return;
        });
    });
}

/// Begun by way of the ready queue, and joined.
void with_scope_and_two_children(benchmark::State& state)
{
    in_loop(state, [](benchmark::State& s) -> task<> {
        for (auto _ : s) {
            co_await with_scope([](scope& tasks) -> task<> {
                tasks.spawn(nothing());
                tasks.spawn(nothing());
                co_return;
            });
        }
    });
}

/// Where one coroutine waits for value after value.
class gate {
public:
    class next_op final : public waiter {
    public:
        explicit next_op(gate& from) noexcept : gate_(from) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
        {
            if (!suspend(handle))
                return false;
            gate_.waiting_ = this;
            return true;
        }
        [[nodiscard]] bool await_resume() const noexcept { return gate_.more_; }

    private:
        gate& gate_;
    };
    [[nodiscard]] next_op next() noexcept { return next_op(*this); }
    void hand_over(bool more) noexcept
    {
        more_ = more;
        std::exchange(waiting_, nullptr)->resume_now();
    }

private:
    next_op* waiting_ = nullptr;
    bool more_ = false;
};

/// On the spot, as the reader of a connection resumes a consumer.
void resume_on_the_spot(benchmark::State& state)
{
    in_loop(state, [](benchmark::State& s) -> task<> {
        gate g;
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.start([](gate& from) -> task<> {
                while (co_await from.next()) {
                }
            }(g));
            for (auto _ : s)
                g.hand_over(true);
            g.hand_over(false);
            co_return;
        });
    });
}

/// Two coroutines that wake each other, by way of the ready queue: two resumptions an iteration.
void resume_by_the_ready_queue(benchmark::State& state)
{
    in_loop(state, [](benchmark::State& s) -> task<> {
        semaphore there(0);
        semaphore back(0);
        bool over = false;
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.start([](semaphore& from, semaphore& to, bool& end) -> task<> {
                for (;;) {
                    co_await from.acquire();
                    if (end)
                        co_return;
                    to.release();
                }
            }(there, back, over));
            for (auto _ : s) {
                there.release();
                co_await back.acquire();
            }
            over = true;
            there.release();
        });
    });
}

void frame_from_the_pool(benchmark::State& state)
{
    const auto size = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        void* frame = frame_pool::allocate(size);
        benchmark::DoNotOptimize(frame);
        frame_pool::release(frame, size);
    }
}

/// For comparison.
void frame_from_the_heap(benchmark::State& state)
{
    const auto size = static_cast<std::size_t>(state.range(0));
    for (auto _ : state) {
        void* frame = ::operator new(size);
        benchmark::DoNotOptimize(frame);
        ::operator delete(frame, size);
    }
}

BENCHMARK(await_finished);
BENCHMARK(await_ten_deep);
BENCHMARK(start_in_a_scope);
BENCHMARK(with_scope_and_two_children);
BENCHMARK(resume_on_the_spot);
BENCHMARK(resume_by_the_ready_queue);
BENCHMARK(frame_from_the_pool)->Arg(192)->Arg(1024)->Arg(4096);
BENCHMARK(frame_from_the_heap)->Arg(192)->Arg(1024)->Arg(4096);

} // namespace

BENCHMARK_MAIN();
