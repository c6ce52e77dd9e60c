#include <acquit/runtime/task.h>

namespace acquit::runtime::detail {

void awaited_twice() noexcept
{
    assert_failed(__FILE__, __LINE__, "handle_",
                  "a task is awaited once; this one was moved from, awaited or spawned before");
}

std::coroutine_handle<> task_promise<void>::end_spawned() noexcept
{
    auto* root = std::launder(reinterpret_cast<spawned_task*>(root_));
    const auto frame = root->frame;
    root->owner.task_ended(*root, std::exchange(failure_, nullptr));
    root->~spawned_task();
    frame.destroy(); // this is gone from here on
    return std::noop_coroutine();
}

} // namespace acquit::runtime::detail
