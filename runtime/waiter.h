#pragma once

#include <acquit/runtime/assert.h>
#include <acquit/runtime/cancel.h>

#include <coroutine>
#include <cstdint>

/// The leaf of a chain of tasks: what a coroutine is suspended on.
///
/// Every operation that suspends derives from `waiter`, lives in the frame of the coroutine that
/// awaits it, cannot be moved, and aborts the program if it is destroyed while something may still
/// complete it. It is also the node of the ready queue, so that making a coroutine ready never
/// allocates.
///
/// An awaitable has this shape (event.h holds complete ones):
///
///     class wait_op : public waiter {
///         bool await_ready() const noexcept;
///         template <class Promise>
///         bool await_suspend(std::coroutine_handle<Promise> handle) noexcept {
///             if (!suspend(handle)) return false;       // cancelled before: await_resume throws
///             ... register with whoever will call loop::make_ready(*this) ...
///             return true;
///         }
///         void await_resume() { throw_if_cancelled(); }
///         void on_cancel() noexcept override;           // deregister, mark_cancelled(),
///         make_ready
///     };
namespace acquit::runtime {

struct promise_base;

/// A position in a circular list. A list is a node of its own that points to itself while it is
/// empty.
struct list_node {
    list_node* next = nullptr;
    list_node* previous = nullptr;

    void unlink() noexcept
    {
        previous->next = next;
        next->previous = previous;
        next = previous = nullptr;
    }
    void insert_before(list_node& position) noexcept
    {
        next = &position;
        previous = position.previous;
        previous->next = this;
        position.previous = this;
    }
};

class waiter : private list_node {
public:
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    [[nodiscard]] bool idle() const noexcept { return phase_ == phase::idle; }
    [[nodiscard]] bool waiting() const noexcept { return phase_ == phase::waiting; }
    [[nodiscard]] bool ready() const noexcept { return phase_ == phase::ready; }

    /// Resumes what waits here on the spot instead of through the ready queue; it must be waiting
    /// and in no list. For dispatchers that hand message after message to one consumer: the
    /// consumer runs on the caller's stack until it waits again, so the caller may not be the
    /// consumer itself.
    void resume_now() noexcept
    {
        ACQUIT_DEBUG_ASSERT(waiting() && next == nullptr,
                            "resume_now of a waiter that is not free");
        run();
    }

protected:
    waiter() noexcept = default;
    ~waiter()
    {
        if (!idle()) [[unlikely]]
            destroyed_in_flight();
    }

    /// Head of every await_suspend: registers this as the leaf of the coroutine's chain. False
    /// where the chain is cancelled already: then do not suspend, and throw from await_resume.
    template <class Promise>
    [[nodiscard]] bool suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        ACQUIT_DEBUG_ASSERT(idle(), "operation awaited while it is in flight");
        handle_ = handle;
        cancelled_ = false;
        if constexpr (std::is_base_of_v<promise_base, Promise>) {
            context_ = handle.promise().context;
            if (context_ != nullptr) {
                if (context_->requested_) [[unlikely]] {
                    cancelled_ = true;
                    return false;
                }
                context_->leaf_ = this;
            }
        }
        phase_ = phase::waiting;
        return true;
    }

    /// The same for an operation without a coroutine: `on_ready` is called in its place, from the
    /// ready queue. Nothing cancels it but its owner.
    void wait_for_callback() noexcept
    {
        ACQUIT_DEBUG_ASSERT(idle(), "operation started while it is in flight");
        handle_ = nullptr;
        context_ = nullptr;
        cancelled_ = false;
        phase_ = phase::waiting;
    }

    /// Back to idle from waiting or from the ready queue without resuming anybody. It must already
    /// be out of every list but the ready queue.
    void forget() noexcept
    {
        if (phase_ == phase::ready)
            unlink();
        if (context_ != nullptr && context_->leaf_ == this)
            context_->leaf_ = nullptr;
        phase_ = phase::idle;
    }

    void mark_cancelled() noexcept { cancelled_ = true; }
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }
    void throw_if_cancelled() const
    {
        if (cancelled_) [[unlikely]]
            throw_cancelled();
    }

    /// The chain is asked to end while this is waiting. Called at most once per wait. Must lead to
    /// `make_ready`, now or when the kernel is done. Runs no user code.
    virtual void on_cancel() noexcept {}
    /// In place of resuming a coroutine, after `wait_for_callback`.
    virtual void on_ready() noexcept {}

private:
    friend class cancel_context;
    friend class loop;
    friend class waiter_list;
    enum class phase : std::uint8_t { idle, waiting, ready };

    void run() noexcept
    {
        phase_ = phase::idle;
        if (context_ != nullptr)
            context_->leaf_ = nullptr;
        if (handle_)
            handle_.resume();
        else
            on_ready();
    }
    [[noreturn]] static void throw_cancelled();
    [[noreturn, gnu::cold]] void destroyed_in_flight() const noexcept;

    std::coroutine_handle<> handle_;
    cancel_context* context_ = nullptr;
    phase phase_ = phase::idle;
    bool cancelled_ = false;
};

/// First come, first served. Does not own; all are gone before the list ends.
class waiter_list {
public:
    waiter_list() noexcept { head_.next = head_.previous = &head_; }
    ~waiter_list()
    {
        if (!empty()) [[unlikely]]
            destroyed_while_awaited();
    }
    waiter_list(const waiter_list&) = delete;
    waiter_list& operator=(const waiter_list&) = delete;

    [[nodiscard]] bool empty() const noexcept { return head_.next == &head_; }
    [[nodiscard]] waiter& front() noexcept { return static_cast<waiter&>(*head_.next); }
    void push_back(waiter& node) noexcept { node.insert_before(head_); }
    void push_front(waiter& node) noexcept { node.insert_before(*head_.next); }
    waiter& pop_front() noexcept
    {
        waiter& node = front();
        node.unlink();
        return node;
    }
    static void remove(waiter& node) noexcept { node.unlink(); }

private:
    [[noreturn, gnu::cold]] static void destroyed_while_awaited() noexcept;
    list_node head_;
};

/// A waiter that stands in a `waiter_list` while it waits, which is all that cancelling has to
/// undo.
class queued_waiter : public waiter {
protected:
    queued_waiter() noexcept = default;
    ~queued_waiter() = default;
    void on_cancel() noexcept override;
};

} // namespace acquit::runtime
