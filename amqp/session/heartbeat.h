#pragma once

#include <cstdint>
#include <limits>

/// Heartbeats as arithmetic on passed-in times (AMQP 0-9-1 4.2.7). Nanoseconds of any monotonic
/// clock.
///
/// The tuned number is a *timeout*, not a period: we write every half of it when nothing else was
/// written, and call the peer dead after two whole intervals of silence. Any byte that came in is a
/// sign of life, whatever it belongs to.
namespace acquit::amqp {

inline constexpr std::uint64_t never_ns = std::numeric_limits<std::uint64_t>::max();

class heartbeat_clock {
public:
    void start(std::uint64_t now_ns) noexcept { last_input_ = last_output_ = now_ns; }

    /// 0 switches both directions off.
    void interval(std::uint16_t seconds) noexcept
    {
        interval_ = std::uint64_t{seconds} * 1'000'000'000;
    }

    void note_input(std::uint64_t now_ns) noexcept { last_input_ = now_ns; }
    void note_output(std::uint64_t now_ns) noexcept { last_output_ = now_ns; }

    [[nodiscard]] bool beat_due(std::uint64_t now_ns) const noexcept
    {
        return interval_ != 0 && now_ns >= last_output_ + interval_ / 2;
    }
    [[nodiscard]] bool peer_dead(std::uint64_t now_ns) const noexcept
    {
        return interval_ != 0 && now_ns >= last_input_ + 2 * interval_;
    }

    /// When to look again, always after `now_ns` once a due beat was noted; `never_ns` when
    /// heartbeats are off.
    [[nodiscard]] std::uint64_t next_ns(std::uint64_t now_ns) const noexcept
    {
        if (interval_ == 0) {
            return never_ns;
        }
        const auto beat = last_output_ + interval_ / 2;
        const auto death = last_input_ + 2 * interval_;
        return death > now_ns && death < beat ? death : beat;
    }

private:
    std::uint64_t interval_ = 0;
    std::uint64_t last_input_ = 0;
    std::uint64_t last_output_ = 0;
};

} // namespace acquit::amqp
