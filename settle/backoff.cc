#include <acquit/settle/backoff.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace acquit::settle {

backoff::backoff(std::chrono::nanoseconds initial, double factor, std::chrono::nanoseconds cap,
                 bool jitter) noexcept
    : initial_{initial}, cap_{cap}, factor_{factor}, jitter_{jitter}
{
}

backoff backoff::fixed(std::chrono::nanoseconds delay) noexcept
{
    return {delay, 1.0, delay, false};
}

backoff backoff::exponential(const exponential_options& options) noexcept
{
    return {options.initial, options.factor, options.cap, true};
}

std::chrono::nanoseconds backoff::ceiling(std::uint32_t attempt) const noexcept
{
    if (initial_.count() <= 0)
        return {};
    const double power = std::pow(factor_, static_cast<double>(std::max(attempt, 1u) - 1));
    const double grown = static_cast<double>(initial_.count()) * power;
    // Written so that an overflow, or nonsense, ends at the cap.
    if (!(grown < static_cast<double>(cap_.count())))
        return cap_;
    return std::chrono::nanoseconds{static_cast<std::int64_t>(grown)};
}

std::chrono::nanoseconds backoff::delay(std::uint32_t attempt, std::uint64_t random) const noexcept
{
    const std::chrono::nanoseconds most = ceiling(attempt);
    if (!jitter_)
        return most;
    const double share = static_cast<double>(random >> 11) * 0x1p-53; // [0, 1)
    return std::chrono::nanoseconds{
        static_cast<std::int64_t>(share * static_cast<double>(most.count()))};
}

std::optional<std::string> backoff::problem() const
{
    if (initial_.count() < 0)
        return fmt::format("a backoff of {} ns: it cannot be negative", initial_.count());
    if (!(factor_ >= 1.0) || !std::isfinite(factor_))
        return fmt::format("a backoff factor of {}: it must be at least 1", factor_);
    if (cap_ < initial_)
        return fmt::format("a backoff cap of {} ns below its initial delay of {} ns: raise the cap",
                           cap_.count(), initial_.count());
    return std::nullopt;
}

} // namespace acquit::settle
