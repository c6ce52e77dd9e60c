#pragma once

#include <acquit/runtime/clock.h>
#include <acquit/runtime/loop.h>

namespace acquit::runtime {

/// A callback at a time. Derive, or use `callback_timer`; for waiting in a coroutine use `sleep`.
///
///     class heartbeat : timer { void on_timer() noexcept override { ...; arm(loop, next); } };
///
/// `on_timer` runs on the ready queue: never while completions are reaped, never before the
/// deadline. The timer is disarmed by then and may be armed again. Destroying an armed timer
/// disarms it.
class timer : public timer_node {
public:
    /// Arms, or moves where it is armed already. A deadline in the past fires in the next round of
    /// the ready queue. Does not throw.
    void arm(loop& owner, time_point deadline) noexcept;
    void arm_after(loop& owner, duration delay) noexcept { arm(owner, later(owner.now(), delay)); }
    void cancel() noexcept;
    [[nodiscard]] bool armed() const noexcept { return !idle(); }

protected:
    timer() noexcept = default;
    ~timer() { cancel(); }
    virtual void on_timer() noexcept = 0;

private:
    void on_ready() noexcept final { on_timer(); }
    loop* loop_ = nullptr;
};

/// A timer that calls a function with a pointer.
class callback_timer final : public timer {
public:
    using function = void (*)(void* object) noexcept;
    callback_timer(function call, void* object) noexcept : call_(call), object_(object) {}

private:
    void on_timer() noexcept override { call_(object_); }
    function call_;
    void* object_;
};

/// The awaitable of `sleep`.
class [[nodiscard]] sleep_op final : public timer_node {
public:
    explicit sleep_op(time_point deadline) noexcept : deadline_(deadline) {}
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        loop::current().insert_timer(*this, deadline_);
        return true;
    }
    void await_resume() const { throw_if_cancelled(); }

private:
    void on_cancel() noexcept override;
    time_point deadline_;
};

/// `co_await sleep(5s)`: resumes not before `delay` is over, counted from the time of this turn; at
/// once still means after everything that is ready. Throws operation_cancelled.
inline sleep_op sleep(duration delay) noexcept
{
    return sleep_op(later(loop::current().now(), delay));
}
inline sleep_op sleep_until(time_point deadline) noexcept
{
    return sleep_op(deadline);
}

} // namespace acquit::runtime
