#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

using namespace acquit::runtime;

namespace {

task<int> give(int value)
{
    co_return value;
}
task<int> fail()
{
    throw std::runtime_error("no luck");
    co_return 0;
}

struct counted {
    explicit counted(int& alive) : alive_(&alive) { ++alive; }
    counted(const counted& other) : alive_(other.alive_) { ++*alive_; }
    counted& operator=(const counted&) = delete;
    ~counted() { --*alive_; }
    int* alive_;
};

task<> hold(counted held)
{
    co_await sleep(duration{1});
    (void)held;
}

} // namespace

TEST(task, gives_its_value_to_the_one_that_awaits_it)
{
    loop events({.virtual_time = true});
    EXPECT_EQ(events.run(give(7)), 7);
    auto sum = []() -> task<int> { co_return co_await give(1) + co_await give(2); };
    EXPECT_EQ(events.run(sum()), 3);
}

TEST(task, carries_move_only_values_and_references)
{
    loop events({.virtual_time = true});
    auto owner = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); };
    EXPECT_EQ(*events.run(owner()), 4);
    int target = 0;
    auto refer = [](int& to) -> task<int&> { co_return to; };
    EXPECT_EQ(&events.run(refer(target)), &target);
}

TEST(task, passes_exceptions_on)
{
    loop events({.virtual_time = true});
    EXPECT_THROW(events.run(fail()), std::runtime_error);
    auto caught = []() -> task<std::string> {
        try {
            co_await fail();
        } catch (const std::runtime_error& failure) {
            co_return failure.what();
        }
        co_return "nothing";
    };
    EXPECT_EQ(events.run(caught()), "no luck");
}

TEST(task, that_was_never_started_frees_what_it_holds)
{
    int alive = 0;
    {
        auto never = hold(counted(alive));
        EXPECT_EQ(alive, 1);
        auto moved = std::move(never);
        EXPECT_FALSE(never);
        EXPECT_TRUE(moved);
        EXPECT_EQ(alive, 1);
    }
    EXPECT_EQ(alive, 0);
}

TEST(task, frees_its_frame_when_it_is_done)
{
    loop events({.virtual_time = true});
    int alive = 0;
    auto run = [](int& count) -> task<> {
        co_await hold(counted(count));
        EXPECT_EQ(count, 0);
    };
    events.run(run(alive));
    EXPECT_EQ(alive, 0);
}

#if defined(__clang__) || defined(__OPTIMIZE__)
// GCC turns the hand-over between coroutines into a jump only when it optimises.
TEST(task, a_million_synchronous_completions_do_not_grow_the_stack)
{
    loop events({.virtual_time = true});
    auto many = []() -> task<long> {
        long sum = 0;
        for (int round = 0; round < 1'000'000; ++round)
            sum += co_await give(1);
        co_return sum;
    };
    EXPECT_EQ(events.run(many()), 1'000'000);
}

TEST(task, chains_of_many_tasks_do_not_grow_the_stack)
{
    loop events({.virtual_time = true});
    struct chain {
        static task<int> link(int depth)
        {
            if (depth == 0) {
                co_await sleep(std::chrono::seconds(1));
                co_return 0;
            }
            co_return co_await link(depth - 1) + 1;
        }
    };
    EXPECT_EQ(events.run(chain::link(100'000)), 100'000);
}
#endif

TEST(task_misuse, awaiting_a_task_twice_ends_the_program)
{
    auto twice = [] {
        loop events({.virtual_time = true});
        auto root = []() -> task<> {
            auto once = give(1);
            (void)co_await std::move(once);
            (void)co_await std::move(once); // NOLINT: the point of the test
        };
        events.run(root());
    };
    EXPECT_DEATH(twice(), "a task is awaited once");
}
