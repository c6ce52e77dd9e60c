#pragma once

#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/reader.h>
#include <acquit/amqp/wire/status.h>
#include <acquit/amqp/wire/writer.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Decoding and encoding of methods, generated once from the `fields` function of each method
/// struct (methods_*.h). A struct lists its fields in wire order to a visitor, which has a function
/// per wire type: u8 u16 u32 u64 shortstr longstr table bit; and reserved_ ones for fields that the
/// specification keeps for itself: zero or empty when sent, ignored when received. Consecutive bits
/// share octets, the first in the lowest bit (AMQP 0-9-1 4.2.5.2).
namespace acquit::amqp::wire {

struct method_id {
    std::uint16_t class_id = 0;
    std::uint16_t method_id = 0;

    friend constexpr auto operator<=>(const struct method_id&,
                                      const struct method_id&) noexcept = default;
};

template <class M>
inline constexpr method_id id_of{M::class_id, M::method_id};

namespace detail {

class field_decoder {
public:
    explicit field_decoder(std::span<const std::byte> arguments) noexcept : in_(arguments) {}
    bool ok() const noexcept { return in_.ok(); }

    void u8(std::uint8_t& value) noexcept { value = next().u8(); }
    void u16(std::uint16_t& value) noexcept { value = next().u16(); }
    void u32(std::uint32_t& value) noexcept { value = next().u32(); }
    void u64(std::uint64_t& value) noexcept { value = next().u64(); }
    void shortstr(std::string_view& value) noexcept { value = next().shortstr(); }
    void longstr(std::string_view& value) noexcept { value = next().longstr(); }
    void table(table_view& value) noexcept { value = next().table(); }
    void bit(bool& value) noexcept
    {
        if (bit_ == 8) {
            octet_ = in_.u8();
            bit_ = 0;
        }
        value = (octet_ >> bit_++ & 1u) != 0;
    }
    void reserved_u16() noexcept { next().u16(); }
    void reserved_shortstr() noexcept { next().shortstr(); }
    void reserved_longstr() noexcept { next().longstr(); }
    void reserved_bit() noexcept
    {
        bool ignored = false;
        bit(ignored);
    }

private:
    reader& next() noexcept
    {
        bit_ = 8; // a field that is no bit begins a new octet
        return in_;
    }

    reader in_;
    unsigned bit_ = 8;
    unsigned octet_ = 0;
};

class field_encoder {
public:
    explicit field_encoder(writer& out) noexcept : out_(out) {}

    void u8(std::uint8_t value) noexcept { next().u8(value); }
    void u16(std::uint16_t value) noexcept { next().u16(value); }
    void u32(std::uint32_t value) noexcept { next().u32(value); }
    void u64(std::uint64_t value) noexcept { next().u64(value); }
    void shortstr(std::string_view value) noexcept { next().shortstr(value); }
    void longstr(std::string_view value) noexcept { next().longstr(value); }
    void table(table_view value) noexcept { next().table(value); }
    void bit(bool value) noexcept
    {
        if (bits_ == 8)
            next();
        octet_ |= static_cast<unsigned>(value) << bits_++;
    }
    void reserved_u16() noexcept { next().u16(0); }
    void reserved_shortstr() noexcept { next().shortstr({}); }
    void reserved_longstr() noexcept { next().longstr({}); }
    void reserved_bit() noexcept { bit(false); }

    /// Writes the last octet of bits, if one is open.
    writer& next() noexcept
    {
        if (bits_ != 0)
            out_.u8(static_cast<std::uint8_t>(octet_));
        bits_ = 0;
        octet_ = 0;
        return out_;
    }

private:
    writer& out_;
    unsigned bits_ = 0;
    unsigned octet_ = 0;
};

class field_measure {
public:
    void u8(std::uint8_t) noexcept { add(1); }
    void u16(std::uint16_t) noexcept { add(2); }
    void u32(std::uint32_t) noexcept { add(4); }
    void u64(std::uint64_t) noexcept { add(8); }
    void shortstr(std::string_view value) noexcept { add(1 + value.size()); }
    void longstr(std::string_view value) noexcept { add(4 + value.size()); }
    void table(table_view value) noexcept { add(4 + value.raw().size()); }
    void bit(bool) noexcept { size_ += bits_++ % 8 == 0; }
    void reserved_u16() noexcept { add(2); }
    void reserved_shortstr() noexcept { add(1); }
    void reserved_longstr() noexcept { add(4); }
    void reserved_bit() noexcept { bit(false); }

    std::size_t size() const noexcept { return size_; }

private:
    void add(std::size_t bytes) noexcept
    {
        size_ += bytes;
        bits_ = 0;
    }

    std::size_t size_ = 0;
    std::size_t bits_ = 0;
};

} // namespace detail

/// A method struct: see methods_basic.h for what one looks like.
template <class M>
concept method = requires(M& m, detail::field_decoder& d) {
    { M::class_id } -> std::convertible_to<std::uint16_t>;
    { M::method_id } -> std::convertible_to<std::uint16_t>;
    { M::name } -> std::convertible_to<const char*>;
    { M::content } -> std::convertible_to<bool>;
    M::fields(m, d);
};

/// `arguments`: the payload of a method frame after class and method id. Strings and tables become
/// views into it. Bytes after the last argument are ignored, so that a peer which knows a later
/// field stays understood; missing ones are `truncated`, connection scope (AMQP 0-9-1 1.1, 502).
/// Tables are not looked into.
template <method M>
status decode(std::span<const std::byte> arguments, M& out) noexcept
{
    detail::field_decoder decoder(arguments);
    M::fields(out, decoder);
    return decoder.ok() ? status{} : failure(fault::truncated);
}

/// The whole method frame, in bytes, with its frame_overhead and the four bytes of ids.
template <method M>
std::size_t encoded_size(const M& value) noexcept
{
    detail::field_measure measure;
    M::fields(value, measure);
    return frame_overhead + 4 + measure.size();
}

/// Writes the whole method frame. Returns the bytes written; 0 when it does not fit into `out` or a
/// short string is longer than 255 bytes. A method may not be split: for frame_max, pass no more
/// than frame_max bytes.
template <method M>
std::size_t encode_frame(std::span<std::byte> out, std::uint16_t channel, const M& value) noexcept
{
    return build_frame(out, frame_method, channel, [&](writer& w) {
        w.u16(M::class_id);
        w.u16(M::method_id);
        detail::field_encoder encoder(w);
        M::fields(value, encoder);
        encoder.next();
    });
}

} // namespace acquit::amqp::wire
