#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/mailbox.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

template <class T>
T in_virtual_time(task<T> root, std::uint64_t shuffle = 0)
{
    loop events({.virtual_time = true, .shuffle_seed = shuffle});
    return events.run(std::move(root));
}

} // namespace

TEST(event, wakes_all_who_wait_and_lets_through_who_comes_while_it_is_set)
{
    auto root = []() -> task<int> {
        event go;
        int woken = 0;
        auto waits = [](event& awaited, int& count) -> task<> {
            co_await awaited.wait();
            ++count;
        };
        scope all;
        for (int index = 0; index < 3; ++index)
            all.spawn(waits(go, woken));
        co_await sleep(1s);
        EXPECT_EQ(woken, 0);
        go.set();
        go.reset(); // those who waited are through all the same
        co_await all.join();
        EXPECT_EQ(woken, 3);
        go.set();
        co_await go.wait();
        co_return woken;
    };
    EXPECT_EQ(in_virtual_time(root()), 3);
}

TEST(notifier, wakes_one_or_all_of_those_who_wait_now_in_their_order)
{
    auto root = []() -> task<std::string> {
        notifier bell;
        std::string order;
        EXPECT_FALSE(bell.notify_one());
        auto waits = [](notifier& awaited, std::string& into, char name) -> task<> {
            co_await awaited.wait();
            into += name;
        };
        scope all;
        for (char name : {'a', 'b', 'c'})
            all.spawn(waits(bell, order, name));
        co_await sleep(1s);
        EXPECT_TRUE(bell.notify_one());
        co_await sleep(1s);
        EXPECT_EQ(order, "a");
        bell.notify_all();
        co_await all.join();
        co_return order;
    };
    EXPECT_EQ(in_virtual_time(root()), "abc");
}

TEST(semaphore, never_lets_more_through_than_it_has_permits_and_nobody_overtakes)
{
    auto root = []() -> task<> {
        semaphore permits(3);
        int inside = 0;
        int most = 0;
        std::vector<int> order;
        auto enters = [](semaphore& s, int& now, int& peak, std::vector<int>& who,
                         int me) -> task<> {
            co_await s.acquire();
            who.push_back(me);
            peak = std::max(peak, ++now);
            co_await sleep(1ms);
            --now;
            s.release();
        };
        scope all;
        for (int index = 0; index < 20; ++index)
            all.spawn(enters(permits, inside, most, order, index));
        co_await sleep(1us);
        EXPECT_FALSE(permits.try_acquire());
        co_await all.join();
        EXPECT_EQ(most, 3);
        EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
        EXPECT_EQ(permits.available(), 3u);
    };
    in_virtual_time(root());
}

TEST(semaphore, a_cancelled_waiter_leaves_the_queue_and_takes_no_permit)
{
    auto root = []() -> task<> {
        semaphore permits(0);
        scope gone;
        gone.spawn([](semaphore& s) -> task<> { co_await s.acquire(); }(permits));
        co_await sleep(1ms);
        gone.cancel();
        co_await gone.join();
        permits.release();
        EXPECT_EQ(permits.available(), 1u);
    };
    in_virtual_time(root());
}

TEST(mailbox, hands_values_over_in_order_and_makes_pushers_wait_when_full)
{
    auto root = []() -> task<std::vector<int>> {
        mailbox<int> box(2);
        scope all;
        for (int value = 0; value < 6; ++value)
            all.spawn([](mailbox<int>& into, int what) -> task<> {
                co_await into.push(what);
            }(box, value));
        co_await sleep(1s);
        EXPECT_EQ(box.size(), 2u);
        EXPECT_EQ(all.size(), 4u);
        EXPECT_FALSE(box.try_push(9));
        std::vector<int> got;
        for (int count = 0; count < 6; ++count)
            got.push_back((co_await box.pop()).value());
        co_await all.join();
        EXPECT_FALSE(box.try_pop().has_value());
        co_return got;
    };
    EXPECT_EQ(in_virtual_time(root()), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(mailbox, closed_gives_what_is_there_and_then_nothing)
{
    auto root = []() -> task<> {
        mailbox<std::unique_ptr<int>> box(4);
        EXPECT_TRUE(box.try_push(std::make_unique<int>(1)));
        scope all;
        bool failed = false;
        int ends = 0;
        co_await box.push(std::make_unique<int>(2));
        box.close();
        try {
            co_await box.push(std::make_unique<int>(3));
        } catch (const error&) {
            failed = true;
        }
        EXPECT_TRUE(failed);
        EXPECT_EQ(*(co_await box.pop()).value(), 1);
        EXPECT_EQ(*(co_await box.pop()).value(), 2);
        EXPECT_FALSE((co_await box.pop()).has_value());

        mailbox<int> waited(1);
        for (int index = 0; index < 2; ++index)
            all.spawn([](mailbox<int>& from, int& count) -> task<> {
                if (!co_await from.pop())
                    ++count;
            }(waited, ends));
        co_await sleep(1s);
        waited.close();
        co_await all.join();
        EXPECT_EQ(ends, 2);
    };
    in_virtual_time(root());
}

TEST(mailbox, frees_the_values_that_nobody_took)
{
    auto value = std::make_shared<int>(1);
    {
        mailbox<std::shared_ptr<int>> box(3);
        EXPECT_TRUE(box.try_push(value));
        EXPECT_TRUE(box.try_push(value));
        EXPECT_EQ(value.use_count(), 3);
    }
    EXPECT_EQ(value.use_count(), 1);
}

// Producers and consumers of different pace, some cancelled midway: each value that was pushed with
// success arrives exactly once.
TEST(mailbox, loses_and_doubles_nothing_under_shuffling_and_cancellation)
{
    const std::uint64_t first_seed = std::random_device{}();
    for (std::uint64_t seed = first_seed; seed < first_seed + 30; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        auto root = [](std::uint64_t by) -> task<> {
            random_source random(by);
            mailbox<int> box(random.between(1, 5));
            std::vector<int> pushed;
            std::vector<int> popped;
            auto produces = [](mailbox<int>& into, std::vector<int>& done, int base,
                               std::uint64_t own) -> task<> {
                random_source pace(own);
                for (int value = base; value < base + 100; ++value) {
                    if (pace.below(3) == 0)
                        co_await sleep(duration(pace.below(10)));
                    co_await into.push(value);
                    done.push_back(value);
                }
            };
            auto consumes = [](mailbox<int>& from, std::vector<int>& got,
                               std::uint64_t own) -> task<> {
                random_source pace(own);
                while (const auto value = co_await from.pop()) {
                    got.push_back(*value);
                    if (pace.below(3) == 0)
                        co_await sleep(duration(pace.below(10)));
                }
            };
            scope steady;
            scope unlucky;
            scope takers;
            steady.spawn(produces(box, pushed, 0, random()));
            steady.spawn(produces(box, pushed, 1000, random()));
            unlucky.spawn(produces(box, pushed, 2000, random()));
            unlucky.spawn(consumes(box, popped, random()));
            takers.spawn(consumes(box, popped, random()));
            takers.spawn(consumes(box, popped, random()));
            co_await sleep(duration(random.below(300)));
            unlucky.cancel();
            co_await unlucky.join();
            co_await steady.join();
            box.close();
            co_await takers.join();
            std::sort(pushed.begin(), pushed.end());
            std::sort(popped.begin(), popped.end());
            EXPECT_EQ(pushed, popped);
        };
        in_virtual_time(root(seed), seed);
    }
}

TEST(event_misuse, destroying_an_event_that_somebody_waits_on_ends_the_program)
{
    auto dangling = [] {
        loop events({.virtual_time = true});
        auto root = []() -> task<> {
            scope all;
            auto gone = std::make_unique<event>();
            all.spawn([](event& awaited) -> task<> { co_await awaited.wait(); }(*gone));
            co_await sleep(1s);
            gone.reset();
        };
        events.run(root());
    };
    EXPECT_DEATH(dangling(), "destroyed while a coroutine waits on it");
}

TEST(event_misuse, destroying_an_operation_in_flight_ends_the_program)
{
    auto in_flight = [] {
        loop events({.virtual_time = true});
        auto root = []() -> task<> {
            static event never;
            auto waits = []() -> task<> { co_await never.wait(); }();
            auto handle = waits.release();
            handle.resume();
            handle.destroy();
            co_return;
        };
        events.run(root());
    };
    EXPECT_DEATH(in_flight(), "operation destroyed while it was in flight");
}
