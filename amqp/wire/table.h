#pragma once

#include <acquit/amqp/wire/field_table.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Building tables and arrays. They own their bytes, already encoded, so that sending one is a copy
/// and comparing two is a memcmp. Reading goes through `view()`. The only part of wire that
/// allocates.
///
///     table arguments;
///     arguments.set("x-queue-type", "quorum").set("x-delivery-limit", 4);
///     queue::declare{.queue = "orders", .durable = true, .arguments = arguments.view()};
namespace acquit::amqp::wire {

class table;
class array;

/// Bytes as a value of type `x`; a text is a std::string_view.
using byte_view = std::span<const std::byte>;

namespace detail {

// One encoder per wire type; each appends letter and value.
void put_bool(std::vector<std::byte>& out, bool value);
void put_integer(std::vector<std::byte>& out, field_type type, std::uint64_t value,
                 std::size_t width);
void put_float(std::vector<std::byte>& out, float value);
void put_double(std::vector<std::byte>& out, double value);
void put_sized(std::vector<std::byte>& out, field_type type, byte_view value);
void put_timestamp(std::vector<std::byte>& out, timestamp value);
void put_decimal(std::vector<std::byte>& out, decimal value);
void put_void(std::vector<std::byte>& out);
void put_raw(std::vector<std::byte>& out, field_value value);
/// An unsigned 64-bit number has no letter: it must fit an int64 (asserted; the largest int64 is
/// written otherwise).
std::uint64_t checked_int64(std::uint64_t value) noexcept;

template <class T>
concept field_integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                        !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <field_integer T>
constexpr field_type integer_type() noexcept
{
    if constexpr (sizeof(T) == 1)
        return std::is_signed_v<T> ? field_type::int8 : field_type::uint8;
    else if constexpr (sizeof(T) == 2)
        return std::is_signed_v<T> ? field_type::int16 : field_type::uint16;
    else if constexpr (sizeof(T) == 4)
        return std::is_signed_v<T> ? field_type::int32 : field_type::uint32;
    else
        return field_type::int64;
}

template <field_integer T>
void put(std::vector<std::byte>& out, T value)
{
    auto bits = static_cast<std::uint64_t>(value);
    if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>)
        bits = checked_int64(bits);
    put_integer(out, integer_type<T>(), bits, sizeof(T));
}
template <std::same_as<bool> T>
void put(std::vector<std::byte>& out, T value)
{
    put_bool(out, value);
}
inline void put(std::vector<std::byte>& out, float value)
{
    put_float(out, value);
}
inline void put(std::vector<std::byte>& out, double value)
{
    put_double(out, value);
}
void put(std::vector<std::byte>& out, std::string_view value);
inline void put(std::vector<std::byte>& out, const char* value)
{
    put(out, std::string_view(value));
}
inline void put(std::vector<std::byte>& out, const std::string& value)
{
    put(out, std::string_view(value));
}
inline void put(std::vector<std::byte>& out, byte_view value)
{
    put_sized(out, field_type::bytes, value);
}
inline void put(std::vector<std::byte>& out, timestamp value)
{
    put_timestamp(out, value);
}
inline void put(std::vector<std::byte>& out, decimal value)
{
    put_decimal(out, value);
}
inline void put(std::vector<std::byte>& out, void_t)
{
    put_void(out);
}
inline void put(std::vector<std::byte>& out, field_value value)
{
    put_raw(out, value);
}
inline void put(std::vector<std::byte>& out, table_view value)
{
    put_sized(out, field_type::table, value.raw());
}
inline void put(std::vector<std::byte>& out, array_view value)
{
    put_sized(out, field_type::array, value.raw());
}
void put(std::vector<std::byte>& out, const table& value);
void put(std::vector<std::byte>& out, const array& value);

template <class T>
concept field_settable =
    requires(std::vector<std::byte>& out, const T& value) { detail::put(out, value); };

} // namespace detail

class table {
public:
    table() noexcept = default;
    /// A copy of what a view shows, byte for byte, readable or not.
    explicit table(table_view from) : bytes_(from.raw().begin(), from.raw().end()) {}

    /// Adds the field, behind all that can be read, or replaces it where it stands. bool is `t`;
    /// integers keep their width (an int is `I`); text is `S`, byte_view `x`; float, double,
    /// timestamp, decimal, void_t, table, array and their views. A name has at most 255 bytes
    /// (asserted; a longer one is not added).
    template <detail::field_settable V>
    table& set(std::string_view name, const V& value)
    {
        std::vector<std::byte> encoded;
        detail::put(encoded, value);
        return set_encoded(name, encoded);
    }
    template <std::size_t N>
    table& set(std::string_view name, const char (&text)[N])
    {
        return set(name, std::string_view(text));
    }
    /// A value as it was received, byte for byte; an empty value adds nothing.
    table& set_raw(std::string_view name, field_value value)
    {
        return set_encoded(name, value.raw());
    }

    /// Removes all fields of that name; true when there was one. A table with a field that cannot
    /// be read (see table_view) is changed only before that field.
    bool remove(std::string_view name);
    bool contains(std::string_view name) const noexcept { return view().find(name).has_value(); }
    bool empty() const noexcept { return bytes_.empty(); }
    void clear() noexcept { bytes_.clear(); }

    table_view view() const noexcept { return table_view(bytes_); }
    operator table_view() const noexcept { return view(); }
    std::span<const std::byte> raw() const noexcept { return bytes_; }
    /// On the wire, in bytes, with the four size octets.
    std::size_t encoded_size() const noexcept { return 4 + bytes_.size(); }

    /// By bytes: the same fields in another order are another table.
    friend bool operator==(const table&, const table&) noexcept = default;

private:
    table& set_encoded(std::string_view name, std::span<const std::byte> value);

    std::vector<std::byte> bytes_;
};

class array {
public:
    array() noexcept = default;
    explicit array(array_view from) : bytes_(from.raw().begin(), from.raw().end()) {}

    /// Appends; the types are those of table::set.
    template <detail::field_settable V>
    array& add(const V& value)
    {
        std::vector<std::byte> encoded; // not straight into bytes_: value may be a view of them
        detail::put(encoded, value);
        bytes_.insert(bytes_.end(), encoded.begin(), encoded.end());
        return *this;
    }
    template <std::size_t N>
    array& add(const char (&text)[N])
    {
        return add(std::string_view(text));
    }

    bool empty() const noexcept { return bytes_.empty(); }
    array_view view() const noexcept { return array_view(bytes_); }
    operator array_view() const noexcept { return view(); }
    std::span<const std::byte> raw() const noexcept { return bytes_; }
    std::size_t encoded_size() const noexcept { return 4 + bytes_.size(); }

    friend bool operator==(const array&, const array&) noexcept = default;

private:
    std::vector<std::byte> bytes_;
};

/// For messages and logs: {x-death=[{count=l:2, queue=S:"orders"}], n=I:5}. What cannot be read
/// ends it with "...?", what is nested deeper than nesting_max shows as "...". At most about
/// `limit` bytes.
std::string describe(table_view view, std::size_t limit = 4096);

} // namespace acquit::amqp::wire
