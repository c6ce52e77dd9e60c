// A task is awaited by who owns it, and given away by that: awaiting it by its name would allow a second time.
// expect: no member named .await_ready.

#include <acquit/runtime/task.h>

#include <utility>

using acquit::runtime::task;

task<int> child();

task<int> parent()
{
    task<int> once = child();
#ifdef MUST_FAIL
    co_return co_await once;
#else
    co_return co_await std::move(once);
#endif
}
