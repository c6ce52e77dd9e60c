#pragma once

#include <acquit/runtime/assert.h>
#include <acquit/runtime/cancel.h>
#include <acquit/runtime/frame_pool.h>
#include <acquit/runtime/waiter.h>

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace acquit::runtime {

template <class T>
class task;

/// What every coroutine of ours has: who goes on after it, and whose requests to end it hears. A
/// child takes the context of the coroutine that awaits it.
struct promise_base {
    std::coroutine_handle<> continuation;
    cancel_context* context = nullptr;

    static void* operator new(std::size_t size) { return frame_pool::allocate(size); }
    static void operator delete(void* frame, std::size_t size) noexcept
    {
        frame_pool::release(frame, size);
    }
};

class spawned_task;

/// Who started a task that nobody awaits (a scope, `loop::run`).
class task_owner {
public:
    /// The task has ended, with `failure` or without; its frame is freed right after the call, which
    /// may not run code of the user.
    virtual void task_ended(spawned_task& ended, std::exception_ptr failure) noexcept = 0;

protected:
    ~task_owner() = default;
};

/// The root of a chain. It lives in the frame of the `task<void>` itself (see
/// `task_promise<void>`), so that spawning allocates nothing more.
class spawned_task final : public waiter {
public:
    spawned_task(task_owner& owner, std::coroutine_handle<> handle) noexcept
        : owner(owner), frame(handle)
    {
        (void)suspend(handle);
    }
    task_owner& owner;
    std::coroutine_handle<> frame;
    cancel_context context;
    spawned_task* next_sibling = nullptr;
    spawned_task* previous_sibling = nullptr;
};

namespace detail {

[[noreturn, gnu::cold]] void awaited_twice() noexcept;

template <class T>
class task_promise_base : public promise_base {
public:
    struct final_awaiter {
        bool await_ready() const noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept
        {
            return ended.promise().after();
        }
        void await_resume() const noexcept {}
    };
    std::suspend_always initial_suspend() const noexcept { return {}; }
    final_awaiter final_suspend() const noexcept { return {}; }
};

template <class T>
class task_promise final : public task_promise_base<T> {
    using stored = std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T>*, T>;

public:
    task<T> get_return_object() noexcept;
    std::coroutine_handle<> after() const noexcept { return this->continuation; }
    void unhandled_exception() noexcept { failure_ = std::current_exception(); }

    template <class Value>
        requires std::is_convertible_v<Value&&, T>
    void return_value(Value&& value)
    {
        if constexpr (std::is_reference_v<T>)
            value_.emplace(std::addressof(static_cast<T>(std::forward<Value>(value))));
        else
            value_.emplace(std::forward<Value>(value));
    }

    T result()
    {
        if (failure_) [[unlikely]]
            std::rethrow_exception(std::exchange(failure_, nullptr));
        if constexpr (std::is_reference_v<T>)
            return static_cast<T>(**value_);
        else
            return std::move(*value_);
    }

private:
    std::optional<stored> value_;
    std::exception_ptr failure_;
};

template <>
class task_promise<void> final : public task_promise_base<void> {
public:
    task<void> get_return_object() noexcept;
    std::coroutine_handle<> after() noexcept { return continuation ? continuation : end_spawned(); }
    void unhandled_exception() noexcept { failure_ = std::current_exception(); }
    void return_void() const noexcept {}
    void result()
    {
        if (failure_) [[unlikely]]
            std::rethrow_exception(std::exchange(failure_, nullptr));
    }

    spawned_task& spawn_for(task_owner& owner) noexcept;

private:
    std::coroutine_handle<> end_spawned() noexcept;

    std::exception_ptr failure_;
    // Holds a spawned_task where somebody spawned us; left alone otherwise.
    alignas(spawned_task) std::byte root_[sizeof(spawned_task)];
};

} // namespace detail

/// A coroutine that gives a T (or nothing) once: lazy, move-only, awaited once as an rvalue.
///
///     task<int> twice(int n) { co_await sleep(1s); co_return 2 * n; }
///     int four = co_await twice(2);
///
/// It starts when it is awaited and resumes its awaiter directly, without the ready queue and
/// without growing the stack. Exceptions propagate. References among its parameters must live until
/// it is done; awaiting it in the full expression that creates it always satisfies that. A task
/// that was never started may be destroyed. To run tasks side by side, see scope.h; not a future:
/// nothing runs before somebody awaits.
template <class T = void>
class [[nodiscard]] task {
public:
    using promise_type = detail::task_promise<T>;
    using value_type = T;
    using handle_type = std::coroutine_handle<promise_type>;

    task() noexcept = default;
    explicit task(handle_type handle) noexcept : handle_(handle) {}
    task(task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    task& operator=(task&& other) noexcept
    {
        if (this != &other) {
            if (handle_)
                handle_.destroy();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    ~task()
    {
        if (handle_)
            handle_.destroy();
    }

    /// False once it was moved from, awaited or spawned.
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
    /// The frame is the caller's from now on. For those who start tasks: scope, loop, deadlines.
    [[nodiscard]] handle_type release() noexcept { return std::exchange(handle_, nullptr); }

    class awaiter {
    public:
        explicit awaiter(handle_type handle) noexcept : handle_(handle)
        {
            if (!handle_) [[unlikely]]
                detail::awaited_twice();
        }
        awaiter(const awaiter&) = delete;
        awaiter& operator=(const awaiter&) = delete;
        ~awaiter() { handle_.destroy(); }
        bool await_ready() const noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept
        {
            handle_.promise().continuation = parent;
            if constexpr (std::is_base_of_v<promise_base, Promise>)
                handle_.promise().context = parent.promise().context;
            return handle_;
        }
        T await_resume() { return handle_.promise().result(); }

    private:
        handle_type handle_;
    };
    awaiter operator co_await() && noexcept { return awaiter(release()); }

private:
    handle_type handle_;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() noexcept
{
    return task<T>(std::coroutine_handle<task_promise<T>>::from_promise(*this));
}

inline task<void> task_promise<void>::get_return_object() noexcept
{
    return task<void>(std::coroutine_handle<task_promise<void>>::from_promise(*this));
}

inline spawned_task& task_promise<void>::spawn_for(task_owner& owner) noexcept
{
    auto handle = std::coroutine_handle<task_promise<void>>::from_promise(*this);
    auto* root = ::new (static_cast<void*>(root_)) spawned_task(owner, handle);
    context = &root->context;
    return *root;
}

} // namespace detail

} // namespace acquit::runtime
