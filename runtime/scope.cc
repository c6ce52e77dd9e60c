#include <acquit/runtime/scope.h>

namespace acquit::runtime {

namespace {

bool is_cancellation(const std::exception_ptr& failure) noexcept
{
    try {
        std::rethrow_exception(failure);
    } catch (const operation_cancelled&) {
        return true;
    } catch (...) {
        return false;
    }
}

} // namespace

scope::~scope()
{
    ACQUIT_ASSERT(size_ == 0, "scope destroyed with {} tasks in it: join it first", size_);
    ACQUIT_ASSERT(failure_ == nullptr,
                  "scope destroyed with the failure of a task that nobody saw: "
                  "join it first");
}

void scope::spawn(task<void> child)
{
    ACQUIT_ASSERT(child, "spawned a task that was moved from, awaited or spawned before");
    spawned_task& root = child.release().promise().spawn_for(*this);
    adopt(root);
    loop::current().make_ready(root);
}

void scope::start(task<void> child)
{
    ACQUIT_ASSERT(child, "started a task that was moved from, awaited or spawned before");
    spawned_task& root = child.release().promise().spawn_for(*this);
    adopt(root);
    root.resume_now();
}

void scope::adopt(spawned_task& child) noexcept
{
    ++size_;
    child.next_sibling = first_;
    if (first_ != nullptr)
        first_->previous_sibling = &child;
    first_ = &child;
    if (cancelled_)
        child.context.request();
}

void scope::task_ended(spawned_task& ended, std::exception_ptr failure) noexcept
{
    if (ended.previous_sibling != nullptr)
        ended.previous_sibling->next_sibling = ended.next_sibling;
    else
        first_ = ended.next_sibling;
    if (ended.next_sibling != nullptr)
        ended.next_sibling->previous_sibling = ended.previous_sibling;
    --size_;
    if (failure != nullptr && failure_ == nullptr && !(cancelled_ && is_cancellation(failure))) {
        failure_ = std::move(failure);
        cancel();
    }
    if (size_ == 0 && joining_ != nullptr)
        loop::current().make_ready(*std::exchange(joining_, nullptr));
}

void scope::cancel() noexcept
{
    if (cancelled_)
        return;
    cancelled_ = true;
    // Nothing here runs a task, so the list stands still.
    for (auto* child = first_; child != nullptr; child = child->next_sibling)
        child->context.request();
}

void scope::rethrow_failure()
{
    if (failure_ != nullptr)
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

void scope::join_op::throw_cancelled_join()
{
    throw operation_cancelled();
}

} // namespace acquit::runtime
