#pragma once

#include <acquit/amqp/wire/detail/bytes.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace acquit::amqp::wire {

/// A bounded encoder. What does not fit, a short string beyond 255 bytes included, is not written
/// and sets a flag that sticks; the caller asks `ok()` once at the end. `size()` is what has been
/// written so far, in bytes.
class writer {
public:
    explicit writer(std::span<std::byte> out) noexcept
        : begin_(out.data()), at_(out.data()), end_(out.data() + out.size())
    {
    }

    bool ok() const noexcept { return !failed_; }
    std::size_t size() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
    std::size_t remaining() const noexcept { return static_cast<std::size_t>(end_ - at_); }

    void u8(std::uint8_t value) noexcept
    {
        if (auto* to = reserve(1))
            detail::store_u8(to, value);
    }
    void u16(std::uint16_t value) noexcept
    {
        if (auto* to = reserve(2))
            detail::store_u16(to, value);
    }
    void u32(std::uint32_t value) noexcept
    {
        if (auto* to = reserve(4))
            detail::store_u32(to, value);
    }
    void u64(std::uint64_t value) noexcept
    {
        if (auto* to = reserve(8))
            detail::store_u64(to, value);
    }

    void bytes(std::span<const std::byte> value) noexcept
    {
        if (value.empty())
            return; // memcpy may not see a null pointer
        if (auto* to = reserve(value.size()))
            std::memcpy(to, value.data(), value.size());
    }

    void shortstr(std::string_view value) noexcept
    {
        if (value.size() > 255) [[unlikely]]
            return fail();
        u8(static_cast<std::uint8_t>(value.size()));
        bytes(detail::as_bytes(value));
    }
    void longstr(std::string_view value) noexcept { sized(detail::as_bytes(value)); }
    void table(table_view value) noexcept { sized(value.raw()); }

    /// Overwrites four octets that were written before, at `offset` from the start.
    void patch_u32(std::size_t offset, std::uint32_t value) noexcept
    {
        if (ok() && size() >= 4 && offset <= size() - 4)
            detail::store_u32(begin_ + offset, value);
        else
            fail();
    }

    void fail() noexcept
    {
        failed_ = true;
        end_ = at_; // so that nothing smaller is written behind the gap
    }

private:
    void sized(std::span<const std::byte> value) noexcept
    {
        if (value.size() > std::numeric_limits<std::uint32_t>::max()) [[unlikely]]
            return fail();
        u32(static_cast<std::uint32_t>(value.size()));
        bytes(value);
    }

    std::byte* reserve(std::size_t size) noexcept
    {
        if (size > remaining()) [[unlikely]] {
            fail();
            return nullptr;
        }
        auto* to = at_;
        at_ += size;
        return to;
    }

    std::byte* begin_;
    std::byte* at_;
    std::byte* end_;
    bool failed_ = false;
};

} // namespace acquit::amqp::wire
