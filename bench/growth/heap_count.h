#pragma once

#include <cstdint>

namespace acquit::bench {

/// How often this thread has taken memory by operator new. Links the counting operators.
[[nodiscard]] std::uint64_t heap_allocations() noexcept;

} // namespace acquit::bench
