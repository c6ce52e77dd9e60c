#pragma once

#include <acquit/runtime/clock.h>

#include <cstdint>

namespace acquit::bench {

/// A rate without drift: the n-th message is due at the beginning plus n times the period, however
/// late the ones before it were. Who falls behind by more than a second has lost that time: no burst
/// makes up for it.
class pace {
public:
    /// 0: everything is due at once.
    explicit pace(double per_second) noexcept : period_(per_second > 0 ? 1e9 / per_second : 0) {}

    /// When the next one is due. Call it once per message.
    [[nodiscard]] runtime::time_point next(runtime::time_point now) noexcept
    {
        if (period_ == 0)
            return now;
        if (count_ == 0 || now - at(count_) > std::chrono::seconds(1)) {
            began_ = now;
            count_ = 0;
        }
        return at(count_++);
    }

private:
    [[nodiscard]] runtime::time_point at(std::uint64_t n) const noexcept
    {
        return began_ + runtime::duration(
                            static_cast<runtime::duration::rep>(period_ * static_cast<double>(n)));
    }

    double period_; // ns
    runtime::time_point began_{};
    std::uint64_t count_ = 0;
};

} // namespace acquit::bench
