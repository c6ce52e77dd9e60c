#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

task<> wait_forever(int& cancelled)
{
    event never;
    try {
        co_await never.wait();
    } catch (const operation_cancelled&) {
        ++cancelled;
        throw;
    }
}

task<> fail_after(duration time, const char* text)
{
    co_await sleep(time);
    throw std::runtime_error(text);
}

template <class T>
T in_virtual_time(task<T> root)
{
    loop events({.virtual_time = true});
    return events.run(std::move(root));
}

} // namespace

TEST(scope, spawned_tasks_begin_after_the_spawning_one_suspends_and_started_ones_at_once)
{
    auto root = []() -> task<std::string> {
        std::string order;
        auto note = [](std::string& into, char name) -> task<> {
            into += name;
            co_return;
        };
        scope all;
        all.spawn(note(order, 'b'));
        all.start(note(order, 'a'));
        EXPECT_EQ(order, "a");
        EXPECT_EQ(all.size(), 1u);
        co_await all.join();
        co_return order;
    };
    EXPECT_EQ(in_virtual_time(root()), "ab");
}

TEST(scope, joins_tasks_that_tasks_spawned)
{
    auto root = []() -> task<int> {
        int done = 0;
        scope all;
        struct tree {
            static task<> grow(scope& in, int depth, int& count)
            {
                co_await sleep(1ms);
                if (depth > 0) {
                    in.spawn(grow(in, depth - 1, count));
                    in.spawn(grow(in, depth - 1, count));
                }
                ++count;
            }
        };
        all.spawn(tree::grow(all, 5, done));
        co_await all.join();
        co_return done;
    };
    EXPECT_EQ(in_virtual_time(root()), 63);
}

TEST(scope, the_first_failure_cancels_the_others_and_comes_out_of_join)
{
    auto root = []() -> task<> {
        int cancelled = 0;
        scope all;
        all.spawn(wait_forever(cancelled));
        all.spawn(wait_forever(cancelled));
        all.spawn(fail_after(1s, "first"));
        all.spawn(fail_after(2s, "second"));
        std::string text;
        try {
            co_await all.join();
        } catch (const std::runtime_error& failure) {
            text = failure.what();
        }
        EXPECT_EQ(text, "first");
        EXPECT_EQ(cancelled, 2);
        EXPECT_TRUE(all.cancelled());
    };
    in_virtual_time(root());
}

TEST(scope, cancelling_it_ends_all_tasks_and_is_not_a_failure)
{
    auto root = []() -> task<int> {
        int cancelled = 0;
        scope all;
        for (int index = 0; index < 3; ++index)
            all.spawn(wait_forever(cancelled));
        co_await sleep(1s);
        all.cancel();
        all.spawn(wait_forever(cancelled)); // its first wait throws
        co_await all.join();
        co_return cancelled;
    };
    EXPECT_EQ(in_virtual_time(root()), 4);
}

TEST(scope, a_cancellation_that_nobody_asked_for_is_a_failure)
{
    auto root = []() -> task<> {
        scope all;
        all.spawn([]() -> task<> {
            throw operation_cancelled("of its own");
            co_return;
        }());
        co_await all.join();
    };
    EXPECT_THROW(in_virtual_time(root()), operation_cancelled);
}

TEST(scope, when_the_joining_coroutine_is_cancelled_so_are_the_tasks)
{
    auto root = []() -> task<int> {
        int cancelled = 0;
        auto joined = [](int& count) -> task<> {
            scope all;
            all.spawn(wait_forever(count));
            all.spawn(wait_forever(count));
            co_await all.join();
        };
        try {
            co_await with_timeout(1s, joined(cancelled));
            ADD_FAILURE() << "no timeout";
        } catch (const timed_out&) {
        }
        co_return cancelled;
    };
    EXPECT_EQ(in_virtual_time(root()), 2);
}

TEST(scope, joined_by_a_coroutine_that_was_cancelled_before_it_still_waits_for_all)
{
    auto root = []() -> task<int> {
        int done = 0;
        auto stubborn = [](int& count) -> task<> {
            co_await shield([](int& inner) -> task<> {
                co_await sleep(5s);
                ++inner;
            }(count));
        };
        auto joined = [&stubborn](int& count) -> task<> {
            scope all;
            all.spawn(stubborn(count));
            try {
                co_await sleep(1h);
            } catch (const operation_cancelled&) {
            }
            co_await all.join();
        };
        EXPECT_TRUE(true);
        try {
            co_await with_timeout(1s, joined(done));
        } catch (const timed_out&) {
        }
        co_return done;
    };
    EXPECT_EQ(in_virtual_time(root()), 1);
}

TEST(with_scope, joins_on_every_path)
{
    auto returns = []() -> task<int> {
        int side = 0;
        const int result = co_await with_scope([&](scope& s) -> task<int> {
            s.spawn([](int& count) -> task<> {
                co_await sleep(1s);
                ++count;
            }(side));
            co_return 41;
        });
        co_return result + side;
    };
    EXPECT_EQ(in_virtual_time(returns()), 42);

    auto throws = []() -> task<> {
        int cancelled = 0;
        try {
            co_await with_scope([&](scope& s) -> task<> {
                s.spawn(wait_forever(cancelled));
                co_await sleep(1s);
                throw std::runtime_error("body");
            });
            ADD_FAILURE();
        } catch (const std::runtime_error& failure) {
            EXPECT_STREQ(failure.what(), "body");
        }
        EXPECT_EQ(cancelled, 1);
    };
    in_virtual_time(throws());
}

TEST(with_scope, a_failing_task_cancels_the_body)
{
    auto root = []() -> task<> {
        int cancelled = 0;
        try {
            co_await with_scope([&](scope& s) -> task<> {
                s.spawn(fail_after(1s, "task"));
                co_await wait_forever(cancelled);
            });
            ADD_FAILURE();
        } catch (const std::runtime_error& failure) {
            EXPECT_STREQ(failure.what(), "task");
        }
        EXPECT_EQ(cancelled, 1);
    };
    in_virtual_time(root());
}

TEST(scope_misuse, destroying_a_scope_with_tasks_in_it_ends_the_program)
{
    auto unjoined = [] {
        loop events({.virtual_time = true});
        auto root = []() -> task<> {
            scope all;
            all.spawn([]() -> task<> { co_await sleep(1s); }());
            co_return;
        };
        events.run(root());
    };
    EXPECT_DEATH(unjoined(), "scope destroyed with 1 tasks in it");
}

TEST(scope_misuse, losing_the_failure_of_a_task_ends_the_program)
{
    auto unseen = [] {
        loop events({.virtual_time = true});
        auto root = []() -> task<> {
            scope all;
            all.spawn(fail_after(1s, "lost"));
            co_await sleep(2s);
        };
        events.run(root());
    };
    EXPECT_DEATH(unseen(), "nobody saw");
}
