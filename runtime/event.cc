#include <acquit/runtime/event.h>

namespace acquit::runtime {

void event::set() noexcept
{
    set_ = true;
    while (!waiting_.empty())
        loop::current().make_ready(waiting_.pop_front());
}

} // namespace acquit::runtime
