#include <acquit/settle/flush_policy.h>

#include <fmt/format.h>

#include <algorithm>

namespace acquit::settle {
namespace {

constexpr std::uint32_t count_max_by_default = 256;
// Deliveries decided in the first quarter of the window are told while the other three are worked
// on.
constexpr std::uint32_t window_parts = 4;
// Longer than any use; far below the time after which a broker gives up on a consumer.
constexpr std::chrono::seconds hold_max{60};

} // namespace

std::optional<std::string> validate(const flush_policy& policy, std::uint32_t prefetch)
{
    if (policy.hold.count() < 0 || policy.hold > hold_max)
        return fmt::format("a flush hold time of {} ns: it must be between 0 and {} s",
                           policy.hold.count(), hold_max.count());
    if (prefetch != 0 && policy.count > prefetch)
        return fmt::format("a flush count of {} with a prefetch of {}: the broker would stop "
                           "delivering before it is reached; lower the count or raise the prefetch",
                           policy.count, prefetch);
    return std::nullopt;
}

flush_clock::flush_clock(const flush_policy& policy, std::uint32_t prefetch) noexcept
    : hold_{std::clamp<std::chrono::nanoseconds>(policy.hold, std::chrono::nanoseconds{0},
                                                 hold_max)},
      count_{policy.count}, prefetch_{prefetch}
{
    if (count_ == 0)
        count_ = prefetch == 0 ? count_max_by_default
                               : std::min(count_max_by_default, prefetch / window_parts);
    count_ = std::max(count_, 1u);
}

bool flush_clock::due(time_point now, std::uint64_t unflushed,
                      std::uint64_t unsettled) const noexcept
{
    if (unflushed == 0)
        return false;
    if (now >= hold_over_ || unflushed >= count_)
        return true;
    // With a count near the prefetch a few slow handlers could keep it from being reached while the
    // broker, its window full, sends nothing: the ledger would let the handlers run dry.
    return prefetch_ != 0 && unflushed + unsettled >= prefetch_ &&
           unsettled <= prefetch_ / window_parts;
}

} // namespace acquit::settle
