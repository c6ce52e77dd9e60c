#pragma once

#include <chrono>

namespace acquit::runtime {

/// All times of the room are steady and in nanoseconds. A loop with virtual time has the same
/// types: its clock begins at the epoch and stands still while there is anything to run.
using duration = std::chrono::nanoseconds;
using time_point = std::chrono::steady_clock::time_point;
static_assert(std::is_same_v<time_point::duration, duration>);

} // namespace acquit::runtime
