#include <acquit/amqp/wire/settle_frames.h>
#include <acquit/settle/ledger.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

// The ledger alone: what a delivery costs from its arrival until its settlement is written, by how
// many are outstanding at once (the argument) and in which order they are decided. `frames` is how
// many frames the broker gets per delivery.

namespace {

using namespace acquit::settle;

constexpr std::uint64_t rounds = 64; // windows per iteration

class bench_ledger {
public:
    explicit bench_ledger(benchmark::State& state)
        : state_(state), window_(static_cast<std::uint64_t>(state.range(0))),
          ledger_(static_cast<std::uint32_t>(window_)),
          out_((window_ + 1) * acquit::amqp::wire::settle_frame_size)
    {
    }
    ~bench_ledger()
    {
        state_.SetItemsProcessed(static_cast<std::int64_t>(settled_));
        state_.counters["each"] =
            benchmark::Counter(static_cast<double>(settled_),
                               benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
        state_.counters["frames"] = static_cast<double>(frames_) / static_cast<double>(settled_);
    }
    [[nodiscard]] std::uint64_t window() const { return window_; }
    /// The next `count` deliveries; gives the tag of the first.
    std::uint64_t deliver(std::uint64_t count)
    {
        const auto first = ledger_.next_tag();
        for (auto tag = first; tag < first + count; ++tag) {
            if (!ledger_.delivered(tag))
                fail();
        }
        return first;
    }
    void settle(std::uint64_t tag, disposition how)
    {
        if (ledger_.settle(ledger_.epoch(), tag, how) != settled::done)
            fail();
    }
    void flush()
    {
        const auto written = ledger_.flush(out_, 1);
        if (!written.complete)
            fail();
        benchmark::DoNotOptimize(out_.data());
        frames_ += written.frames;
        settled_ += written.settled;
    }

private:
    [[noreturn]] static void fail()
    {
        std::fputs("bench_ledger: the ledger did not take it\n", stderr);
        std::abort();
    }
    benchmark::State& state_;
    std::uint64_t window_;
    ledger ledger_;
    std::vector<std::byte> out_;
    std::uint64_t frames_ = 0;
    std::uint64_t settled_ = 0;
};

/// A window is delivered, settled in the order of `places`, and flushed.
template <class How>
void settle_windows(benchmark::State& state, const std::vector<std::uint64_t>& places, How how)
{
    bench_ledger l(state);
    for (auto _ : state) {
        for (std::uint64_t round = 0; round < rounds; ++round) {
            const auto first = l.deliver(l.window());
            for (const auto place : places)
                l.settle(first + place, how(place));
            l.flush();
        }
    }
}

std::vector<std::uint64_t> ascending(const benchmark::State& state)
{
    std::vector<std::uint64_t> places(static_cast<std::size_t>(state.range(0)));
    std::iota(places.begin(), places.end(), 0);
    return places;
}

constexpr auto always_ack = [](std::uint64_t) { return disposition::ack; };

void in_order(benchmark::State& state)
{
    settle_windows(state, ascending(state), always_ack);
}

void in_reverse(benchmark::State& state)
{
    auto places = ascending(state);
    std::reverse(places.begin(), places.end());
    settle_windows(state, places, always_ack);
}

void in_random_order(benchmark::State& state)
{
    auto places = ascending(state);
    std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
    settle_windows(state, places, always_ack);
}

/// 95 of 100 acked, 3 to be retried, 2 dropped.
void mixed_outcomes(benchmark::State& state)
{
    std::vector<disposition> outcomes(static_cast<std::size_t>(state.range(0)));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        outcomes[i] = i % 100 < 95   ? disposition::ack
                      : i % 100 < 98 ? disposition::requeue
                                     : disposition::reject;
    }
    std::shuffle(outcomes.begin(), outcomes.end(), std::mt19937_64(1));
    settle_windows(state, ascending(state), [&](std::uint64_t place) { return outcomes[place]; });
}

/// The worst for the broker: every second stays open for a flush, so that no run is longer than one.
void every_second_one_flush_later(benchmark::State& state)
{
    bench_ledger l(state);
    std::uint64_t before = 0;
    const auto half = std::max<std::uint64_t>(1, l.window() / 2);
    for (auto _ : state) {
        for (std::uint64_t round = 0; round < rounds; ++round) {
            const auto first = l.deliver(half);
            if (before != 0) {
                for (std::uint64_t place = 1; place < half; place += 2)
                    l.settle(before + place, disposition::ack);
            }
            for (std::uint64_t place = 0; place < half; place += 2)
                l.settle(first + place, disposition::ack);
            before = first;
            l.flush();
        }
    }
}

/// One delivery stays open for ever, and all others behind it have to be told singly or wait.
void behind_one_that_stays_open(benchmark::State& state)
{
    bench_ledger l(state);
    (void)l.deliver(1);
    const auto others = std::max<std::uint64_t>(1, l.window() - 1);
    for (auto _ : state) {
        for (std::uint64_t round = 0; round < rounds; ++round) {
            const auto first = l.deliver(others);
            for (auto tag = first; tag < first + others; ++tag)
                l.settle(tag, disposition::ack);
            l.flush();
        }
    }
}

/// Everything but the flush is done once per window; a flush follows each `window` settlements.
void flush_of_a_full_window(benchmark::State& state)
{
    bench_ledger l(state);
    for (auto _ : state) {
        state.PauseTiming();
        const auto first = l.deliver(l.window());
        for (auto tag = first; tag < first + l.window(); ++tag)
            l.settle(tag, disposition::ack);
        state.ResumeTiming();
        l.flush();
    }
}

#define WINDOWS ->Arg(1)->Arg(16)->Arg(256)->Arg(4096)
BENCHMARK(in_order) WINDOWS;
BENCHMARK(in_reverse) WINDOWS;
BENCHMARK(in_random_order) WINDOWS;
BENCHMARK(mixed_outcomes) WINDOWS;
BENCHMARK(every_second_one_flush_later)->Arg(16)->Arg(256)->Arg(4096);
BENCHMARK(behind_one_that_stays_open)->Arg(16)->Arg(256)->Arg(4096);
BENCHMARK(flush_of_a_full_window)->Arg(256)->Arg(4096);

} // namespace

BENCHMARK_MAIN();
