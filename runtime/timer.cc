#include <acquit/runtime/error.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

namespace acquit::runtime {

void timer::arm(loop& owner, time_point deadline) noexcept
{
    cancel();
    loop_ = &owner;
    wait_for_callback();
    owner.insert_timer(*this, deadline);
}

void timer::cancel() noexcept
{
    if (idle())
        return;
    if (waiting())
        loop_->remove_timer(*this);
    forget();
}

void sleep_op::on_cancel() noexcept
{
    loop::current().remove_timer(*this);
    mark_cancelled();
    loop::current().make_ready(*this);
}

namespace detail {

void throw_timed_out(duration limit)
{
    const double seconds = std::chrono::duration<double>(limit).count();
    throw timed_out(seconds >= 1 ? fmt::format("not done within {:g} s", seconds)
                                 : fmt::format("not done within {:g} ms", seconds * 1000));
}

bool chain_cancelled(const cancel_context* context) noexcept
{
    return context != nullptr && context->requested();
}

} // namespace detail

} // namespace acquit::runtime
