#pragma once

#include <cstdint>

namespace acquit::firehose {

/// One delivery each 1/rate seconds, from the first consumer on, without drift: what could not go
/// in time goes late.
class pacer {
public:
    explicit pacer(double rate) noexcept : rate_(rate) {}

    [[nodiscard]] bool active() const noexcept { return rate_ != 0; }
    void start(std::uint64_t now_ns) noexcept
    {
        if (began_ns_ == 0)
            began_ns_ = now_ns;
    }
    /// How many may go now.
    [[nodiscard]] std::uint64_t allowance(std::uint64_t now_ns) const noexcept
    {
        if (!active())
            return UINT64_MAX;
        if (began_ns_ == 0)
            return 0;
        const auto due =
            static_cast<std::uint64_t>(static_cast<double>(now_ns - began_ns_) * 1e-9 * rate_);
        return due > sent_ ? due - sent_ : 0;
    }
    void spend(std::uint64_t count) noexcept { sent_ += count; }
    /// When the next is due.
    [[nodiscard]] std::uint64_t next_ns() const noexcept
    {
        return began_ns_ +
               static_cast<std::uint64_t>(static_cast<double>(sent_ + 1) * 1e9 / rate_) + 1;
    }

private:
    double rate_;
    std::uint64_t began_ns_ = 0;
    std::uint64_t sent_ = 0;
};

} // namespace acquit::firehose
