#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

/// What a message of ours says of itself, in the first 16 bytes of its body. Both ends must agree on
/// the order of bytes, which every machine that this runs on does (little endian):
///
///     0                       8                                  16
///     +-----------------------+------------------------------------+-------------
///     | time of publishing, ns | run (12 bits) producer (14) number (38) | padding ...
///     +-----------------------+------------------------------------+-------------
namespace acquit::bench {

struct stamp {
    std::int64_t sent_ns = 0;   ///< by the steady clock of the machine, or by the wall clock
    std::uint16_t run = 0;      ///< 12 bits; tells the messages of one run from others'
    std::uint16_t producer = 0; ///< 14 bits
    std::uint64_t number = 0;   ///< 38 bits; of the producer, from 0

    friend bool operator==(const stamp&, const stamp&) = default;
};

inline constexpr std::size_t stamp_size = 16;
inline constexpr std::uint16_t run_max = (1u << 12) - 1;
inline constexpr std::uint32_t producers_max = 1u << 14;

/// `body` has at least stamp_size bytes.
inline void write_stamp(std::span<std::byte> body, const stamp& s) noexcept
{
    const std::uint64_t packed =
        std::uint64_t{s.run} << 52 | std::uint64_t{s.producer} << 38 | s.number;
    std::memcpy(body.data(), &s.sent_ns, 8);
    std::memcpy(body.data() + 8, &packed, 8);
}

/// Nothing for a body that is too short. Any other can be read: whether it is ours, `run` tells.
[[nodiscard]] inline std::optional<stamp> read_stamp(std::span<const std::byte> body) noexcept
{
    if (body.size() < stamp_size)
        return {};
    stamp s;
    std::uint64_t packed = 0;
    std::memcpy(&s.sent_ns, body.data(), 8);
    std::memcpy(&packed, body.data() + 8, 8);
    s.run = static_cast<std::uint16_t>(packed >> 52);
    s.producer = static_cast<std::uint16_t>(packed >> 38 & (producers_max - 1));
    s.number = packed & ((std::uint64_t{1} << 38) - 1);
    return s;
}

} // namespace acquit::bench
