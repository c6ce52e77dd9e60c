#pragma once

#include "result.h"

#include <string>

/// -o: a line per interval, with PerfTest's columns and a few of ours behind them (RFC 4180).
namespace acquit::bench {

[[nodiscard]] std::string csv_header(bool milliseconds);
/// `about`: who takes part; columns of others stay empty. Ends with a newline.
[[nodiscard]] std::string csv_line(const result& about, const sample& s);

} // namespace acquit::bench
