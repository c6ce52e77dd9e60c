#pragma once

#include <cstdint>

namespace acquit::runtime {

/// A small seeded generator (splitmix64) for jitter, shuffling and simulations: the same seed gives
/// the same numbers on every machine. Not for secrets.
class random_source {
public:
    using result_type = std::uint64_t;
    explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint64_t operator()() noexcept
    {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    static constexpr std::uint64_t min() noexcept { return 0; }
    static constexpr std::uint64_t max() noexcept { return ~std::uint64_t{0}; }

    /// 0 to bound - 1; bound > 0. The bias of the remainder is below 2^-32 for bounds below 2^32.
    std::uint64_t below(std::uint64_t bound) noexcept { return (*this)() % bound; }
    /// low to high, both included.
    std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept
    {
        return low + below(high - low + 1);
    }
    /// 0 <= x < 1.
    double fraction() noexcept { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

private:
    std::uint64_t state_;
};

} // namespace acquit::runtime
