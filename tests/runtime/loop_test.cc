#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

task<> forever()
{
    event never;
    co_await never.wait();
}

task<> note(std::vector<int>& order, int number)
{
    order.push_back(number);
    co_return;
}

std::vector<int> order_of_ten(std::uint64_t seed)
{
    loop events({.virtual_time = true, .shuffle_seed = seed});
    std::vector<int> order;
    auto root = [](std::vector<int>& into) -> task<> {
        scope all;
        for (int number = 0; number < 10; ++number)
            all.spawn(note(into, number));
        co_await all.join();
    };
    events.run(root(order));
    return order;
}

} // namespace

TEST(loop, with_virtual_time_jumps_over_an_hour_at_once)
{
    loop events({.virtual_time = true});
    const auto begin = std::chrono::steady_clock::now();
    auto root = []() -> task<duration> {
        const auto before = loop::current().now();
        co_await sleep(1h);
        co_return loop::current().now() - before;
    };
    EXPECT_EQ(events.run(root()), 1h);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30min);
}

TEST(loop, with_virtual_time_reports_a_deadlock_after_unwinding_the_root)
{
    loop events({.virtual_time = true});
    bool unwound = false;
    auto root = [](bool& seen) -> task<> {
        try {
            co_await forever();
        } catch (const operation_cancelled&) {
            seen = true;
            throw;
        }
    };
    EXPECT_THROW(events.run(root(unwound)), deadlock);
    EXPECT_TRUE(unwound);
    auto after = []() -> task<int> { co_return 5; };
    EXPECT_EQ(events.run(after()), 5) << "the loop goes on to be of use";
}

TEST(loop, runs_ready_tasks_in_the_order_in_which_they_became_ready)
{
    EXPECT_EQ(order_of_ten(0), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(loop, shuffles_by_seed_and_gives_the_same_order_for_the_same_seed)
{
    std::set<std::vector<int>> seen;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto order = order_of_ten(seed);
        EXPECT_EQ(order, order_of_ten(seed)) << "seed " << seed;
        EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 10u) << "seed " << seed;
        seen.insert(order);
    }
    EXPECT_GT(seen.size(), 10u);
}

TEST(loop, wakes_for_posts_from_four_threads_and_loses_none)
{
    constexpr int each = 20'000;
    loop events;
    std::atomic<int> threads_done{0};
    int ran = 0;
    event all_ran;
    std::vector<std::thread> threads;
    for (int index = 0; index < 4; ++index)
        threads.emplace_back([&] {
            for (int round = 0; round < each; ++round)
                events.post([&] {
                    if (++ran == 4 * each)
                        all_ran.set();
                });
            ++threads_done;
        });
    auto root = [](event& awaited) -> task<> { co_await awaited.wait(); };
    events.run(root(all_ran));
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(ran, 4 * each);
    EXPECT_EQ(threads_done, 4);
    EXPECT_EQ(events.stats().posted, static_cast<std::uint64_t>(4 * each));
}

TEST(loop, keeps_the_order_of_the_posts_of_a_thread)
{
    loop events;
    std::vector<int> order;
    event done;
    std::thread other([&] {
        for (int number = 0; number < 1000; ++number)
            events.post([&order, number] { order.push_back(number); });
        events.post([&] { done.set(); });
    });
    auto root = [](event& awaited) -> task<> { co_await awaited.wait(); };
    events.run(root(done));
    other.join();
    ASSERT_EQ(order.size(), 1000u);
    for (int number = 0; number < 1000; ++number)
        EXPECT_EQ(order[static_cast<std::size_t>(number)], number);
}

TEST(loop, runs_a_post_node_without_owning_it)
{
    struct work : post_node {
        work() : post_node([](post_node& node) noexcept { static_cast<work&>(node).done.set(); }) {}
        event done;
    };
    loop events;
    work node;
    std::thread other([&] { events.post(node); });
    auto root = [](work& awaited) -> task<> { co_await awaited.done.wait(); };
    events.run(root(node));
    other.join();
}

TEST(loop, drops_posts_that_nobody_ran)
{
    auto held = std::make_shared<int>(1);
    {
        loop events({.virtual_time = true});
        events.post([held] { ADD_FAILURE() << "ran"; });
        EXPECT_EQ(held.use_count(), 2);
    }
    EXPECT_EQ(held.use_count(), 1);
}

TEST(loop, resumes_no_more_than_its_budget_in_a_turn)
{
    loop events({.virtual_time = true, .ready_budget = 8});
    auto root = []() -> task<std::uint64_t> {
        scope all;
        for (int index = 0; index < 80; ++index)
            all.spawn([]() -> task<> { co_return; }());
        const auto before = loop::current().stats().turns;
        co_await all.join();
        co_return loop::current().stats().turns - before;
    };
    EXPECT_GE(events.run(root()), 10u);
}

namespace {

struct recording_hook : turn_hook {
    recording_hook(turn_phase phase, std::string name, std::string& into)
        : turn_hook(phase), name_(std::move(name)), into_(into)
    {
    }
    void at_turn_end() noexcept override
    {
        into_ += name_;
        if (again > 0) {
            --again;
            loop::current().at_turn_end(*this);
        }
        if (then != nullptr)
            loop::current().at_turn_end(*then);
    }
    int again = 0;
    turn_hook* then = nullptr;

private:
    std::string name_;
    std::string& into_;
};

} // namespace

TEST(turn_hook, phases_run_in_order_once_per_turn_however_often_they_were_asked_for)
{
    loop events({.virtual_time = true});
    std::string ran;
    recording_hook send(turn_phase::send, "s", ran);
    recording_hook settle(turn_phase::settle, "L", ran);
    auto root = [](turn_hook& first, turn_hook& second) -> task<> {
        for (int times = 0; times < 3; ++times) {
            loop::current().at_turn_end(first);
            loop::current().at_turn_end(second);
        }
        co_await sleep(1s);
    };
    events.run(root(send, settle));
    EXPECT_EQ(ran, "Ls");
}

TEST(turn_hook, asked_for_again_while_its_phase_runs_it_runs_in_the_same_turn)
{
    loop events({.virtual_time = true});
    std::string ran;
    recording_hook settle(turn_phase::settle, "L", ran);
    recording_hook send(turn_phase::send, "s", ran);
    settle.again = 2;
    settle.then = &send;
    auto root = [](turn_hook& hook) -> task<std::uint64_t> {
        loop::current().at_turn_end(hook);
        co_await sleep(1s);
        co_return loop::current().stats().turns;
    };
    EXPECT_LE(events.run(root(settle)), 3u);
    EXPECT_EQ(ran, "LLLs");
}

TEST(turn_hook, a_hook_that_always_asks_again_does_not_stop_the_loop)
{
    loop events({.virtual_time = true});
    std::string ran;
    recording_hook settle(turn_phase::settle, "L", ran);
    settle.again = 1000;
    auto root = [](turn_hook& hook, bool& done) -> task<> {
        loop::current().at_turn_end(hook);
        co_await sleep(1s);
        done = true;
    };
    bool done = false;
    events.run(root(settle, done));
    EXPECT_TRUE(done);
}

TEST(turn_hook, destroyed_while_queued_it_is_not_called)
{
    loop events({.virtual_time = true});
    std::string ran;
    auto root = [](std::string& into) -> task<> {
        {
            recording_hook gone(turn_phase::settle, "x", into);
            loop::current().at_turn_end(gone);
        }
        co_await sleep(1s);
    };
    events.run(root(ran));
    EXPECT_EQ(ran, "");
}
