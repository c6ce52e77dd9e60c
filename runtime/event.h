#pragma once

#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>

#include <cstddef>

/// Waiting for each other within one loop: no locks, no memory beyond the waiting frames, first
/// come first served. Destroying one while a coroutine waits on it ends the program.
namespace acquit::runtime {

/// Set or not set. `wait` returns at once while it is set.
class event {
public:
    [[nodiscard]] bool is_set() const noexcept { return set_; }
    /// Wakes all who wait. A later reset does not take that back.
    void set() noexcept;
    void reset() noexcept { set_ = false; }

    class wait_op;
    [[nodiscard]] wait_op wait() noexcept;

private:
    bool set_ = false;
    waiter_list waiting_;
};

class [[nodiscard]] event::wait_op final : public queued_waiter {
public:
    explicit wait_op(event& awaited) noexcept : event_(awaited) {}
    bool await_ready() const noexcept { return event_.set_; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        event_.waiting_.push_back(*this);
        return true;
    }
    void await_resume() const { throw_if_cancelled(); }

private:
    event& event_;
};

inline event::wait_op event::wait() noexcept
{
    return wait_op(*this);
}

/// A condition variable of sorts: remembers nothing, wakes those who wait now. Check the condition
/// in a loop around `wait`.
class notifier {
public:
    /// False when nobody waited.
    bool notify_one() noexcept
    {
        if (waiting_.empty())
            return false;
        loop::current().make_ready(waiting_.pop_front());
        return true;
    }
    void notify_all() noexcept
    {
        while (notify_one()) {
        }
    }
    [[nodiscard]] bool has_waiters() const noexcept { return !waiting_.empty(); }

    class wait_op;
    [[nodiscard]] wait_op wait() noexcept;

private:
    waiter_list waiting_;
};

class [[nodiscard]] notifier::wait_op final : public queued_waiter {
public:
    explicit wait_op(notifier& awaited) noexcept : notifier_(awaited) {}
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        notifier_.waiting_.push_back(*this);
        return true;
    }
    void await_resume() const { throw_if_cancelled(); }

private:
    notifier& notifier_;
};

inline notifier::wait_op notifier::wait() noexcept
{
    return wait_op(*this);
}

/// `n` permits. A released permit goes to who waits longest; nobody overtakes, `try_acquire`
/// included.
class semaphore {
public:
    explicit semaphore(std::size_t permits) noexcept : available_(permits) {}
    [[nodiscard]] bool try_acquire() noexcept
    {
        if (available_ == 0)
            return false;
        --available_;
        return true;
    }
    void release() noexcept
    {
        if (waiting_.empty())
            ++available_;
        else
            loop::current().make_ready(waiting_.pop_front());
    }
    [[nodiscard]] std::size_t available() const noexcept { return available_; }

    class acquire_op;
    [[nodiscard]] acquire_op acquire() noexcept;

private:
    std::size_t available_;
    waiter_list waiting_;
};

class [[nodiscard]] semaphore::acquire_op final : public queued_waiter {
public:
    explicit acquire_op(semaphore& acquired) noexcept : semaphore_(acquired) {}
    bool await_ready() noexcept { return semaphore_.try_acquire(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        semaphore_.waiting_.push_back(*this);
        return true;
    }
    /// Throws operation_cancelled, and then holds no permit.
    void await_resume() const { throw_if_cancelled(); }

private:
    semaphore& semaphore_;
};

inline semaphore::acquire_op semaphore::acquire() noexcept
{
    return acquire_op(*this);
}

} // namespace acquit::runtime
