#include <acquit/runtime/loop.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/timer.h>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <deque>

// Timers of a loop, by how many others are pending (the argument, up to a million).

namespace {

using namespace acquit::runtime;
using namespace std::chrono_literals;

/// A loop in virtual time with timers that are due at random moments of the next hour.
class crowd {
public:
    explicit crowd(std::int64_t pending)
    {
        for (std::int64_t i = 0; i < pending; ++i) {
            timers_.emplace_back([](void* self) noexcept { ++static_cast<crowd*>(self)->fired_; },
                                 this);
        }
    }
    ~crowd() { cancel_all(); }
    void arm_all()
    {
        for (auto& t : timers_)
            t.arm(events_, some_time());
    }
    void cancel_all()
    {
        for (auto& t : timers_)
            t.cancel();
    }
    /// Lets the hour pass. Gives how many have fired.
    std::uint64_t pass()
    {
        fired_ = 0;
        while (events_.pending_timers() != 0 || fired_ < timers_.size())
            events_.turn();
        return fired_;
    }
    /// Of 1,000 moments, so that in a turn more fire than one where many are pending.
    [[nodiscard]] time_point some_time()
    {
        return events_.now() + 3600ms * (1 + random_.below(1000));
    }
    [[nodiscard]] loop& events() { return events_; }

private:
    loop events_{{.virtual_time = true}};
    random_source random_{1};
    std::deque<callback_timer> timers_;
    std::uint64_t fired_ = 0;
};

/// One more is armed and disarmed.
void arm_and_cancel(benchmark::State& state)
{
    crowd others(state.range(0));
    others.arm_all();
    callback_timer one([](void*) noexcept {}, nullptr);
    for (auto _ : state) {
        one.arm(others.events(), others.some_time());
        one.cancel();
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

/// One that is armed is moved to another time, as a deadline or a heartbeat is.
void move(benchmark::State& state)
{
    crowd others(state.range(0));
    others.arm_all();
    callback_timer one([](void*) noexcept {}, nullptr);
    for (auto _ : state)
        one.arm(others.events(), others.some_time());
    one.cancel();
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

template <class Measured, class F>
void each_of_all(benchmark::State& state, Measured before, F measured)
{
    crowd all(state.range(0));
    for (auto _ : state) {
        before(all);
        const auto began = std::chrono::steady_clock::now();
        measured(all);
        state.SetIterationTime(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
        all.cancel_all();
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

void arm_all(benchmark::State& state)
{
    each_of_all(state, [](crowd&) {}, [](crowd& all) { all.arm_all(); });
}

void cancel_all(benchmark::State& state)
{
    each_of_all(state, [](crowd& all) { all.arm_all(); }, [](crowd& all) { all.cancel_all(); });
}

/// All fire, each by a call-back from the ready queue.
void fire_all(benchmark::State& state)
{
    each_of_all(
        state, [](crowd& all) { all.arm_all(); },
        [](crowd& all) { benchmark::DoNotOptimize(all.pass()); });
}

#define PENDING ->Arg(1)->Arg(1000)->Arg(100'000)->Arg(1'000'000)
BENCHMARK(arm_and_cancel) PENDING;
BENCHMARK(move) PENDING;
BENCHMARK(arm_all) PENDING->UseManualTime();
BENCHMARK(cancel_all) PENDING->UseManualTime();
BENCHMARK(fire_all) PENDING->UseManualTime();

} // namespace

BENCHMARK_MAIN();
