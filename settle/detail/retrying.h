#pragma once

#include <acquit/runtime/event.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timeout.h>

#include <chrono>

/// What those share that make a connection, a channel or a consumer anew, again and again.
namespace acquit::settle::detail {

/// One that lived so long was not doomed from the start: the next pause is short again.
inline constexpr auto lasting = std::chrono::seconds(5);

/// Returns when the event is set, or when the time is over.
inline runtime::task<> wait_at_most(std::chrono::nanoseconds time, runtime::event& awaited)
{
    try {
        co_await runtime::with_timeout(
            time, [](runtime::event& e) -> runtime::task<> { co_await e.wait(); }(awaited));
    } catch (const runtime::timed_out&) {
    }
}

} // namespace acquit::settle::detail
