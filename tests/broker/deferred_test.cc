// Rows S12 and S13: decisions that other threads make, and those that nobody makes.
#include "broker.h"
#include "tap.h"

#include <acquit/runtime/event.h>

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

using namespace acquit;
using namespace acquit::tests;

namespace {

/// Threads that settle what they are given.
class crew {
public:
    explicit crew(std::function<void(deferred_delivery)> settle) : settle_(std::move(settle))
    {
        for (int i = 0; i < 4; ++i)
            threads_.emplace_back([this] { work(); });
    }
    ~crew()
    {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
            changed_.notify_all();
        }
        for (auto& each : threads_)
            each.join();
    }
    void give(deferred_delivery token)
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(token));
        changed_.notify_one();
    }

private:
    void work()
    {
        for (;;) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
            if (waiting_.empty())
                return;
            auto token = std::move(waiting_.back());
            waiting_.pop_back();
            lock.unlock();
            settle_(std::move(token));
        }
    }

    std::function<void(deferred_delivery)> settle_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<deferred_delivery> waiting_;
    std::vector<std::thread> threads_;
    bool over_ = false;
};

} // namespace

TEST(S13_deferred, threads_settle_every_message_once)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        SCOPED_TRACE(k == kind::quorum ? "quorum" : "classic");
        place here;
        const auto queue = here.name();
        constexpr std::size_t total = 5000;
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, total);
            std::mutex mutex;
            std::multiset<std::size_t> seen;
            crew threads([&](deferred_delivery token) {
                const auto n = number_in(token.text());
                // Every tenth comes twice.
                if (n % 10 == 0 && !token->redelivered()) {
                    token.settle(retry());
                    return;
                }
                {
                    const std::lock_guard lock(mutex);
                    seen.insert(n);
                }
                token.settle(n % 10 == 1 ? drop : ack);
            });
            service s{service_options()};
            s.consume(existing_queue{queue}.prefetch(200),
                      [&](delivery& d) { threads.give(d.defer()); });
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "all", [&] {
                    const auto m = s[0].metrics();
                    return m.acked + m.dropped == total;
                });
            });
            EXPECT_TRUE(r.clean()) << r.text();
            expect_adds_up(r);
            const auto& m = r.queues.at(0).metrics;
            EXPECT_EQ(m.retried, total / 10);
            EXPECT_EQ(m.dropped, total / 10);
            EXPECT_EQ(m.stale, 0U);
            EXPECT_EQ(seen.size(), total);
            EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), total);
            EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
        });
    }
}

TEST(S13_deferred, s28_a_drain_writes_what_threads_decide_in_it)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 100);
        std::vector<deferred_delivery> kept;
        service s{service_options()};
        s.consume(existing_queue{queue}.prefetch(100),
                  [&](delivery& d) { kept.push_back(d.defer()); });
        std::thread other;
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await until(ch, "all", [&] { return kept.size() == 100; });
            s.stop();
            co_await until_draining(ch, s);
            other = std::thread([&] {
                for (auto& each : kept)
                    each.settle(ack);
            });
        });
        other.join();
        EXPECT_TRUE(r.clean()) << r.text();
        EXPECT_EQ(r.queues.at(0).metrics.acked, 100U);
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
    });
}

TEST(S12_undecided, the_message_of_a_lost_token_comes_again)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 3);
            service s{service_options()};
            std::uint64_t acked = 0;
            s.consume(existing_queue{queue}, [&](delivery& d) {
                auto token = d.defer();
                if (number_in(d.text()) == 1 && !d.redelivered())
                    return;
                token.settle(ack);
                ++acked;
            });
            const auto r = co_await while_serving(
                s, [&]() -> task<> { co_await until(ch, "all", [&] { return acked == 3; }); });
            const auto& m = r.queues.at(0).metrics;
            EXPECT_EQ(m.undecided, 1U);
            EXPECT_EQ(m.retried, 1U);
            EXPECT_EQ(m.acked, 3U);
            EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
        });
    }
}

TEST(X4_deadline, leaves_the_messages_of_tokens_that_are_still_out_with_the_broker)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 10);
        std::vector<deferred_delivery> kept;
        {
            service s{service_options()};
            s.drain_deadline(50ms);
            s.consume(existing_queue{queue}.prefetch(10),
                      [&](delivery& d) { kept.push_back(d.defer()); });
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "all", [&] { return kept.size() == 10; });
                kept[4].settle(ack);
            });
            EXPECT_TRUE(r.cut_short);
            EXPECT_EQ(r.queues.at(0).metrics.abandoned, 9U);
            expect_adds_up(r);
        }
        kept[0].settle(ack); // nobody is there to hear it
        co_await until_ready(ch, queue, 9);
    });
}
