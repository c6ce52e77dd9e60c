// Sixteen threads settle what one loop receives, each delivery exactly once. A program of its own, since
// it is what ThreadSanitizer watches: tests/run --suite tsan, with a million deliveries.

#include "feeder.h"

#include <acquit/runtime/log.h>
#include <acquit/runtime/random.h>
#include <acquit/settle/deferred.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/service.h>

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace acquit::testing {
namespace {

using settle::deferred_delivery;
using verdict = feeder::verdict;

constexpr std::uint16_t prefetch = 2000;
constexpr std::size_t thread_count = 16;

std::uint64_t deliveries_in_all()
{
    const char* said = std::getenv("ACQUIT_DELIVERIES");
    return said == nullptr ? 50'000 : std::strtoull(said, nullptr, 10);
}

/// One thread that settles tokens: in any order, by any outcome, and loses one in a hundred.
class settling_thread {
public:
    explicit settling_thread(std::uint64_t seed) : random_(seed), thread_([this] { work(); }) {}
    ~settling_thread() { join(); }

    void give(deferred_delivery token)
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(token));
        changed_.notify_one();
    }
    void join()
    {
        if (!thread_.joinable())
            return;
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
            changed_.notify_one();
        }
        thread_.join();
    }
    /// After `join`.
    [[nodiscard]] const std::vector<std::pair<std::uint64_t, verdict>>& decisions() const
    {
        return decisions_;
    }
    [[nodiscard]] std::uint64_t lost() const { return lost_; }
    [[nodiscard]] std::uint64_t other_bodies() const { return other_bodies_; }

private:
    void work()
    {
        std::vector<deferred_delivery> mine;
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
                if (waiting_.empty())
                    return;
                mine.swap(waiting_);
            }
            while (!mine.empty()) {
                std::swap(mine[random_.below(mine.size())], mine.back());
                decide(std::move(mine.back()));
                mine.pop_back();
            }
        }
    }

    void decide(deferred_delivery token)
    {
        const std::uint64_t tag = token->tag();
        std::uint64_t in_body = 0;
        std::memcpy(&in_body, token.body().data(), sizeof in_body);
        other_bodies_ += in_body == tag && token.body().size() == 100 ? 0 : 1;
        const auto dice = random_.below(100);
        if (dice == 0) {
            ++lost_;
            decisions_.emplace_back(tag, verdict::requeue); // by the policy
        } else if (dice < 10) {
            decisions_.emplace_back(tag, verdict::requeue);
            token.settle(settle::retry());
        } else if (dice < 20) {
            decisions_.emplace_back(tag, verdict::drop);
            token.settle(settle::drop);
        } else {
            decisions_.emplace_back(tag, verdict::ack);
            token.settle(settle::ack);
        }
    }

    runtime::random_source random_;
    std::vector<std::pair<std::uint64_t, verdict>> decisions_;
    std::uint64_t lost_ = 0;
    std::uint64_t other_bodies_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<deferred_delivery> waiting_;
    bool over_ = false;
    std::thread thread_;
};

task<> stop_after_last(settle::service& s, runtime::event& last)
{
    co_await last.wait();
    s.stop(); // with up to a window of tokens out: the drain waits for them
}

// S13
TEST(deferred_threads, settle_each_delivery_exactly_once)
{
    runtime::set_log_callback([](const runtime::log_record&) {});
    const std::uint64_t total = deliveries_in_all();
    const std::uint64_t seed = std::random_device{}();
    std::printf("%llu deliveries, seed %llu\n", static_cast<unsigned long long>(total),
                static_cast<unsigned long long>(seed));
    std::vector<std::unique_ptr<settling_thread>> threads;
    for (std::size_t i = 0; i < thread_count; ++i)
        threads.push_back(std::make_unique<settling_thread>(seed + i));
    runtime::random_source choice(seed + thread_count);

    beside(total, prefetch, [&](amqp::connection_options& o, feeder& there) -> task<> {
        settle::service s(o);
        runtime::event last;
        std::uint64_t received = 0;
        s.consume(settle::existing_queue("q").prefetch(prefetch), [&](settle::delivery& d) {
            threads[choice.below(thread_count)]->give(d.defer());
            if (++received == total)
                last.set();
        });
        s.drain_deadline(std::chrono::minutes(5));
        std::optional<settle::report> r;
        co_await runtime::with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(stop_after_last(s, last));
            r = co_await s.run();
        });
        std::vector<verdict> decided(total + 1);
        std::uint64_t count[4] = {};
        std::uint64_t lost = 0;
        for (auto& each : threads) {
            each->join();
            EXPECT_EQ(each->other_bodies(), 0U);
            lost += each->lost();
            for (const auto& [tag, how] : each->decisions()) {
                EXPECT_EQ(decided.at(tag), verdict::none) << "two tokens for tag " << tag;
                decided[tag] = how;
                ++count[static_cast<int>(how)];
            }
        }
        std::uint64_t other = 0;
        for (std::uint64_t tag = 1; tag <= total; ++tag)
            other += decided[tag] != there.of(tag) || decided[tag] == verdict::none ? 1 : 0;
        EXPECT_EQ(other, 0U) << "deliveries that were not settled as their thread decided";
        EXPECT_EQ(there.settled(), total);
        EXPECT_EQ(there.wrong(), 0U);
        const auto& m = r->queues.at(0).metrics;
        EXPECT_TRUE(r->clean()) << r->text();
        EXPECT_EQ(m.received, total);
        EXPECT_EQ(m.acked, count[static_cast<int>(verdict::ack)]);
        EXPECT_EQ(m.dropped, count[static_cast<int>(verdict::drop)]);
        EXPECT_EQ(m.retried, count[static_cast<int>(verdict::requeue)]);
        EXPECT_EQ(m.undecided, lost);
        EXPECT_GT(lost, 0U);
        EXPECT_EQ(m.stale, 0U);
        EXPECT_EQ(m.in_handler, 0U);
        EXPECT_GT(runtime::loop::current().stats().posted, 0U);
        std::printf("%llu posts\n",
                    static_cast<unsigned long long>(runtime::loop::current().stats().posted));
    });
}

// Threads that still settle when the service, its loop, everything is over.
TEST(deferred_threads, may_settle_during_and_after_the_end_of_the_loop)
{
    runtime::set_log_callback([](const runtime::log_record&) {});
    const std::uint64_t seed = std::random_device{}();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    for (std::uint64_t round = 0; round < 30; ++round) {
        settling_thread one(seed + 2 * round);
        settling_thread other(seed + 2 * round + 1);
        runtime::random_source choice(seed + round);
        beside(500, 100, [&](amqp::connection_options& o, feeder& there) -> task<> {
            settle::service s(o);
            const auto last = choice.below(400);
            std::uint64_t received = 0;
            s.consume(settle::existing_queue("q").prefetch(100), [&](settle::delivery& d) {
                (choice.below(2) == 0 ? one : other).give(d.defer());
                if (received++ == last) {
                    s.stop();
                    s.abort();
                }
            });
            const auto r = co_await s.run();
            const auto& m = r.queues.at(0).metrics;
            EXPECT_EQ(m.received, m.acked + m.dropped + m.retried + m.given_back +
                                      m.dropped_unhandled + m.abandoned)
                << r.text();
            EXPECT_EQ(there.wrong(), 0U);
        });
    }
}

} // namespace
} // namespace acquit::testing
