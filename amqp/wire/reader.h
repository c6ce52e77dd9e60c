#pragma once

#include <acquit/amqp/wire/detail/bytes.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace acquit::amqp::wire {

/// A bounded cursor over received bytes. A read beyond the end gives zeros or empty views and sets
/// a flag that sticks, so a whole structure is read without a branch per field in the caller and
/// judged once, by `ok()`. Lengths off the wire are compared with what remains, never added to a
/// position: no length can wrap.
///
///     reader r(payload);
///     auto tag = r.u64();
///     auto key = r.shortstr();
///     if (!r.ok()) return failure(fault::truncated);
class reader {
public:
    explicit reader(std::span<const std::byte> bytes) noexcept
        : at_(bytes.data()), end_(bytes.data() + bytes.size())
    {
    }

    bool ok() const noexcept { return !failed_; }
    std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - at_); }
    std::span<const std::byte> rest() const noexcept { return {at_, remaining()}; }

    std::uint8_t u8() noexcept { return integer<std::uint8_t>(); }
    std::uint16_t u16() noexcept { return integer<std::uint16_t>(); }
    std::uint32_t u32() noexcept { return integer<std::uint32_t>(); }
    std::uint64_t u64() noexcept { return integer<std::uint64_t>(); }
    std::int8_t i8() noexcept { return static_cast<std::int8_t>(u8()); }
    std::int16_t i16() noexcept { return static_cast<std::int16_t>(u16()); }
    std::int32_t i32() noexcept { return static_cast<std::int32_t>(u32()); }
    std::int64_t i64() noexcept { return static_cast<std::int64_t>(u64()); }

    std::span<const std::byte> bytes(std::uint64_t size) noexcept
    {
        if (size > remaining()) [[unlikely]]
            return fail(), std::span<const std::byte>{};
        auto* from = at_;
        at_ += size;
        return {from, static_cast<std::size_t>(size)};
    }

    /// One length octet, then the text (AMQP 0-9-1 4.2.5.3).
    std::string_view shortstr() noexcept { return text(u8()); }
    /// Four length octets, then the bytes.
    std::string_view longstr() noexcept { return text(u32()); }
    /// Four length octets, then the fields, which are not looked at.
    table_view table() noexcept { return table_view(bytes(u32())); }

private:
    template <class Integer>
    Integer integer() noexcept
    {
        if (remaining() < sizeof(Integer)) [[unlikely]]
            return fail(), Integer{0};
        Integer value;
        if constexpr (sizeof(Integer) == 1)
            value = detail::load_u8(at_);
        else
            value = detail::load<Integer>(at_);
        at_ += sizeof(Integer);
        return value;
    }

    std::string_view text(std::uint64_t size) noexcept
    {
        auto view = bytes(size);
        return detail::as_text(view.data(), view.size());
    }

    void fail() noexcept
    {
        failed_ = true;
        at_ = end_; // nothing after a failed read can look valid
    }

    const std::byte* at_;
    const std::byte* end_;
    bool failed_ = false;
};

} // namespace acquit::amqp::wire
