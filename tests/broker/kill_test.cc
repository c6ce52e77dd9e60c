// Copies are never lost, D1's exception, and a rolling restart: services and brokers are killed at
// random moments while messages are retried and delayed. Afterwards every message has been handled, or
// stands in a queue.
#include "broker.h"
#include "child.h"

#include <acquit/runtime/random.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace acquit;
using namespace acquit::tests;

namespace {

using numbers = std::set<std::size_t>;

/// Printed, so that a failure can be repeated; ACQUIT_KILL_SEED repeats it.
std::uint64_t seed_of_this_run()
{
    static const std::uint64_t seed = [] {
        const char* given = std::getenv("ACQUIT_KILL_SEED");
        const std::uint64_t chosen =
            given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
        fmt::print("kill tests: ACQUIT_KILL_SEED={}\n", chosen);
        return chosen;
    }();
    return seed;
}

const char* word(kind k)
{
    return k == kind::quorum ? "quorum" : "classic";
}

void merge(numbers& all, const std::vector<std::size_t>& more)
{
    all.insert(more.begin(), more.end());
}

/// What one worker process said, over all that were run.
struct story {
    numbers done;
    numbers waited; // asked for a delay at least once
    std::size_t lines = 0;

    void add(const child& c)
    {
        merge(done, c.numbers("done"));
        merge(waited, c.numbers("wait"));
    }
};

std::size_t lines_of(const child& c)
{
    return c.numbers("begin").size() + c.numbers("done").size() + c.numbers("wait").size() +
           c.numbers("again").size();
}

/// Until the child has said so many lines more, or nothing is left for it to say.
task<> until_it_said(amqp::channel& ch, child& c, std::size_t lines, const std::string& queue)
{
    const auto before = lines_of(c);
    std::size_t last = before;
    for (int quiet = 0; quiet < 150;) {
        require(c.read_available(), "broker_worker has ended: " + c.text());
        const auto now = lines_of(c);
        if (now >= before + lines)
            co_return;
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        (void)co_await count(ch, queue);
        co_await sleep(10ms); // the child's pace, not ours
    }
}

task<> start(amqp::channel& ch, child& c)
{
    return until(ch, "broker_worker to consume", [&c] {
        require(c.read_available(), "broker_worker has ended: " + c.text());
        return c.said("consuming");
    });
}

/// Every message that any of the queues holds. Those that wait for their time come back to theirs
/// meanwhile: asks until nothing new comes and everything is known, or for a while.
task<numbers> standing(amqp::connection& c, amqp::channel& ch, std::vector<std::string> queues,
                       const numbers& known, std::size_t total, std::chrono::seconds patience = 20s)
{
    numbers found;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        for (const auto& queue : queues) {
            if (!co_await queue_exists(c, queue))
                continue;
            for (const auto& m : co_await take_all(ch, queue))
                found.insert(number_in(m.body_text()));
        }
        numbers all = known;
        all.insert(found.begin(), found.end());
        if (all.size() >= total || std::chrono::steady_clock::now() > deadline)
            co_return found;
        co_await ch.barrier();
    }
}

std::vector<std::string> queues_of(const std::string& queue)
{
    return {queue,
            queue + ".dead",
            queue + ".retry",
            queue + ".retry.50",
            queue + ".retry.200",
            queue + ".retry.400"};
}

task<> delete_all(amqp::connection& c, const std::string& queue)
{
    for (const auto& each : queues_of(queue)) {
        amqp::channel spare(c);
        co_await spare.open();
        (void)co_await spare.delete_queue({.queue = each});
        co_await spare.close();
    }
}

numbers missing_of(const numbers& done, const numbers& found, std::size_t total)
{
    numbers missing;
    for (std::size_t i = 0; i < total; ++i) {
        if (!done.contains(i) && !found.contains(i))
            missing.insert(i);
    }
    return missing;
}

std::string text_of(const numbers& all)
{
    std::string text;
    for (const auto n : all)
        text += std::to_string(n) + " ";
    return text;
}

/// A queue, its dead-letter queue and what the delay needs, as the worker declares them.
task<> let_declare(amqp::channel& ch, const std::string& queue, kind k, const char* mode)
{
    child c({broker_uri(), queue, word(k), mode, "0"}, "broker_worker");
    co_await start(ch, c);
    c.signal(SIGTERM);
    co_await until(ch, "its end", [&c] { return !c.read_available(); });
    EXPECT_EQ(c.wait(), 0) << c.text();
}

/// Kills the service at a random moment, `rounds` times.
task<> kill_the_service(place& here, amqp::connection& c, amqp::channel& ch, kind k,
                        const char* mode, int rounds)
{
    constexpr std::size_t total = 400;
    const auto queue = here.name();
    runtime::random_source random(seed_of_this_run() ^ std::hash<std::string>{}(mode));
    co_await let_declare(ch, queue, k, mode);
    co_await publish(c, queue, total);
    story told;
    for (int round = 0; round < rounds; ++round) {
        child worker({broker_uri(), queue, word(k), mode, std::to_string(random())},
                     "broker_worker");
        co_await until_it_said(ch, worker, 1 + random.below(200), queue);
        worker.signal(SIGKILL);
        co_await until(ch, "its end", [&worker] { return !worker.read_available(); });
        EXPECT_EQ(worker.wait(), -SIGKILL);
        told.add(worker);
    }
    const bool in_process = std::string_view(mode) == "none" && k == kind::classic;
    const auto found =
        co_await standing(c, ch, queues_of(queue), told.done, total, in_process ? 2s : 20s);
    const auto missing = missing_of(told.done, found, total);
    if (in_process) {
        // Rejected originals whose copies waited in the process that was killed: only those.
        for (const auto n : missing)
            EXPECT_TRUE(told.waited.contains(n)) << "message " << n << " never asked for a delay";
    } else {
        EXPECT_TRUE(missing.empty()) << "lost: " << text_of(missing);
    }
    EXPECT_FALSE(told.done.empty());
    co_await delete_all(c, queue);
}

} // namespace

// s59, s67: between a copy and the settlement of its original there is no moment to lose it in.
TEST(kill_service, a_killed_service_loses_nothing_of_what_it_retries_and_holds)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::classic, "hold", 6);
    });
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::quorum, "hold", 6);
    });
}

TEST(kill_service, a_killed_service_loses_nothing_of_what_waits_in_queues)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::classic, "dlx_ttl", 6);
    });
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::quorum, "dlx_ttl", 6);
    });
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::classic, "buckets", 6);
    });
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::quorum, "buckets", 6);
    });
}

TEST(kill_service, delays_in_the_process_are_what_a_killed_service_loses_and_nothing_else)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::classic, "none", 8);
    });
    here.run([&](amqp::connection& c, amqp::channel& ch) {
        return kill_the_service(here, c, ch, kind::quorum, "none", 4);
    });
}

namespace {

/// The node of this test run; killed and started again on the same ports.
void node(const std::string& verb)
{
    const char* script = std::getenv("ACQUIT_BROKER_NODE");
    const char* dir = std::getenv("ACQUIT_BROKER_DIR");
    require(script != nullptr && dir != nullptr, "ACQUIT_BROKER_NODE and ACQUIT_BROKER_DIR");
    const auto command = fmt::format("'{}' {} '{}' >/dev/null 2>&1", script, verb, dir);
    require(std::system(command.c_str()) == 0, command + " failed");
}

/// Kills the broker while the service works, starts it again, and lets the service finish.
void kill_the_broker(kind k, const char* mode, int rounds)
{
    constexpr std::size_t total = 600;
    place here;
    const auto queue = here.name();
    runtime::random_source random(seed_of_this_run() ^ 0xB40CE4 ^ std::hash<std::string>{}(mode));
    std::unique_ptr<child> worker;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await let_declare(ch, queue, k, mode);
        co_await publish(c, queue, total);
        // RabbitMQ: a quorum queue of a single node that is killed right after its declaration is
        // lost, whatever was confirmed (measured).
        co_await sleep(2s);
        worker = std::make_unique<child>(
            std::vector<std::string>{broker_uri(), queue, word(k), mode, std::to_string(random())},
            "broker_worker");
        co_await until_it_said(ch, *worker, 100 + random.below(200), queue);
    });
    for (int round = 0; round < rounds; ++round) {
        node("kill");
        node("up");
        here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
            co_await until_it_said(ch, *worker, 1 + random.below(200), queue);
        });
    }
    story told;
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        // To its end: nothing in any queue but dead letters, or nothing more to say.
        co_await until_it_said(ch, *worker, 1'000'000, queue);
        worker->signal(SIGTERM);
        co_await until(ch, "its end", [&] { return !worker->read_available(); });
        EXPECT_EQ(worker->wait(), 0) << worker->text();
        told.add(*worker);
    });
    // What a waiting queue was moving when the broker was killed is moved again when its confirm is
    // overdue, after 180 s (RabbitMQ: at-least-once dead-lettering).
    numbers missing;
    numbers known = told.done;
    for (int part = 0; part < 5; ++part) {
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            known.merge(co_await standing(c, ch, queues_of(queue), known, total, 45s));
        });
        missing = missing_of(known, {}, total);
        if (missing.empty())
            break;
    }
    EXPECT_TRUE(missing.empty()) << "lost: " << text_of(missing) << "\n" << worker->text();
    if (missing.empty())
        here.run([&](amqp::connection& c, amqp::channel&) { return delete_all(c, queue); });
}

} // namespace

TEST(kill_broker, a_killed_broker_loses_nothing_of_a_classic_queue_with_a_waiting_queue)
{
    kill_the_broker(kind::classic, "dlx_ttl", 2);
}

TEST(kill_broker, a_killed_broker_loses_nothing_of_a_quorum_queue_with_buckets)
{
    kill_the_broker(kind::quorum, "buckets", 2);
}

TEST(kill_broker, a_killed_broker_loses_nothing_of_what_waits_in_the_process)
{
    kill_the_broker(kind::classic, "none", 2);
}

// s39, s42: no work is repeated because a service was deployed.
TEST(X5_rolling_restart, restarts_alone_bring_no_message_to_the_dead_letter_queue)
{
    // RabbitMQ before 4.3 is shown the same with fewer rounds: a finished drain returns nothing.
    place here;
    const auto queue = here.name();
    here.run_on(broker_options(), [&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const int rounds = c.server_is_at_least(4, 3) ? 30 : 8;
        runtime::random_source random(seed_of_this_run() ^ 0x401115);
        co_await let_declare(ch, queue, kind::quorum, "rolling");
        std::size_t total = 0;
        story told;
        std::size_t handled = 0;
        for (int round = 0; round < rounds; ++round) {
            child worker({broker_uri(), queue, "quorum", "rolling", "1"}, "broker_worker");
            co_await publish(c, queue, 300, total);
            total += 300;
            co_await until_it_said(ch, worker, 50 + random.below(400), queue);
            worker.signal(SIGTERM);
            co_await until(ch, "its end", [&] { return !worker.read_available(); });
            EXPECT_EQ(worker.wait(), 0) << worker.text();
            told.add(worker);
            handled += worker.numbers("done").size();
        }
        EXPECT_EQ((co_await count(ch, queue + ".dead")).message_count, 0U);
        const auto left = co_await take_all(ch, queue);
        for (const auto& m : left)
            EXPECT_EQ(header_of(m, "x-delivery-count").value_or(0), 0) << m.body_text();
        EXPECT_EQ(handled, told.done.size()) << "a message was handled twice";
        EXPECT_EQ(told.done.size() + left.size(), total);
        co_await delete_all(c, queue);
    });
}
