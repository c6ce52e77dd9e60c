#pragma once

#include <acquit/runtime/loop.h>

#include <chrono>
#include <cstdint>

namespace acquit::bench {

/// What stamps are made with: the steady clock, which all processes of a machine share, or the wall
/// clock between machines (-ms).
[[nodiscard]] inline std::int64_t stamp_time(bool wall) noexcept
{
    if (wall)
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    return runtime::loop::current().precise_now().time_since_epoch().count();
}

} // namespace acquit::bench
