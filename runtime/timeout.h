#pragma once

#include <acquit/runtime/task.h>
#include <acquit/runtime/timer.h>

namespace acquit::runtime {

namespace detail {

/// Awaits a task under a context of its own.
template <class T>
class [[nodiscard]] under_context final : public waiter {
public:
    under_context(task<T> child, cancel_context& context, bool pass_on) noexcept
        : child_(child.release()), context_(context), pass_on_(pass_on)
    {
        if (!child_) [[unlikely]]
            awaited_twice();
    }
    ~under_context() { child_.destroy(); }
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept
    {
        child_.promise().continuation = parent;
        child_.promise().context = &context_;
        if (pass_on_ && !suspend(parent))
            context_.request();
        return child_;
    }
    T await_resume()
    {
        forget();
        return child_.promise().result();
    }

private:
    void on_cancel() noexcept override { context_.request(); }
    typename task<T>::handle_type child_;
    cancel_context& context_;
    bool pass_on_;
};

class deadline_timer final : public timer {
public:
    explicit deadline_timer(cancel_context& context) noexcept : context_(context) {}
    [[nodiscard]] bool fired() const noexcept { return fired_; }

private:
    void on_timer() noexcept override
    {
        fired_ = true;
        context_.request();
    }
    cancel_context& context_;
    bool fired_ = false;
};

[[noreturn]] void throw_timed_out(duration limit);
[[nodiscard]] bool chain_cancelled(const cancel_context* context) noexcept;

/// `co_await this_context()`: the context of the coroutine that asks. Does not suspend.
struct this_context {
    const cancel_context* found = nullptr;
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if constexpr (std::is_base_of_v<promise_base, Promise>)
            found = handle.promise().context;
        return false;
    }
    const cancel_context* await_resume() const noexcept { return found; }
};

} // namespace detail

/// Gives the task `limit` to finish. When that is over it is cancelled and waited for; then this
/// throws `timed_out`, unless the task finished with a result (or another error) all the same. A
/// task that ignores cancellation is waited for as long as it takes.
///
///     co_await with_timeout(10s, handshake(stream));
template <class T>
task<T> with_timeout(duration limit, task<T> child)
{
    cancel_context context;
    detail::deadline_timer deadline(context);
    deadline.arm_after(loop::current(), limit);
    try {
        co_return co_await detail::under_context<T>(std::move(child), context, true);
    } catch (const operation_cancelled&) {
        if (!deadline.fired())
            throw;
    }
    if (detail::chain_cancelled(co_await detail::this_context{}))
        throw operation_cancelled();
    detail::throw_timed_out(limit);
}

/// Runs the task as if nobody asked the caller to end. For clean-up that has to await: give it a
/// deadline of its own, since nothing else ends it.
///
///     co_await shield(with_timeout(5s, close_politely(channel)));
template <class T>
task<T> shield(task<T> child)
{
    cancel_context context;
    co_return co_await detail::under_context<T>(std::move(child), context, false);
}

/// `if (co_await cancel_requested()) co_return;` for loops that await nothing which could tell
/// them.
class [[nodiscard]] cancel_requested {
public:
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        (void)context_.await_suspend(handle);
        return false;
    }
    bool await_resume() const noexcept { return detail::chain_cancelled(context_.found); }

private:
    detail::this_context context_;
};

} // namespace acquit::runtime
