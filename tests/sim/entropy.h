#pragma once

#include <cstdint>

namespace acquit::testing {

/// From here on `std::random_device` gives numbers that follow from this seed: jitter is drawn from
/// it, and a world has to take the same course each time.
void seed_entropy(std::uint64_t seed) noexcept;

} // namespace acquit::testing
