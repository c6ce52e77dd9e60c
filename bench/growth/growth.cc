// One row of the table of bench/growth/run: consumes from the stand-in server over so many loops,
// connections and channels, and says what a message cost and how much memory was held. One process
// per row, so that no row sees the memory of another.

#include "heap_count.h"

#include <acquit/acquit.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/deliveries.h>

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

using namespace acquit;

namespace {

struct settings {
    std::string server;
    std::uint64_t loops = 1;
    std::uint64_t connections = 1; // of each loop
    std::uint64_t channels = 1;    // of each connection
    std::uint64_t each = 1'000'000;
    std::uint64_t prefetch = 256;
    std::uint64_t timers = 0; // pending meanwhile, in each loop
};

constexpr const char* usage =
    "acquit-growth HOST:PORT [options]\n"
    "\n"
    "  --loops N          threads with a loop each (1)\n"
    "  --connections N    of each loop (1)\n"
    "  --channels N       of each connection, with a queue and a consumer each (1)\n"
    "  --each N           messages of each queue; the server has to know it too (1000000)\n"
    "  --prefetch N       of each consumer (256)\n"
    "  --timers N         pending in each loop meanwhile (0)\n";

[[noreturn]] void refuse(std::string_view why)
{
    fmt::print(stderr, "acquit-growth: {}\n\n{}", why, usage);
    std::exit(2);
}

settings parse(int argc, char** argv)
{
    settings s;
    const struct {
        std::string_view name;
        std::uint64_t* value;
    } numbers[] = {{"--loops", &s.loops},       {"--connections", &s.connections},
                   {"--channels", &s.channels}, {"--each", &s.each},
                   {"--prefetch", &s.prefetch}, {"--timers", &s.timers}};
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (!word.starts_with("--")) {
            s.server = word;
            continue;
        }
        std::uint64_t* value = nullptr;
        for (const auto& n : numbers)
            value = n.name == word ? n.value : value;
        if (value == nullptr)
            refuse(fmt::format("what is {}?", word));
        const std::string_view text = i + 1 < argc ? argv[++i] : "";
        const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), *value);
        if (bad != std::errc{} || end != text.data() + text.size() ||
            (*value == 0 && word != "--timers") || *value > 1'000'000'000)
            refuse(fmt::format("{} takes a number above 0, not \"{}\"", word, text));
    }
    if (s.server.empty())
        refuse("which server? HOST:PORT");
    if (s.prefetch > 65535)
        refuse("--prefetch is at most 65535");
    return s;
}

std::size_t resident_bytes()
{
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

double thread_cpu_us()
{
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    const auto of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

/// Resident memory of the process at the moments that the first loop comes by.
struct memory {
    std::size_t before = 0; // nothing connected
    std::size_t open = 0;   // every window is full, nothing is handled
    std::size_t half = 0;   // of the messages are handled
    std::size_t end = 0;    // every connection is closed
};

struct totals {
    std::uint64_t messages = 0;
    std::uint64_t frames = 0;
    double cpu_us = 0;
    std::uint64_t allocations = 0; // in the second half
    std::uint64_t enters = 0;
    std::chrono::steady_clock::time_point began{};
    std::chrono::steady_clock::time_point ended{};
    std::string failure;
};

/// One thread: its loop, its connections, its consumers.
class worker {
public:
    worker(const settings& s, std::uint64_t number, memory* resident, totals& result)
        : settings_(s), number_(number), memory_(resident), result_(result)
    {
    }

    void run() noexcept
    {
        try {
            runtime::loop events;
            for (std::uint64_t i = 0; i < settings_.timers; ++i) {
                pending_.emplace_back([](void*) noexcept {}, nullptr);
                pending_.back().arm(events, events.now() + 1h + i * 1us);
            }
            events.run(consume());
            for (auto& t : pending_)
                t.cancel();
        } catch (const std::exception& e) {
            result_.failure = e.what();
        }
    }

private:
    [[nodiscard]] std::uint64_t consumers() const
    {
        return settings_.connections * settings_.channels;
    }
    [[nodiscard]] std::uint64_t messages() const { return consumers() * settings_.each; }

    task<> consume()
    {
        co_await with_scope([this](scope& tasks) -> task<> {
            for (std::uint64_t c = 0; c < settings_.connections; ++c)
                tasks.spawn(one_connection(c));
            tasks.spawn(measure());
            co_return;
        });
    }

    task<> one_connection(std::uint64_t number)
    {
        amqp::connection broker(amqp::options_from_uri("amqp://guest:guest@" + settings_.server));
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(broker.run());
            co_await broker.opened();
            co_await with_scope([&](scope& channels) -> task<> {
                for (std::uint64_t c = 0; c < settings_.channels; ++c)
                    channels.spawn(
                        one_channel(broker, fmt::format("growth.{}.{}.{}", number_, number, c)));
                co_return;
            });
            co_await broker.close();
        });
    }

    task<> one_channel(amqp::connection& broker, std::string queue)
    {
        settle::deliveries incoming(broker, settle::existing_queue(queue).prefetch(
                                                static_cast<std::uint32_t>(settings_.prefetch)));
        co_await incoming.open();
        if (++opened_ == consumers())
            all_open_.set();
        co_await go_.wait();
        for (std::uint64_t i = 0; i < settings_.each; ++i) {
            auto message = co_await incoming.next();
            if (!message)
                throw error("the deliveries have ended early");
            message.settle(settle::ack);
            if (++seen_ == messages() / 2)
                half_.set();
            if (seen_ == messages()) {
                result_.allocations = bench::heap_allocations() - allocated_;
                done_.set();
            }
        }
        co_await done_.wait();
        result_.frames += incoming.metrics().frames;
        co_await incoming.close();
    }

    task<> measure()
    {
        co_await all_open_.wait();
        co_await sleep(100ms); // every window fills, and nobody takes a message yet
        if (memory_ != nullptr)
            memory_->open = resident_bytes();
        result_.began = std::chrono::steady_clock::now();
        const auto cpu = thread_cpu_us();
        const auto enters = runtime::loop::current().stats().enters;
        go_.set();
        co_await half_.wait();
        if (memory_ != nullptr)
            memory_->half = resident_bytes();
        allocated_ = bench::heap_allocations();
        co_await done_.wait();
        result_.cpu_us = thread_cpu_us() - cpu;
        result_.enters = runtime::loop::current().stats().enters - enters;
        result_.ended = std::chrono::steady_clock::now();
        result_.messages = seen_;
    }

    const settings& settings_;
    std::uint64_t number_;
    memory* memory_;
    totals& result_;
    std::deque<runtime::callback_timer> pending_;
    runtime::event all_open_;
    runtime::event go_;
    runtime::event half_;
    runtime::event done_;
    std::uint64_t opened_ = 0;
    std::uint64_t seen_ = 0;
    std::uint64_t allocated_ = 0; // by half-time
};

} // namespace

int main(int argc, char** argv)
{
    const settings s = parse(argc, argv);
    memory resident{.before = resident_bytes()};
    std::vector<totals> results(s.loops);
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < s.loops; ++i) {
        threads.emplace_back([&, i] {
            worker w(s, i, i == 0 ? &resident : nullptr, results[i]);
            w.run();
        });
    }
    for (auto& t : threads)
        t.join();
    resident.end = resident_bytes();

    totals all;
    all.began = results[0].began;
    all.ended = results[0].ended;
    for (const auto& r : results) {
        if (!r.failure.empty()) {
            fmt::print(stderr, "acquit-growth: {}\n", r.failure);
            return 1;
        }
        all.messages += r.messages;
        all.frames += r.frames;
        all.cpu_us += r.cpu_us;
        all.allocations += r.allocations;
        all.enters += r.enters;
        all.began = std::min(all.began, r.began);
        all.ended = std::max(all.ended, r.ended);
    }
    const auto n = static_cast<double>(all.messages);
    fmt::print("{{\"messages\": {}, \"cpu_ns\": {:.1f}, \"rate\": {:.0f}, \"frames\": {:.6f}, "
               "\"enters\": {:.6f}, \"allocations\": {}, \"rss_before\": {}, \"rss_open\": {}, "
               "\"rss_half\": {}, \"rss_end\": {}}}\n",
               all.messages, all.cpu_us * 1000 / n,
               n / std::chrono::duration<double>(all.ended - all.began).count(),
               static_cast<double>(all.frames) / n, static_cast<double>(all.enters) / n,
               all.allocations, resident.before, resident.open, resident.half, resident.end);
    return 0;
}
