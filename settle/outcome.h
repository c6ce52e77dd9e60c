/// What a handler decides about a delivery.
///
/// An outcome says what shall become of the message, not which frame says so: the subscription's
/// policy turns it into a settlement (see ledger.h), a counted copy or a timer.
///
///     task<outcome> on_order(delivery& message)
///     {
///         if (!valid(message.body())) co_return drop;              // dead-lettered, or gone
///         if (!co_await warehouse_open()) co_return retry_after(60s);
///         if (!co_await reserve(message.body())) co_return retry();
///         co_return ack;
///     }
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace acquit::settle {

enum class outcome_kind : std::uint8_t {
    ack,         // done: the broker may forget the message
    drop,        // will never succeed: dead-lettered where the queue has a dead-letter exchange
    retry,       // again, as soon as the policy allows
    retry_after, // again, no sooner than the outcome's delay
};

/// "ack", "drop", "retry", "retry_after"; for logs and metrics.
[[nodiscard]] std::string_view name(outcome_kind kind) noexcept;

/// A value of 16 bytes. There is no default outcome: one that nobody chose would be an ack by
/// accident.
class outcome {
public:
    [[nodiscard]] constexpr outcome_kind kind() const noexcept { return kind_; }

    /// How long the next delivery has to wait at least; zero for every kind but retry_after.
    [[nodiscard]] constexpr std::chrono::nanoseconds delay() const noexcept { return delay_; }

    [[nodiscard]] std::string_view name() const noexcept { return settle::name(kind_); }

    friend constexpr bool operator==(outcome, outcome) noexcept = default;

    /// For code that computes a kind; handlers use the words below. A negative delay counts as zero,
    /// and a delay on any other kind than retry_after is ignored.
    [[nodiscard]] static constexpr outcome of(outcome_kind kind,
                                              std::chrono::nanoseconds delay = {}) noexcept
    {
        const bool timed = kind == outcome_kind::retry_after && delay.count() > 0;
        return {timed ? delay : std::chrono::nanoseconds{}, kind};
    }

private:
    constexpr outcome(std::chrono::nanoseconds delay, outcome_kind kind) noexcept
        : delay_{delay}, kind_{kind}
    {
    }

    std::chrono::nanoseconds delay_;
    outcome_kind kind_;
};

inline constexpr outcome ack = outcome::of(outcome_kind::ack);
inline constexpr outcome drop = outcome::of(outcome_kind::drop);

[[nodiscard]] constexpr outcome retry() noexcept
{
    return outcome::of(outcome_kind::retry);
}

[[nodiscard]] constexpr outcome retry_after(std::chrono::nanoseconds delay) noexcept
{
    return outcome::of(outcome_kind::retry_after, delay);
}

} // namespace acquit::settle
