#pragma once

#include "result.h"

#include <acquit/runtime/clock.h>

#include <cstdint>
#include <vector>

namespace acquit::bench {

/// What an interval counts for.
enum class stage : std::uint8_t {
    warm_up,  ///< nothing but its own line
    measured, ///< the totals
    rest,     ///< what a finished run has left: its messages and settlements, not its time
    over,     ///< what comes after a run that ended by the clock: nothing
};

/// Counts while a run goes on: what happened since the last tick, and in all since the warm-up.
/// Counting is an increment of a public number or a `record`; all else is done per tick.
///
///     meter m{loop.now()};
///     ++m.now.sent;
///     const sample& last = m.tick(loop.now(), settlements, stage::measured);
class meter {
public:
    explicit meter(runtime::time_point began);
    /// The time that counts begins now; what has happened already stays counted.
    void begin(runtime::time_point at) noexcept;

    counts now; ///< since the last tick
    histogram consumer_latency;
    histogram confirm_latency;

    /// Ends an interval. `settlements`: since the beginning, by prefetch.
    const sample& tick(runtime::time_point at, const std::vector<settling>& settlements,
                       stage what);

    /// Everything up to the last tick, the warm-up included.
    [[nodiscard]] const counts& all() const noexcept { return all_; }
    /// Writes what it knows into `r`.
    void fill(result& r) const;

private:
    runtime::time_point began_{};
    runtime::time_point last_{};
    runtime::time_point measured_from_{};
    runtime::time_point measured_to_{};
    double cpu_last_ = 0;
    double cpu_measured_from_ = 0;
    double cpu_measured_to_ = 0;
    counts all_;
    counts totals_;
    histogram consumer_total_;
    histogram confirm_total_;
    std::vector<settling> settlements_;      // at the last tick
    std::vector<settling> measured_;         // at the end of what counts
    std::vector<settling> before_measuring_; // at the end of the warm-up
    std::vector<sample> samples_;
    sample latest_;
};

/// User and system time of this process, in seconds.
[[nodiscard]] double cpu_seconds() noexcept;

} // namespace acquit::bench
