#include <acquit/runtime/error.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>

namespace acquit::runtime {

void cancel_context::request() noexcept
{
    if (requested_)
        return;
    requested_ = true;
    if (leaf_ != nullptr && leaf_->waiting())
        leaf_->on_cancel();
}

void waiter::throw_cancelled()
{
    throw operation_cancelled();
}

// Not an ACQUIT_ASSERT in the destructor: its formatting would stand in every coroutine that waits.
void waiter::destroyed_in_flight() const noexcept
{
    detail::assert_failed(__FILE__, __LINE__, "idle()",
                          fmt::format("operation destroyed while it was {}",
                                      waiting() ? "in flight" : "on the ready queue"));
}

void waiter_list::destroyed_while_awaited() noexcept
{
    detail::assert_failed(__FILE__, __LINE__, "empty()", "destroyed while a coroutine waits on it");
}

void queued_waiter::on_cancel() noexcept
{
    waiter_list::remove(*this);
    mark_cancelled();
    loop::current().make_ready(*this);
}

} // namespace acquit::runtime
