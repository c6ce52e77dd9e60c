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

void queued_waiter::on_cancel() noexcept
{
    waiter_list::remove(*this);
    mark_cancelled();
    loop::current().make_ready(*this);
}

} // namespace acquit::runtime
