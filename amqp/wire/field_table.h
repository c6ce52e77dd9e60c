#pragma once

#include <acquit/amqp/wire/status.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

/// Field tables, read lazily and in place (AMQP 0-9-1 4.2.5.5).
///
///     table   | size(4) | field, field, ...              |      size counts the bytes after it
///     field   | name length(1) | name | letter(1) | value |
///     array   | size(4) | letter(1) value, letter(1) value, ... |
///
/// A view is two words; making one checks nothing. Iteration checks each field as it comes and
/// stops at the first it cannot read: an unknown letter has an unknown length, so nothing behind it
/// can be found. The bytes stay available (`raw()`), so that a message with a strange header is
/// delivered, not fatal. No function here recurses by input.
///
///     for (auto [name, value] : headers)
///         if (auto n = value.as_int64())
///             log(name, *n);
///     auto deaths = headers.find("x-death");          // optional<field_value>
///
/// Views refer to the receive buffer: they live as long as the delivery they came with. To iterate
/// over a nested one, name it first: `for (auto v : *value.as_array())` would iterate over a part
/// of a temporary that is gone (C++20).
namespace acquit::amqp::wire {

/// Deepest table or array inside others that `inspect`, `valid` and `describe` follow.
inline constexpr std::size_t nesting_max = 64;

/// The letters as RabbitMQ and its clients use them (RabbitMQ: "AMQP 0-9-1 errata", field types),
/// which differ from the specification's: `s` is an int16 and `l`, `L` are both int64.
enum class field_type : std::uint8_t {
    none = 0, ///< a default-made value
    boolean = 't',
    int8 = 'b',
    uint8 = 'B',
    int16 = 's',
    int16_of_specification = 'U', ///< read, never written
    uint16 = 'u',
    int32 = 'I',
    uint32 = 'i',
    int64 = 'l',
    int64_of_specification = 'L', ///< read, never written
    float32 = 'f',
    float64 = 'd',
    decimal = 'D',
    string = 'S',
    bytes = 'x', ///< RabbitMQ: a byte array (.NET: BinaryTableValue)
    array = 'A',
    timestamp = 'T',
    table = 'F',
    void_ = 'V',
};

/// Seconds since 1970-01-01 UTC (AMQP 0-9-1 4.2.5.4).
struct timestamp {
    std::uint64_t seconds = 0;
    friend constexpr auto operator<=>(const timestamp&, const timestamp&) noexcept = default;
};

/// value / 10^scale.
struct decimal {
    std::uint8_t scale = 0;
    std::int32_t value = 0;
    friend constexpr bool operator==(const decimal&, const decimal&) noexcept = default;
};

/// The value of type `V`: present, without content.
struct void_t {
    friend constexpr bool operator==(const void_t&, const void_t&) noexcept = default;
};

class table_view;
class array_view;

/// One value: its letter and its bytes. The as_ functions answer nothing when the value is of
/// another type.
class field_value {
public:
    constexpr field_value() noexcept = default;

    field_type type() const noexcept
    {
        return raw_.empty() ? field_type::none : field_type{std::to_integer<std::uint8_t>(raw_[0])};
    }

    /// Any integer type; a boolean is none.
    std::optional<std::int64_t> as_int64() const noexcept;
    /// `S` and `x`. Not NUL-terminated, may contain NULs.
    std::optional<std::string_view> as_string() const noexcept;
    std::optional<bool> as_bool() const noexcept;
    /// `f` and `d`.
    std::optional<double> as_double() const noexcept;
    std::optional<timestamp> as_timestamp() const noexcept;
    std::optional<decimal> as_decimal() const noexcept;
    std::optional<table_view> as_table() const noexcept;
    std::optional<array_view> as_array() const noexcept;
    bool is_void() const noexcept { return type() == field_type::void_; }

    /// The bytes of the value with its letter in front.
    std::span<const std::byte> raw() const noexcept { return raw_; }

private:
    friend class field_cursor;
    explicit field_value(std::span<const std::byte> raw) noexcept : raw_(raw) {}

    std::span<const std::byte> raw_; // whole and well-formed: only a cursor makes one
};

struct field {
    std::string_view name; ///< empty in an array
    field_value value;
};

/// Walks the fields of a table or the values of an array; the iterators below are made of it.
class field_cursor {
public:
    constexpr field_cursor() noexcept = default;
    field_cursor(std::span<const std::byte> bytes, bool named) noexcept
        : rest_(bytes), named_(named)
    {
    }

    /// The next field, or false at the end, and at a field that cannot be read: then `error()` says
    /// why.
    bool next(field& out) noexcept;

    fault error() const noexcept { return error_; }
    std::span<const std::byte> rest() const noexcept { return rest_; }
    bool named() const noexcept { return named_; }

private:
    std::span<const std::byte> rest_;
    bool named_ = true;
    fault error_ = fault::none;
};

/// Input iterator over `Item` (field or field_value), ended by std::default_sentinel.
template <class Item>
class field_iterator {
public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    field_iterator() noexcept = default;
    field_iterator(std::span<const std::byte> bytes, bool named) noexcept : cursor_(bytes, named)
    {
        more_ = cursor_.next(field_);
    }

    const Item& operator*() const noexcept
    {
        if constexpr (std::is_same_v<Item, field>)
            return field_;
        else
            return field_.value;
    }
    const Item* operator->() const noexcept { return &**this; }
    field_iterator& operator++() noexcept
    {
        more_ = cursor_.next(field_);
        return *this;
    }
    void operator++(int) noexcept { ++*this; }
    friend bool operator==(const field_iterator& it, std::default_sentinel_t) noexcept
    {
        return !it.more_;
    }

    /// True when the iteration stopped at something it could not read instead of at the end.
    bool undecodable() const noexcept { return cursor_.error() != fault::none; }

private:
    field_cursor cursor_;
    field field_;
    bool more_ = false;
};

class table_view {
public:
    using iterator = field_iterator<field>;

    constexpr table_view() noexcept = default;
    /// `raw`: the fields, without the four size octets that precede them on the wire.
    constexpr explicit table_view(std::span<const std::byte> raw) noexcept : raw_(raw) {}

    std::span<const std::byte> raw() const noexcept { return raw_; }
    bool empty() const noexcept { return raw_.empty(); }

    iterator begin() const noexcept { return {raw_, true}; }
    std::default_sentinel_t end() const noexcept { return {}; }

    /// The first field of that name among those that can be read.
    std::optional<field_value> find(std::string_view name) const noexcept;

    /// True when a field of this table, nested ones aside, cannot be read.
    bool undecodable() const noexcept;
    /// The first fault in this table or in anything nested in it: truncated, bad_field,
    /// nesting_too_deep; or none.
    fault inspect() const noexcept;
    bool valid() const noexcept { return inspect() == fault::none; }

private:
    std::span<const std::byte> raw_;
};

class array_view {
public:
    using iterator = field_iterator<field_value>;

    constexpr array_view() noexcept = default;
    /// `raw`: the values, without the four size octets.
    constexpr explicit array_view(std::span<const std::byte> raw) noexcept : raw_(raw) {}

    std::span<const std::byte> raw() const noexcept { return raw_; }
    bool empty() const noexcept { return raw_.empty(); }

    iterator begin() const noexcept { return {raw_, false}; }
    std::default_sentinel_t end() const noexcept { return {}; }

    bool undecodable() const noexcept;
    fault inspect() const noexcept;
    bool valid() const noexcept { return inspect() == fault::none; }

private:
    std::span<const std::byte> raw_;
};

} // namespace acquit::amqp::wire
