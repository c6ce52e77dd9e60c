#pragma once

#include <chrono>

namespace acquit::runtime {

/// All times of the room are steady and in nanoseconds. A loop with virtual time has the same
/// types: its clock begins at the epoch and stands still while there is anything to run.
using duration = std::chrono::nanoseconds;
using time_point = std::chrono::steady_clock::time_point;
static_assert(std::is_same_v<time_point::duration, duration>);

/// `from` + `delay`, and no later than the end of time: "no limit" may be said as duration::max().
[[nodiscard]] constexpr time_point later(time_point from, duration delay) noexcept
{
    return delay > time_point::max() - from ? time_point::max() : from + delay;
}

} // namespace acquit::runtime
