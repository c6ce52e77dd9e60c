/// When a ledger writes what it has: a pure decision by a time that is passed in.
///
/// At the end of a turn of the loop a flush is due when the last one is longer ago than the hold
/// time; otherwise it waits until `count` deliveries are decided or the hold time is over, whichever
/// is first. So a lone settlement after idling is never delayed, and under load one flush carries
/// many.
///
///     flush_clock clock{policy, prefetch};
///     // end of turn:
///     if (clock.due(now, ledger.unflushed(), ledger.unsettled())) { flush(); clock.flushed(now); }
///     else arm_timer(clock.next_deadline(ledger.unflushed()));
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace acquit::settle {

// The defaults are chosen by bench/flush/run (RabbitMQ 4.3, 128-byte messages, a backlog, one
// consumer; ratios to an ack frame per message in the same round):
//
//     prefetch   classic: rate, broker CPU   quorum: rate, broker CPU    hold 1 ms: rate of both
//            1         1.00   0.99                 0.87   1.06               0.97   0.90
//           16         1.15   0.81                 1.14   0.81               1.31   1.26
//          256         1.09   0.88                 1.21   0.79               1.12   1.43
//         1024         1.25   0.81                 1.17   0.88               1.42   1.28
//         4096         1.21   0.86       (2000)    1.30   0.87               1.28   1.83
//
// Settlement latency at equal prefetch falls with the rate's gain in each of them but at prefetch 1,
// where nothing is ever held. Longer holds gain more while there is a backlog: each frame is work for the
// broker (a Raft command on a quorum queue). The default stays short all the same: up to 10,000 messages
// a second it holds none of them back, so that what trickles is settled as fast as a loop of its own
// would. Who consumes backlogs takes 1 ms.

struct flush_policy {
    /// The longest time that a decided delivery waits for company. 0: flush at the end of every
    /// turn.
    std::chrono::nanoseconds hold = std::chrono::microseconds{100};
    /// Deliveries that make a flush due before the hold time is over. 0: min(256, prefetch / 4), at
    /// least 1.
    std::uint32_t count = 0;
};

/// Why this policy cannot be used with this prefetch, or nothing. A count above the prefetch could
/// never be reached: the broker stops delivering first.
[[nodiscard]] std::optional<std::string> validate(const flush_policy& policy,
                                                  std::uint32_t prefetch);

class flush_clock {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// prefetch: of the channel's consumer; the smallest one if there are several, since each has a
    /// window of its own. 0: no window (pulling only).
    flush_clock(const flush_policy& policy, std::uint32_t prefetch) noexcept;

    /// Asked at the end of a turn, and when the timer fires.
    [[nodiscard]] bool due(time_point now, std::uint64_t unflushed,
                           std::uint64_t unsettled) const noexcept;

    /// When to ask again if nothing else happens: time_point::max() with nothing to flush.
    [[nodiscard]] time_point next_deadline(std::uint64_t unflushed) const noexcept
    {
        return unflushed == 0 ? time_point::max() : hold_over_;
    }

    void flushed(time_point now) noexcept { hold_over_ = now + hold_; }

    /// The count in force.
    [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

private:
    std::chrono::nanoseconds hold_;
    time_point hold_over_ =
        time_point::min(); // nothing was flushed yet: the first one is due at once
    std::uint32_t count_;
    std::uint32_t prefetch_;
};

} // namespace acquit::settle
