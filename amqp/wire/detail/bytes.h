#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

/// Integers in network byte order (AMQP 0-9-1 4.2.5.1), unchecked and unaligned.
namespace acquit::amqp::wire::detail {

static_assert(std::endian::native == std::endian::little ||
              std::endian::native == std::endian::big);

inline std::uint16_t swap_if_little(std::uint16_t value) noexcept
{
    return std::endian::native == std::endian::little ? __builtin_bswap16(value) : value;
}
inline std::uint32_t swap_if_little(std::uint32_t value) noexcept
{
    return std::endian::native == std::endian::little ? __builtin_bswap32(value) : value;
}
inline std::uint64_t swap_if_little(std::uint64_t value) noexcept
{
    return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

template <class Integer>
Integer load(const std::byte* from) noexcept
{
    Integer value;
    std::memcpy(&value, from, sizeof value);
    return swap_if_little(value);
}

template <class Integer>
void store(std::byte* to, Integer value) noexcept
{
    value = swap_if_little(value);
    std::memcpy(to, &value, sizeof value);
}

inline std::uint8_t load_u8(const std::byte* from) noexcept
{
    return std::to_integer<std::uint8_t>(*from);
}
inline std::uint16_t load_u16(const std::byte* from) noexcept
{
    return load<std::uint16_t>(from);
}
inline std::uint32_t load_u32(const std::byte* from) noexcept
{
    return load<std::uint32_t>(from);
}
inline std::uint64_t load_u64(const std::byte* from) noexcept
{
    return load<std::uint64_t>(from);
}

inline void store_u8(std::byte* to, std::uint8_t value) noexcept
{
    *to = std::byte{value};
}
inline void store_u16(std::byte* to, std::uint16_t value) noexcept
{
    store(to, value);
}
inline void store_u32(std::byte* to, std::uint32_t value) noexcept
{
    store(to, value);
}
inline void store_u64(std::byte* to, std::uint64_t value) noexcept
{
    store(to, value);
}

/// char may look at any object, so the view is the bytes themselves.
inline std::string_view as_text(const std::byte* from, std::size_t size) noexcept
{
    return {reinterpret_cast<const char*>(from), size};
}
inline std::span<const std::byte> as_bytes(std::string_view text) noexcept
{
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

} // namespace acquit::amqp::wire::detail
