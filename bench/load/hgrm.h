#pragma once

#include "result.h"

#include <string>
#include <string_view>

namespace acquit::bench {

/// A histogram in the text form of HdrHistogram's outputPercentileDistribution, five lines per halving
/// of what is left, values in microseconds; its plotters read it. `about` becomes a comment at the end.
[[nodiscard]] std::string hgrm_of(const histogram& h, std::string_view about);

/// The run's settlement latency, or its consumer latency where nothing was settled.
[[nodiscard]] std::string hgrm_of(const result& r);

} // namespace acquit::bench
