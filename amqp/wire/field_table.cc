#include <acquit/amqp/wire/field_table.h>
#include <acquit/amqp/wire/reader.h>

#include <array>
#include <bit>

namespace acquit::amqp::wire {

namespace {

constexpr int with_size = -1; // four size octets, then as many bytes
constexpr int unknown = -2;

// Bytes of a value after its letter.
constexpr int value_size(field_type type) noexcept
{
    switch (type) {
    case field_type::void_:
        return 0;
    case field_type::boolean:
    case field_type::int8:
    case field_type::uint8:
        return 1;
    case field_type::int16:
    case field_type::int16_of_specification:
    case field_type::uint16:
        return 2;
    case field_type::int32:
    case field_type::uint32:
    case field_type::float32:
        return 4;
    case field_type::decimal:
        return 5;
    case field_type::int64:
    case field_type::int64_of_specification:
    case field_type::float64:
    case field_type::timestamp:
        return 8;
    case field_type::string:
    case field_type::bytes:
    case field_type::array:
    case field_type::table:
        return with_size;
    case field_type::none:
        break;
    }
    return unknown;
}

// Walks everything below `bytes` with a stack of its own: input decides how deep, never the call
// stack.
fault inspect_nested(std::span<const std::byte> bytes, bool named) noexcept
{
    std::array<field_cursor, nesting_max + 1> open;
    std::size_t depth = 0;
    open[0] = field_cursor(bytes, named);
    for (;;) {
        field item;
        if (open[depth].next(item)) {
            auto type = item.value.type();
            if (type != field_type::table && type != field_type::array)
                continue;
            if (depth == nesting_max)
                return fault::nesting_too_deep;
            open[++depth] = field_cursor(item.value.raw().subspan(5), type == field_type::table);
        } else if (open[depth].error() != fault::none) {
            return open[depth].error();
        } else if (depth-- == 0) {
            return fault::none;
        }
    }
}

fault inspect_flat(std::span<const std::byte> bytes, bool named) noexcept
{
    field_cursor cursor(bytes, named);
    field item;
    while (cursor.next(item)) {
    }
    return cursor.error();
}

} // namespace

bool field_cursor::next(field& out) noexcept
{
    if (rest_.empty() || error_ != fault::none)
        return false;
    reader in(rest_);
    std::string_view name;
    if (named_)
        name = in.shortstr();
    auto value_from = in.rest();
    auto size = value_size(field_type{in.u8()});
    if (size == unknown && in.ok()) {
        error_ = fault::bad_field;
        return false;
    }
    in.bytes(size == with_size ? in.u32() : static_cast<std::uint64_t>(size));
    if (!in.ok()) {
        error_ = fault::truncated;
        return false;
    }
    out = {name, field_value(value_from.first(value_from.size() - in.remaining()))};
    rest_ = in.rest();
    return true;
}

std::optional<std::int64_t> field_value::as_int64() const noexcept
{
    if (raw_.empty())
        return std::nullopt;
    auto* value = raw_.data() + 1;
    switch (type()) {
    case field_type::int8:
        return static_cast<std::int8_t>(detail::load_u8(value));
    case field_type::uint8:
        return detail::load_u8(value);
    case field_type::int16:
    case field_type::int16_of_specification:
        return static_cast<std::int16_t>(detail::load_u16(value));
    case field_type::uint16:
        return detail::load_u16(value);
    case field_type::int32:
        return static_cast<std::int32_t>(detail::load_u32(value));
    case field_type::uint32:
        return detail::load_u32(value);
    case field_type::int64:
    case field_type::int64_of_specification:
        return static_cast<std::int64_t>(detail::load_u64(value));
    default:
        return std::nullopt;
    }
}

std::optional<std::string_view> field_value::as_string() const noexcept
{
    if (type() != field_type::string && type() != field_type::bytes)
        return std::nullopt;
    return detail::as_text(raw_.data() + 5, raw_.size() - 5);
}

std::optional<bool> field_value::as_bool() const noexcept
{
    if (type() != field_type::boolean)
        return std::nullopt;
    return detail::load_u8(raw_.data() + 1) != 0;
}

std::optional<double> field_value::as_double() const noexcept
{
    if (type() == field_type::float32)
        return std::bit_cast<float>(detail::load_u32(raw_.data() + 1));
    if (type() == field_type::float64)
        return std::bit_cast<double>(detail::load_u64(raw_.data() + 1));
    return std::nullopt;
}

std::optional<timestamp> field_value::as_timestamp() const noexcept
{
    if (type() != field_type::timestamp)
        return std::nullopt;
    return timestamp{detail::load_u64(raw_.data() + 1)};
}

std::optional<decimal> field_value::as_decimal() const noexcept
{
    if (type() != field_type::decimal)
        return std::nullopt;
    return decimal{.scale = detail::load_u8(raw_.data() + 1),
                   .value = static_cast<std::int32_t>(detail::load_u32(raw_.data() + 2))};
}

std::optional<table_view> field_value::as_table() const noexcept
{
    if (type() != field_type::table)
        return std::nullopt;
    return table_view(raw_.subspan(5));
}

std::optional<array_view> field_value::as_array() const noexcept
{
    if (type() != field_type::array)
        return std::nullopt;
    return array_view(raw_.subspan(5));
}

std::optional<field_value> table_view::find(std::string_view name) const noexcept
{
    field_cursor cursor(raw_, true);
    field item;
    while (cursor.next(item))
        if (item.name == name)
            return item.value;
    return std::nullopt;
}

bool table_view::undecodable() const noexcept
{
    return inspect_flat(raw_, true) != fault::none;
}
fault table_view::inspect() const noexcept
{
    return inspect_nested(raw_, true);
}

bool array_view::undecodable() const noexcept
{
    return inspect_flat(raw_, false) != fault::none;
}
fault array_view::inspect() const noexcept
{
    return inspect_nested(raw_, false);
}

} // namespace acquit::amqp::wire
