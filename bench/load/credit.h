#pragma once

#include "result.h"

#include <acquit/runtime/clock.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace acquit::bench {

/// Settlement latency of one consumer, as its project defines it: with prefetch N, the time from
/// handing the bytes of the settlement that frees a slot to the kernel until the delivery that the
/// freed slot allows has arrived. The n-th delivery could be sent once n - N others were settled.
///
/// The same ruler for the load tool's own clients and for those of others, seen by the proxy; the
/// library's settlement layer measures by the same rule (settler.h).
///
///     histogram latency;          // of each delivery but the first N
///     credit slots{256, latency};
///     slots.settled(3, now);      // three settlements were handed over
///     slots.arrived(now);         // a delivery is there
class credit {
public:
    /// `prefetch` 0, no limit: there are no slots, and nothing is measured. `latency` must live as
    /// long; several may share it.
    credit(std::uint32_t prefetch, histogram& latency) noexcept
        : prefetch_(prefetch), latency_(&latency)
    {
    }

    void settled(std::uint64_t messages, runtime::time_point handed_over);
    /// How long its slot took, where that is known: it is recorded then.
    std::optional<runtime::duration> arrived(runtime::time_point now) noexcept;
    [[nodiscard]] std::uint32_t prefetch() const noexcept { return prefetch_; }

private:
    struct handing {
        std::uint64_t until = 0; // number of the last settlement that it carried
        runtime::time_point at{};
    };
    std::uint32_t prefetch_;
    histogram* latency_;
    // A ring of handings whose slots were not used yet: never more than slots, while the broker keeps
    // to N.
    std::vector<handing> handings_;
    std::size_t head_ = 0;
    std::size_t size_ = 0;
    std::uint64_t settled_ = 0;
    std::uint64_t arrived_ = 0;
};

} // namespace acquit::bench
