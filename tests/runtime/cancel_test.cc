#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/mailbox.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <string>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

template <class T>
T in_virtual_time(task<T> root)
{
    loop events({.virtual_time = true});
    return events.run(std::move(root));
}

task<int> after(duration time, int value)
{
    co_await sleep(time);
    co_return value;
}

} // namespace

TEST(with_timeout, gives_the_result_of_a_task_that_is_done_in_time)
{
    EXPECT_EQ(in_virtual_time(with_timeout(2s, after(1s, 5))), 5);
}

TEST(with_timeout, cancels_and_waits_and_then_throws_timed_out)
{
    auto root = []() -> task<> {
        bool cleaned = false;
        auto slow = [](bool& done) -> task<> {
            try {
                co_await sleep(1h);
            } catch (const operation_cancelled&) {
                done = true;
                throw;
            }
        };
        const auto begin = loop::current().now();
        std::string text;
        try {
            co_await with_timeout(1500ms, slow(cleaned));
        } catch (const timed_out& failure) {
            text = failure.what();
        }
        EXPECT_EQ(text, "not done within 1.5 s");
        EXPECT_TRUE(cleaned);
        EXPECT_EQ(loop::current().now() - begin, 1500ms);
        EXPECT_EQ(loop::current().pending_timers(), 0u);
    };
    in_virtual_time(root());
}

TEST(with_timeout, a_task_that_finishes_although_it_was_cancelled_gives_its_result)
{
    auto stubborn = []() -> task<int> { co_return co_await shield(after(3s, 9)); };
    EXPECT_EQ(in_virtual_time(with_timeout(1s, stubborn())), 9);
}

TEST(with_timeout, another_error_of_the_task_wins)
{
    auto bad = []() -> task<int> {
        try {
            co_await sleep(1h);
        } catch (const operation_cancelled&) {
        }
        throw std::runtime_error("own");
    };
    EXPECT_THROW(in_virtual_time(with_timeout(1s, bad())), std::runtime_error);
}

TEST(with_timeout, of_two_nested_ones_the_one_that_expired_throws)
{
    auto root = []() -> task<std::string> {
        std::string seen;
        auto inner = [](std::string& into) -> task<> {
            try {
                co_await with_timeout(10s, after(1h, 0));
            } catch (const timed_out&) {
                into += "inner timed out;";
            } catch (const operation_cancelled&) {
                into += "inner cancelled;";
                throw;
            }
        };
        try {
            co_await with_timeout(1s, inner(seen));
        } catch (const timed_out&) {
            seen += "outer timed out;";
        }
        co_return seen;
    };
    EXPECT_EQ(in_virtual_time(root()), "inner cancelled;outer timed out;");
}

TEST(with_timeout, of_nothing_still_lets_a_task_finish_that_need_not_wait)
{
    auto at_once = []() -> task<int> { co_return 3; };
    EXPECT_EQ(in_virtual_time(with_timeout(0s, at_once())), 3);
}

TEST(cancellation, is_sticky_each_later_wait_throws)
{
    auto root = []() -> task<int> {
        int thrown = 0;
        auto counts = [](int& times) -> task<> {
            event never;
            for (int round = 0; round < 3; ++round) {
                try {
                    co_await never.wait();
                } catch (const operation_cancelled&) {
                    ++times;
                }
            }
            EXPECT_TRUE(co_await cancel_requested());
        };
        co_await with_timeout(1s, counts(thrown));
        EXPECT_FALSE(co_await cancel_requested());
        co_return thrown;
    };
    EXPECT_EQ(in_virtual_time(root()), 3);
}

TEST(cancellation, does_not_take_back_what_was_complete_by_then)
{
    auto root = []() -> task<> {
        mailbox<int> box(1);
        scope all;
        int got = 0;
        all.spawn([](mailbox<int>& from, int& into) -> task<> {
            into = (co_await from.pop()).value();
        }(box, got));
        co_await sleep(1s);
        EXPECT_TRUE(box.try_push(7)); // the popper is ready, not yet resumed
        all.cancel();
        co_await all.join();
        EXPECT_EQ(got, 7);
    };
    in_virtual_time(root());
}

// One task that goes through every kind of wait; it is cancelled at each moment of its life in turn.
TEST(cancellation, at_each_point_of_a_task_unwinds_it_once_and_loses_no_permit)
{
    int finished = 0;
    int cancelled = 0;
    for (int moment = 0; moment < 40; ++moment) {
        for (std::uint64_t seed : {0u, 1u, 2u, 3u}) {
            SCOPED_TRACE(testing::Message() << "moment " << moment << " seed " << seed);
            loop events({.virtual_time = true, .shuffle_seed = seed});
            auto root = [](int at, int& ends, int& cancels) -> task<> {
                semaphore permits(1);
                mailbox<int> box(1);
                event flag;
                auto worker = [](semaphore& permit, mailbox<int>& queue, event& go) -> task<> {
                    co_await permit.acquire();
                    struct giver {
                        semaphore& back;
                        ~giver() { back.release(); }
                    } back{permit};
                    co_await sleep(3ms);
                    co_await queue.push(1);
                    co_await queue.push(2);
                    co_await go.wait();
                    co_await with_timeout(5ms, [](event& inner) -> task<> {
                        co_await sleep(2ms);
                        inner.reset();
                    }(go));
                    co_await shield(after(2ms, 0));
                    co_await with_scope([](scope& s) -> task<> {
                        s.spawn([]() -> task<> { co_await sleep(4ms); }());
                        co_await sleep(1ms);
                    });
                };
                scope others;
                others.spawn([](mailbox<int>& queue) -> task<> {
                    co_await sleep(6ms);
                    (void)co_await queue.pop();
                    (void)co_await queue.pop();
                }(box));
                others.spawn([](event& go) -> task<> {
                    co_await sleep(9ms);
                    go.set();
                }(flag));
                scope mine;
                bool ended = false;
                mine.spawn([](task<> inner, bool& done) -> task<> {
                    co_await std::move(inner);
                    done = true;
                }(worker(permits, box, flag), ended));
                co_await sleep(duration(at * 500'000L));
                mine.cancel();
                co_await mine.join();
                others.cancel();
                co_await others.join();
                ++(ended ? ends : cancels);
                EXPECT_EQ(permits.available(), 1u);
            };
            events.run(root(moment, finished, cancelled));
            EXPECT_EQ(events.pending_timers(), 0u);
        }
    }
    EXPECT_GT(finished, 0);
    EXPECT_GT(cancelled, 0);
}

TEST(shield, hides_the_request_from_the_task_and_leaves_it_for_the_caller)
{
    auto root = []() -> task<std::string> {
        std::string order;
        auto shielded = [](std::string& into) -> task<> {
            co_await shield([](std::string& inner) -> task<> {
                co_await sleep(5s);
                inner += "shielded;";
            }(into));
            co_await sleep(1s);
            into += "not reached;";
        };
        try {
            co_await with_timeout(1s, shielded(order));
        } catch (const timed_out&) {
            order += "timed out;";
        }
        co_return order;
    };
    EXPECT_EQ(in_virtual_time(root()), "shielded;timed out;");
}

TEST(cancellation, of_the_root_by_the_loop)
{
    loop events({.virtual_time = true});
    events.post([&] { events.cancel_root(); });
    EXPECT_THROW(events.run(after(1h, 1)), operation_cancelled);
}
