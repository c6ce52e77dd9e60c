#pragma once

#include "result.h"

#include <string>

namespace acquit::bench {

/// The report of a run: one HTML file, complete without a network and without scripts. Light and dark
/// as the reader's system says; for screens from 360 px on, and for paper.
[[nodiscard]] std::string html_of(const result& r);

} // namespace acquit::bench
