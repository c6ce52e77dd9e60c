#pragma once

#include <acquit/runtime/error.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace acquit::runtime {

/// A bounded queue of values between coroutines of one loop. Its storage is allocated once; values
/// go straight from a pusher to a waiting popper. Both sides are served first come, first served.
///
///     mailbox<job> jobs(64);
///     co_await jobs.push(job{...});                                // waits while it is full
///     while (auto next = co_await jobs.pop()) work(*next);         // ends when closed and empty
///
/// T must be movable without exceptions.
template <class T>
class mailbox {
    static_assert(std::is_nothrow_move_constructible_v<T>);

public:
    /// `capacity` >= 1 values.
    explicit mailbox(std::size_t capacity)
        : slots_(std::make_unique<slot[]>(capacity)), capacity_(capacity)
    {
        ACQUIT_ASSERT(capacity > 0, "a mailbox holds at least one value");
    }
    ~mailbox()
    {
        while (size_ > 0)
            (void)take();
    }
    mailbox(const mailbox&) = delete;
    mailbox& operator=(const mailbox&) = delete;

    /// False, and the value untouched, when it is full or closed.
    [[nodiscard]] bool try_push(T&& value) noexcept
    {
        if (closed_ || !room())
            return false;
        put(std::move(value));
        return true;
    }
    [[nodiscard]] bool try_push(const T& value)
    {
        if (closed_ || !room())
            return false;
        put(T(value));
        return true;
    }
    /// Nothing when it is empty, closed or not.
    [[nodiscard]] std::optional<T> try_pop() noexcept
    {
        if (size_ == 0)
            return std::nullopt;
        return take();
    }

    class push_op;
    class pop_op;
    /// Waits for room. Throws operation_cancelled, or `error` when the mailbox is closed; the value
    /// is gone then.
    [[nodiscard]] push_op push(T value) noexcept { return push_op(*this, std::move(value)); }
    /// Waits for a value. Gives nothing when the mailbox is closed and empty. A value that was
    /// handed to a waiting popper is never lost to a cancellation.
    [[nodiscard]] pop_op pop() noexcept { return pop_op(*this); }

    /// No more values: pushers that wait fail, poppers get what is there and then nothing.
    void close() noexcept
    {
        closed_ = true;
        while (!pushing_.empty())
            loop::current().make_ready(pushing_.pop_front());
        while (!popping_.empty())
            loop::current().make_ready(popping_.pop_front());
    }
    [[nodiscard]] bool closed() const noexcept { return closed_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

    class [[nodiscard]] push_op final : public queued_waiter {
    public:
        push_op(mailbox& into, T&& value) noexcept : mailbox_(into), value_(std::move(value)) {}
        bool await_ready() noexcept
        {
            if (mailbox_.closed_)
                return true;
            if (!mailbox_.room())
                return false;
            mailbox_.put(std::move(value_));
            done_ = true;
            return true;
        }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
        {
            if (!suspend(handle))
                return false;
            mailbox_.pushing_.push_back(*this);
            return true;
        }
        void await_resume() const
        {
            throw_if_cancelled();
            if (!done_) [[unlikely]]
                throw error("push into a closed mailbox");
        }

    private:
        friend class mailbox;
        mailbox& mailbox_;
        T value_;
        bool done_ = false;
    };

    class [[nodiscard]] pop_op final : public queued_waiter {
    public:
        explicit pop_op(mailbox& from) noexcept : mailbox_(from) {}
        bool await_ready() noexcept
        {
            if (mailbox_.size_ == 0)
                return mailbox_.closed_;
            value_.emplace(mailbox_.take());
            return true;
        }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
        {
            if (!suspend(handle))
                return false;
            mailbox_.popping_.push_back(*this);
            return true;
        }
        std::optional<T> await_resume()
        {
            throw_if_cancelled();
            return std::move(value_);
        }

    private:
        friend class mailbox;
        mailbox& mailbox_;
        std::optional<T> value_;
    };

private:
    union slot {
        slot() noexcept {}
        ~slot() {}
        T value;
    };
    [[nodiscard]] bool room() const noexcept { return size_ < capacity_; }
    void store(T&& value) noexcept
    {
        std::size_t index = first_ + size_;
        if (index >= capacity_)
            index -= capacity_;
        std::construct_at(&slots_[index].value, std::move(value));
        ++size_;
    }
    void put(T&& value) noexcept
    {
        if (popping_.empty())
            return store(std::move(value));
        auto& popper = static_cast<pop_op&>(popping_.pop_front());
        popper.value_.emplace(std::move(value));
        loop::current().make_ready(popper);
    }
    T take() noexcept
    {
        T& stored = slots_[first_].value;
        T value = std::move(stored);
        std::destroy_at(&stored);
        first_ = first_ + 1 == capacity_ ? 0 : first_ + 1;
        --size_;
        if (!pushing_.empty()) [[unlikely]] {
            auto& pusher = static_cast<push_op&>(pushing_.pop_front());
            store(std::move(pusher.value_));
            pusher.done_ = true;
            loop::current().make_ready(pusher);
        }
        return value;
    }

    std::unique_ptr<slot[]> slots_;
    std::size_t capacity_;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
    bool closed_ = false;
    waiter_list pushing_;
    waiter_list popping_;
};

} // namespace acquit::runtime
