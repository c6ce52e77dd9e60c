#pragma once

#include "result.h"

#include <string>

/// What a run prints, in the words of PerfTest where it has them.
namespace acquit::bench {

/// One line for an interval, without its newline. `progress` may be empty.
[[nodiscard]] std::string line_of(const result& about, const sample& s, const std::string& progress,
                                  bool with_settlement);
/// The lines at the end, each with its newline.
[[nodiscard]] std::string summary_of(const result& r);

/// What the looks at the queues say against the settlement latency; "" where they say nothing.
[[nodiscard]] std::string look_text(const result& r);

/// A number of messages per second as PerfTest prints it: without digits behind the point from 1 on.
[[nodiscard]] std::string rate_text(double per_second);
/// min/median/75th/95th/99th in microseconds, or milliseconds with -ms.
[[nodiscard]] std::string five_text(const five& values, bool milliseconds);

} // namespace acquit::bench
