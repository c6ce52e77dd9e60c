#pragma once

namespace acquit::runtime {

class waiter;

/// The request to end that one chain of tasks shares. A chain is a task, the task it awaits, and so
/// on down to one suspended leaf operation (waiter.h); what runs side by side (scope.h) has a
/// context each.
///
/// Cancelling is asking. `request()` is sticky and tells the leaf, which finishes as soon as the
/// kernel has let go of its memory and then throws `operation_cancelled` into its coroutine;
/// operations that the chain would have to wait for afterwards throw at once. An operation that was
/// complete by then gives its result, and so does one that need not wait at all.
///
/// There is no list of children: an operation that stands for other chains (the join of a scope, a
/// deadline) is itself the leaf of its own chain and passes the request on. So a suspension costs
/// two stores.
class cancel_context {
public:
    cancel_context() noexcept = default;
    cancel_context(const cancel_context&) = delete;
    cancel_context& operator=(const cancel_context&) = delete;

    /// Runs no user code; waiters it ends are put on the ready queue. Loop thread only.
    void request() noexcept;
    [[nodiscard]] bool requested() const noexcept { return requested_; }

private:
    friend class waiter;
    waiter* leaf_ = nullptr;
    bool requested_ = false;
};

} // namespace acquit::runtime
