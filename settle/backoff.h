/// How long to wait before the n-th new attempt: for `retry()` under a declared backoff and for
/// reconnecting. Pure: the random number is passed in.
///
///     auto policy = backoff::exponential({.initial = 200ms, .factor = 2.0, .cap = 30s});
///     policy.delay(attempt, random());     // 1: 0 to 200 ms; 2: 0 to 400 ms; ... to 30 s
///
/// Full jitter (a uniform choice between nothing and the exponential ceiling) spreads clients that
/// failed together over the whole time, which any fixed share of the ceiling does not.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace acquit::settle {

class backoff {
public:
    struct exponential_options {
        std::chrono::nanoseconds initial = std::chrono::milliseconds{500};
        double factor = 2.0; // at least 1
        std::chrono::nanoseconds cap = std::chrono::seconds{30};
    };

    /// Always the same delay, without jitter.
    [[nodiscard]] static backoff fixed(std::chrono::nanoseconds delay) noexcept;
    [[nodiscard]] static backoff exponential(const exponential_options& options) noexcept;

    /// The longest delay before attempt n + 1, n counting from 1 (0 is taken as 1).
    [[nodiscard]] std::chrono::nanoseconds ceiling(std::uint32_t attempt) const noexcept;

    /// The delay itself; random: any 64 uniformly random bits.
    [[nodiscard]] std::chrono::nanoseconds delay(std::uint32_t attempt,
                                                 std::uint64_t random) const noexcept;

    /// Why these numbers cannot be used (negative delay, factor below 1, cap below initial), or
    /// nothing.
    [[nodiscard]] std::optional<std::string> problem() const;

private:
    backoff(std::chrono::nanoseconds initial, double factor, std::chrono::nanoseconds cap,
            bool jitter) noexcept;

    std::chrono::nanoseconds initial_;
    std::chrono::nanoseconds cap_;
    double factor_;
    bool jitter_;
};

} // namespace acquit::settle
