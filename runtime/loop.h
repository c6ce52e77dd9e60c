#pragma once

#include <acquit/runtime/clock.h>
#include <acquit/runtime/error.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/ring.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timer_heap.h>
#include <acquit/runtime/turn_hook.h>
#include <acquit/runtime/waiter.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace acquit::runtime {

class segment_pool;

/// A loop with virtual time in which nothing can happen any more: nothing is ready, no timer is
/// pending and nobody outside was asked for anything, while the root task still waits.
class deadlock : public error {
public:
    using error::error;
};

struct loop_options {
    /// Submission entries of the ring, see ring.h.
    unsigned entries = 256;
    /// See ring.h; off in tests only.
    bool provided_memory = true;
    /// No ring and no waiting: when nothing is ready the clock jumps to the next timer. For tests;
    /// streams are those of memory_stream.h.
    bool virtual_time = false;
    /// Where not 0: the ready queue is shuffled by this seed, to find code that leans on its order.
    std::uint64_t shuffle_seed = 0;
    /// Resumptions per turn at most; the rest runs in the next, after a look at the kernel.
    unsigned ready_budget = 1024;
};

struct loop_statistics {
    std::uint64_t turns = 0;
    std::uint64_t enters = 0;      ///< io_uring_enter calls
    std::uint64_t submitted = 0;   ///< ring operations handed to the kernel
    std::uint64_t completions = 0; ///< ring completions
    std::uint64_t resumed = 0;     ///< waiters taken from the ready queue
    std::uint64_t timers = 0;      ///< timers expired
    std::uint64_t posted = 0;      ///< calls of `post` that were run
};

/// A piece of work from another thread, without an allocation: `run` is called on the loop's
/// thread, and may end the node's life. One post at a time per node.
class post_node {
public:
    using function = void (*)(post_node&) noexcept;
    explicit post_node(function run) noexcept : run_(run) {}
    post_node(const post_node&) = delete;
    post_node& operator=(const post_node&) = delete;

private:
    friend class loop;
    function run_;
    post_node* next_ = nullptr;
};

/// One thread's event loop. It and all it owns belong to the thread that made it; `post` is the one
/// call for others.
///
///     loop events;
///     int answer = events.run(ask());          // until the root task is done
///
/// A turn: one io_uring_enter that submits what is prepared and waits, with the nearest timer as
/// its limit; completions become results and ready waiters, without running user code; the ready
/// queue runs; hooks run (turn_hook.h).
class loop {
public:
    /// Throws io_error where the system has no io_uring for us (ring.h), never with virtual time.
    explicit loop(const loop_options& options = {});
    /// Nothing may be in flight or spawned any more. Posted work that was not run is dropped.
    ~loop();
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;

    /// The loop that was made last on this thread and still lives, or whose `run` or `poll` is
    /// active.
    [[nodiscard]] static loop& current() noexcept
    {
        ACQUIT_DEBUG_ASSERT(current_ != nullptr, "no loop on this thread");
        return *current_;
    }
    [[nodiscard]] static loop* current_or_null() noexcept { return current_; }

    /// Runs turns until `root` is done and gives its result or throws its exception. With virtual
    /// time a deadlock cancels the root, lets it unwind, and throws `deadlock`.
    template <class T>
    T run(task<T> root)
    {
        if constexpr (std::is_void_v<T>) {
            run_root(std::move(root));
        } else if constexpr (std::is_reference_v<T>) {
            std::remove_reference_t<T>* result = nullptr;
            run_root(store_address(std::move(root), result));
            return static_cast<T>(*result);
        } else {
            std::optional<T> result;
            run_root(store(std::move(root), result));
            return std::move(*result);
        }
    }

    /// Asks the root task of `run` to end, as `cancel_context::request`. Loop thread only.
    void cancel_root() noexcept;

    /// The time of this turn; it stands still while coroutines run.
    [[nodiscard]] time_point now() const noexcept { return now_; }
    /// Reads the clock anew, for measuring within a turn. Virtual time: the same as `now`.
    [[nodiscard]] time_point precise_now() const noexcept;

    /// Puts a waiting operation on the ready queue. Not for operations that stand in another list.
    void make_ready(waiter& node) noexcept
    {
        ACQUIT_DEBUG_ASSERT(node.waiting(), "make_ready of an operation that does not wait");
        node.phase_ = waiter::phase::ready;
        if (unusual_) [[unlikely]]
            return make_ready_slow(node);
        ready_.push_back(node);
    }

    /// From any thread: runs the function on the loop's thread, in one of the next turns. It must not
    /// throw.
    void post(std::function<void()> function);
    void post(post_node& node) noexcept;

    /// Asks for the hook's call at the end of this turn (or the next, outside of one).
    void at_turn_end(turn_hook& hook) noexcept;

    /// For a foreign loop: readable when `poll` has something to do, timers and leftover work
    /// included. The first call switches the loop to being embedded. Throws io_error.
    [[nodiscard]] int fd();
    /// One turn that never sleeps.
    void poll();
    /// One turn; sleeps where nothing is ready. What `run` does until its root is done.
    void turn();

    /// Kernel operations; not with virtual time.
    [[nodiscard]] ring& io() noexcept
    {
        ACQUIT_DEBUG_ASSERT(ring_ != nullptr, "a loop with virtual time has no ring");
        return *ring_;
    }
    [[nodiscard]] bool has_virtual_time() const noexcept { return ring_ == nullptr; }

    void insert_timer(timer_node& node, time_point deadline) noexcept;
    void remove_timer(timer_node& node) noexcept { timers_.remove(node); }
    [[nodiscard]] std::size_t pending_timers() const noexcept { return timers_.size(); }

    /// Something for the next turn was prepared. Tells a foreign loop, where there is one, that `poll`
    /// has something to do.
    void prepared() noexcept
    {
        if (outside_) [[unlikely]]
            signal_foreign_loop();
    }

    /// Receive segments of this thread's streams (receive_buffer.h).
    [[nodiscard]] segment_pool& segments();

    /// Somebody outside (a thread of a pool) was asked to post an answer: until it comes there is
    /// no deadlock, and virtual time waits for it. Loop thread only.
    void expect_post() noexcept { ++expected_posts_; }
    void expected_post_came() noexcept { --expected_posts_; }

    [[nodiscard]] loop_statistics stats() const noexcept;

private:
    struct root_state;
    template <class T>
    static task<void> store(task<T> root, std::optional<T>& result)
    {
        result.emplace(co_await std::move(root));
    }
    template <class T>
    static task<void> store_address(task<T> root, std::remove_reference_t<T>*& result)
    {
        result = std::addressof(co_await std::move(root));
    }
    void run_root(task<void> root);
    void make_ready_slow(waiter& node) noexcept;
    void one_turn(bool may_sleep);
    void wait_for_kernel(bool may_sleep) noexcept;
    void wait_virtually(bool may_sleep) noexcept;
    [[nodiscard]] bool nothing_can_happen() const noexcept;
    void expire_timers() noexcept;
    void run_ready() noexcept;
    void run_posted() noexcept;
    void shuffle_ready() noexcept;
    void arm_wake_up() noexcept;
    static void woken(void* self, std::int32_t result, std::uint32_t flags) noexcept;
    void leave_to_foreign_loop() noexcept;
    void signal_foreign_loop() noexcept;

    static constinit thread_local loop* current_;

    waiter_list ready_;
    // Set where make_ready has more to do: shuffling, or a foreign loop to be told.
    bool unusual_ = false;
    bool outside_ = false; // embedded, and not within poll()
    bool in_turn_ = false;
    time_point now_;
    std::unique_ptr<ring> ring_;
    timer_heap timers_;
    hook_list hooks_;
    loop_options options_;
    random_source random_;
    loop_statistics statistics_;
    std::unique_ptr<segment_pool, void (*)(segment_pool*)> segments_;
    root_state* root_ = nullptr;
    loop* outer_ = nullptr;
    std::thread::id thread_;
    std::uint64_t expected_posts_ = 0;
    int epoll_fd_ = -1;
    int timer_fd_ = -1;
    int completion_fd_ = -1; // embedded: the ring counts completions here
    int event_fd_ = -1;
    std::uint64_t event_count_ = 0; // what the ring's read of event_fd_ fills
    bool wake_up_armed_ = false;
    ring_token wake_up_;
    // Shared with posting threads.
    alignas(64) std::atomic<post_node*> posted_{nullptr};
    std::atomic<bool> sleeping_{false};
    std::atomic<unsigned> posting_{0};
};

} // namespace acquit::runtime
