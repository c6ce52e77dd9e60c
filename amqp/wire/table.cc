#include <acquit/amqp/wire/detail/bytes.h>
#include <acquit/amqp/wire/table.h>

#include <bit>
#include <cassert>
#include <limits>

namespace acquit::amqp::wire {

namespace detail {

namespace {

void append(std::vector<std::byte>& out, byte_view bytes)
{
    out.insert(out.end(), bytes.begin(), bytes.end());
}

} // namespace

void put_integer(std::vector<std::byte>& out, field_type type, std::uint64_t value,
                 std::size_t width)
{
    out.push_back(std::byte{static_cast<std::uint8_t>(type)});
    for (auto shift = width * 8; shift != 0; shift -= 8)
        out.push_back(static_cast<std::byte>(value >> (shift - 8) & 0xFF));
}

void put_bool(std::vector<std::byte>& out, bool value)
{
    put_integer(out, field_type::boolean, value ? 1 : 0, 1);
}

void put_float(std::vector<std::byte>& out, float value)
{
    put_integer(out, field_type::float32, std::bit_cast<std::uint32_t>(value), 4);
}

void put_double(std::vector<std::byte>& out, double value)
{
    put_integer(out, field_type::float64, std::bit_cast<std::uint64_t>(value), 8);
}

void put_sized(std::vector<std::byte>& out, field_type type, byte_view value)
{
    assert(value.size() <= std::numeric_limits<std::uint32_t>::max());
    put_integer(out, type, value.size(), 4);
    append(out, value);
}

void put_timestamp(std::vector<std::byte>& out, timestamp value)
{
    put_integer(out, field_type::timestamp, value.seconds, 8);
}

void put_decimal(std::vector<std::byte>& out, decimal value)
{
    put_integer(out, field_type::decimal,
                std::uint64_t{value.scale} << 32 | static_cast<std::uint32_t>(value.value), 5);
}

void put_void(std::vector<std::byte>& out)
{
    put_integer(out, field_type::void_, 0, 0);
}

void put_raw(std::vector<std::byte>& out, field_value value)
{
    append(out, value.raw());
}

void put(std::vector<std::byte>& out, std::string_view value)
{
    put_sized(out, field_type::string, as_bytes(value));
}

void put(std::vector<std::byte>& out, const table& value)
{
    put(out, value.view());
}
void put(std::vector<std::byte>& out, const array& value)
{
    put(out, value.view());
}

std::uint64_t checked_int64(std::uint64_t value) noexcept
{
    constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
    assert(value <= largest && "AMQP has no unsigned 64-bit field type");
    return value <= largest ? value : largest;
}

} // namespace detail

table& table::set_encoded(std::string_view name, std::span<const std::byte> value)
{
    assert(name.size() <= 255 && "a field name has one length octet");
    if (name.size() > 255 || value.empty())
        return *this;
    // Made first: name and value may be views of this table's own bytes.
    std::vector<std::byte> encoded{static_cast<std::byte>(name.size())};
    detail::append(encoded, detail::as_bytes(name));
    detail::append(encoded, value);

    // To the place of the field of that name, else behind the last field that can be read: what
    // stands behind an unreadable one is lost to every reader.
    field_cursor cursor(bytes_, true);
    field item;
    auto offset = [&] { return static_cast<std::ptrdiff_t>(bytes_.size() - cursor.rest().size()); };
    auto from = offset();
    while (cursor.next(item)) {
        if (item.name == name) {
            bytes_.erase(bytes_.begin() + from, bytes_.begin() + offset());
            break;
        }
        from = offset();
    }
    bytes_.insert(bytes_.begin() + from, encoded.begin(), encoded.end());
    return *this;
}

bool table::remove(std::string_view name)
{
    std::vector<std::byte> kept;
    kept.reserve(bytes_.size());
    bool found = false;
    field_cursor cursor(bytes_, true);
    field item;
    for (auto rest = cursor.rest(); cursor.next(item); rest = cursor.rest()) {
        if (item.name == name)
            found = true;
        else
            detail::append(kept, rest.first(rest.size() - cursor.rest().size()));
    }
    detail::append(kept, cursor.rest()); // empty, or from the unreadable field on
    bytes_ = std::move(kept);
    return found;
}

} // namespace acquit::amqp::wire
