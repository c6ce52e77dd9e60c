#pragma once

#include <acquit/runtime/error.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/task.h>

#include <cstddef>
#include <exception>

namespace acquit::runtime {

/// The one way to run tasks side by side: whatever is spawned into a scope is over before the scope
/// is.
///
///     co_await with_scope([&](scope& workers) -> task<> {
///         for (auto& queue : queues)
///             workers.spawn(consume(queue));
///         co_await stop.wait();
///         workers.cancel();
///     });
///
/// The first task that fails cancels the others and its exception comes out of `join`. A task that
/// ends with operation_cancelled after the scope was cancelled has not failed. When the coroutine
/// that joins is cancelled, so is the scope; `join` still waits for all and then throws
/// operation_cancelled.
///
/// Destroying a scope with tasks in it, or with a failure nobody saw, ends the program: use
/// `with_scope`, which joins on every path, unless the scope lives in an object with a `run()` of
/// its own.
class scope : private task_owner {
public:
    scope() noexcept = default;
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

    /// Puts the task on the ready queue: it begins after what is ready now, never inside this call.
    /// Allocates nothing. In a cancelled scope it begins too, and its first wait throws.
    void spawn(task<void> child);
    /// Begins the task on the spot, on the caller's stack, up to its first suspension. For
    /// dispatchers on their hot path; the task may be over when this returns.
    void start(task<void> child);

    /// Asks all tasks to end, now and in future. Does not wait.
    void cancel() noexcept;
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }
    /// Tasks that are not over.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    class join_op;
    /// Waits until no task is left; tasks may spawn more meanwhile. One at a time.
    [[nodiscard]] join_op join() noexcept;

private:
    void adopt(spawned_task& child) noexcept;
    void task_ended(spawned_task& ended, std::exception_ptr failure) noexcept override;
    void rethrow_failure();

    spawned_task* first_ = nullptr;
    std::size_t size_ = 0;
    join_op* joining_ = nullptr;
    std::exception_ptr failure_;
    bool cancelled_ = false;
};

class [[nodiscard]] scope::join_op final : public waiter {
public:
    explicit join_op(scope& joined) noexcept : scope_(joined) {}
    bool await_ready() const noexcept { return scope_.size_ == 0; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        ACQUIT_ASSERT(scope_.joining_ == nullptr, "a scope is joined by one coroutine at a time");
        scope_.joining_ = this;
        if (!suspend(handle)) { // cancelled before: ask the tasks to end, and wait all the same
            asked_ = true;
            scope_.cancel();
            wait_uncancelled(handle);
        }
        return true;
    }
    /// Throws the first failure, or operation_cancelled.
    void await_resume()
    {
        scope_.rethrow_failure();
        if (asked_)
            throw_cancelled_join();
    }

private:
    friend class scope;
    void wait_uncancelled(std::coroutine_handle<> handle) noexcept { (void)suspend(handle); }
    void on_cancel() noexcept override
    {
        asked_ = true;
        scope_.cancel();
    }
    [[noreturn]] static void throw_cancelled_join();
    scope& scope_;
    bool asked_ = false;
};

inline scope::join_op scope::join() noexcept
{
    return join_op(*this);
}

namespace detail {

template <class F>
task<void> scope_body(F& body, scope& s)
{
    co_await body(s);
}

template <class F, class T>
task<void> scope_body_into(F& body, scope& s, std::optional<T>& result)
{
    result.emplace(co_await body(s));
}

} // namespace detail

/// Runs `body(scope&) -> task<T>` as the first task of a scope, joins, and gives the body's result.
/// The body is cancelled with the scope: by a sibling's failure, by whoever cancels the caller.
/// `scope::cancel` called by the body ends the body's own waits as well.
template <class F>
auto with_scope(F body) -> std::invoke_result_t<F&, scope&>
{
    using result_type = typename std::invoke_result_t<F&, scope&>::value_type;
    scope s;
    if constexpr (std::is_void_v<result_type>) {
        s.start(detail::scope_body(body, s));
        co_await s.join();
    } else {
        std::optional<result_type> result;
        s.start(detail::scope_body_into(body, s, result));
        co_await s.join();
        if (!result)
            throw operation_cancelled();
        co_return std::move(*result);
    }
}

} // namespace acquit::runtime
