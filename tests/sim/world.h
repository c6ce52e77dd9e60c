#pragma once

#include "faults.h"
#include "shape.h"
#include "witness.h"

#include <cstdint>
#include <string>
#include <vector>

namespace acquit::testing {

/// What came of one world.
struct world_result {
    std::vector<std::string> violations;
    witness::counts seen;
    fault_counts injected{};
    std::uint64_t reconnects = 0;
    std::uint64_t reopened = 0;
    std::uint64_t stale = 0;
    std::uint64_t copies_confirmed = 0;
    std::uint64_t copies_failed = 0;
    std::uint64_t hops = 0;
    std::uint64_t timers_published = 0;
    std::uint64_t timers_early = 0;
    std::uint64_t timers_lost = 0;
    std::uint64_t delays_dropped = 0;
    std::uint64_t dead_lettered = 0;
    std::uint64_t lost_unsettled = 0;
    bool failed_to_start = false;
    bool cut_short = false;
};

/// Runs a service and its broker in virtual time, from `s`, and says what went wrong.
///
/// First a service lives through the faults, and ends as the shape says. Whatever it left is then
/// handled by a successor, in peace, which has to finish everything and drain without a trace.
[[nodiscard]] world_result run_world(const shape& s, bool print_notes = false);

} // namespace acquit::testing
