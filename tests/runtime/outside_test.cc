// What comes from outside of the loop's thread or of the loop itself: workers, resolver, signals, and a
// foreign loop that drives ours.
#include <acquit/runtime/event.h>
#include <acquit/runtime/io_op.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/mailbox.h>
#include <acquit/runtime/offload.h>
#include <acquit/runtime/resolve.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/signals.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timeout.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <sys/epoll.h>
#include <unistd.h>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

/// A gate that a worker waits at.
class gate {
public:
    void open()
    {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void pass()
    {
        std::unique_lock lock(mutex_);
        ++arrived_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
    }
    void wait_for_arrival()
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return arrived_ > 0; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
    int arrived_ = 0;
};

/// A foreign loop: nothing but epoll over the descriptor of ours.
class epoll_loop {
public:
    explicit epoll_loop(loop& inner) : inner_(inner), epoll_(::epoll_create1(EPOLL_CLOEXEC))
    {
        epoll_event event{};
        event.events = EPOLLIN;
        EXPECT_EQ(::epoll_ctl(epoll_, EPOLL_CTL_ADD, inner.fd(), &event), 0);
    }
    ~epoll_loop() { ::close(epoll_); }
    /// False when nothing came for ten seconds, which ends a test that would hang.
    bool turn()
    {
        epoll_event event{};
        const int ready = ::epoll_wait(epoll_, &event, 1, 10'000);
        if (ready < 0 && errno == EINTR) // as any foreign loop has to
            return true;
        if (ready == 1)
            inner_.poll();
        return ready == 1;
    }
    bool turn_until(const bool& done)
    {
        while (!done)
            if (!turn())
                return false;
        return true;
    }

private:
    loop& inner_;
    int epoll_;
};

} // namespace

TEST(offload, brings_results_and_exceptions_back_to_the_loop)
{
    for (const bool virtually : {false, true}) {
        loop events({.virtual_time = virtually});
        worker_pool pool(2);
        auto root = [](worker_pool& workers) -> task<> {
            const auto here = std::this_thread::get_id();
            const auto there = co_await offload(workers, [] { return std::this_thread::get_id(); });
            EXPECT_NE(there, here);
            EXPECT_EQ(std::this_thread::get_id(), here);
            co_await offload(workers, [] {});
            bool thrown = false;
            try {
                co_await offload(workers, [] { throw std::runtime_error("burnt"); });
            } catch (const std::runtime_error&) {
                thrown = true;
            }
            EXPECT_TRUE(thrown);
            int sum = 0;
            scope all;
            for (int value = 1; value <= 100; ++value)
                all.spawn([](worker_pool& on, int& into, int what) -> task<> {
                    into += co_await offload(on, [what] { return what; });
                }(workers, sum, value));
            co_await all.join();
            EXPECT_EQ(sum, 5050);
        };
        events.run(root(pool));
    }
}

TEST(offload, cancelling_takes_back_what_no_thread_has_begun_and_waits_for_what_runs)
{
    loop events;
    worker_pool pool(1);
    auto root = [](worker_pool& workers) -> task<> {
        gate held;
        bool first_done = false;
        bool second_ran = false;
        bool second_cancelled = false;
        scope all;
        all.spawn([](worker_pool& on, gate& at, bool& done) -> task<> {
            co_await offload(on, [&at] { at.pass(); });
            done = true;
        }(workers, held, first_done));
        all.spawn([](worker_pool& on, bool& ran, bool& cancelled) -> task<> {
            try {
                co_await offload(on, [&ran] { ran = true; });
            } catch (const operation_cancelled&) {
                cancelled = true;
            }
        }(workers, second_ran, second_cancelled));
        co_await sleep(duration(1));
        held.wait_for_arrival();
        all.cancel();
        co_await sleep(duration(1));
        EXPECT_TRUE(second_cancelled);
        EXPECT_FALSE(first_done);
        held.open();
        co_await all.join();
        EXPECT_TRUE(first_done) << "its result counts";
        EXPECT_FALSE(second_ran);
    };
    events.run(root(pool));
}

TEST(resolve, answers_numeric_addresses_at_once_and_in_words)
{
    loop events({.virtual_time = true});
    auto root = []() -> task<> {
        EXPECT_EQ((co_await resolve("10.1.2.3", 5672)).front().text(), "10.1.2.3:5672");
        EXPECT_EQ((co_await resolve("[::1]", 5671)).front().text(), "[::1]:5671");
        EXPECT_EQ((co_await resolve("::1", 5671)).size(), 1u);
        EXPECT_EQ(loop::current().stats().posted, 0u);
    };
    events.run(root());
    EXPECT_THROW((void)numeric_address("localhost", 1), io_error);
}

TEST(resolve, can_be_cancelled_at_any_moment_and_leaves_its_thread_to_itself)
{
    for (int round = 0; round < 20; ++round) {
        loop events;
        auto root = [](int rounds) -> task<> {
            scope all;
            all.spawn([]() -> task<> {
                try {
                    (void)co_await resolve("localhost", 1);
                } catch (const io_error&) {
                }
            }());
            co_await sleep(duration(rounds * 20'000));
            all.cancel();
            co_await all.join();
        };
        events.run(root(round));
    }
}

TEST(signal_watcher, sees_signals_sent_before_and_while_it_waits)
{
    loop events;
    auto root = []() -> task<> {
        signal_watcher watcher{SIGUSR1, SIGUSR2};
        ::raise(SIGUSR2);
        EXPECT_EQ(co_await watcher.next(), SIGUSR2);
        scope all;
        int got = 0;
        all.spawn([](signal_watcher& from, int& into) -> task<> {
            into = co_await from.next();
        }(watcher, got));
        co_await sleep(1ms);
        std::thread([] { ::kill(::getpid(), SIGUSR1); }).join();
        co_await all.join();
        EXPECT_EQ(got, SIGUSR1);
    };
    events.run(root());
}

TEST(signal_watcher, each_of_several_sees_each_signal_and_the_last_restores_the_handler)
{
    static volatile sig_atomic_t old_handler_calls = 0;
    struct sigaction old{};
    old.sa_handler = [](int) { old_handler_calls = old_handler_calls + 1; };
    struct sigaction before{};
    ASSERT_EQ(::sigaction(SIGUSR1, &old, &before), 0);
    {
        loop events;
        auto root = []() -> task<> {
            signal_watcher first{SIGUSR1};
            {
                signal_watcher second{SIGUSR1, SIGUSR1};
                ::raise(SIGUSR1);
                EXPECT_EQ(co_await first.next(), SIGUSR1);
                EXPECT_EQ(co_await second.next(), SIGUSR1);
            }
            ::raise(SIGUSR1);
            EXPECT_EQ(co_await first.next(), SIGUSR1);
            bool none = false;
            try {
                (void)co_await with_timeout(2ms, first.next());
            } catch (const timed_out&) {
                none = true;
            }
            EXPECT_TRUE(none);
        };
        events.run(root());
    }
    EXPECT_EQ(old_handler_calls, 0);
    ::raise(SIGUSR1);
    EXPECT_EQ(old_handler_calls, 1);
    ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(embedded_loop, its_descriptor_tells_of_timers_posts_input_and_leftover_work)
{
    loop events({.ready_budget = 4});
    bool done = false;
    mailbox<int> box(1);
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    auto root = [](bool& ended, mailbox<int>& from, int input) -> task<> {
        co_await sleep(2ms); // a timer
        scope all;           // more ready work than a turn's budget
        for (int index = 0; index < 50; ++index)
            all.spawn([]() -> task<> { co_return; }());
        co_await all.join();
        co_await wait_readable(input);     // input
        EXPECT_EQ(co_await from.pop(), 7); // made ready between two polls
        ended = true;
    };
    struct owner final : task_owner {
        void task_ended(spawned_task&, std::exception_ptr failure) noexcept override
        {
            EXPECT_EQ(failure, nullptr);
        }
    };
    scope running;
    epoll_loop outer(events);
    running.spawn(root(done, box, fds[0]));
    bool posted = false;
    std::thread other([&] { events.post([&] { posted = true; }); });
    EXPECT_TRUE(outer.turn_until(posted));
    other.join();
    ASSERT_EQ(::write(fds[1], "x", 1), 1);
    while (running.size() == 1 && !box.try_push(7))
        ASSERT_TRUE(outer.turn());
    EXPECT_TRUE(outer.turn_until(done));
    EXPECT_EQ(running.size(), 0u);
    ::close(fds[0]);
    ::close(fds[1]);
}

TEST(embedded_loop, tells_of_operations_that_complete_while_they_are_submitted)
{
    // On loopback a connect is done within the submission. The foreign loop's epoll holds ours.
    loop events;
    listener incoming = listener::tcp(events, "127.0.0.1", 0);
    bool done = false;
    scope running;
    running.spawn([](listener& from, bool& ended) -> task<> {
        auto client = co_await connect_tcp("127.0.0.1", from.port());
        auto server = co_await from.accept();
        std::array<std::byte, 4> bytes{};
        co_await client->write(bytes);
        EXPECT_EQ(co_await server->read_some(bytes), 4u);
        ended = true;
    }(incoming, done));
    epoll_loop outer(events);
    EXPECT_TRUE(outer.turn_until(done));
    EXPECT_EQ(running.size(), 0u);
}

TEST(embedded_loop, becomes_readable_for_what_is_made_ready_outside_of_poll)
{
    loop events;
    event go;
    bool done = false;
    scope running;
    epoll_loop outer(events);
    running.spawn([](event& awaited, bool& ended) -> task<> {
        co_await awaited.wait();
        ended = true;
    }(go, done));
    ASSERT_TRUE(outer.turn());
    ASSERT_FALSE(done);
    go.set();
    EXPECT_TRUE(outer.turn_until(done));
    struct flag_timer final : timer {
        void on_timer() noexcept override { fired = true; }
        bool fired = false;
    } soon;
    soon.arm_after(events, 1ms);
    EXPECT_TRUE(outer.turn_until(soon.fired));
}

TEST(log, hands_records_to_the_callback_and_swallows_what_it_throws)
{
    std::string seen;
    set_log_callback([&seen](const log_record& record) {
        seen += std::string(to_string(record.level)) + " " + std::string(record.text);
        for (const auto& field : record.fields)
            seen += " " + std::string(field.name) + "=" + field.value;
        throw std::runtime_error("bad callback");
    });
    log(log_level::warning, "delay dropped", {{"queue", "orders"}, {"count", "3"}});
    set_log_callback({});
    EXPECT_EQ(seen, "warning delay dropped queue=orders count=3");
}
