#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/reader.h>
#include <acquit/amqp/wire/writer.h>

namespace acquit::amqp::wire {

namespace {

constexpr unsigned more_flags = 1;
constexpr std::size_t header_fixed_size = 12; // class id, weight, body size

// The first flag word; further ones are skipped, there can be no more of them than bytes.
unsigned read_flags(reader& in) noexcept
{
    unsigned flags = in.u16();
    for (auto word = flags; (word & more_flags) != 0 && in.ok();)
        word = in.u16();
    return flags;
}

// The properties in the order of their flags, from bit 15 down.
template <class Properties, class F>
void for_each_property(Properties& p, F&& f) noexcept
{
    f(p.content_type);
    f(p.content_encoding);
    f(p.headers);
    f(p.delivery_mode);
    f(p.priority);
    f(p.correlation_id);
    f(p.reply_to);
    f(p.expiration);
    f(p.message_id);
    f(p.timestamp);
    f(p.type);
    f(p.user_id);
    f(p.app_id);
    f(p.cluster_id);
}

void read_value(reader& in, std::string_view& out) noexcept
{
    out = in.shortstr();
}
void read_value(reader& in, table_view& out) noexcept
{
    out = in.table();
}
void read_value(reader& in, std::uint8_t& out) noexcept
{
    out = in.u8();
}
void read_value(reader& in, timestamp& out) noexcept
{
    out = timestamp{in.u64()};
}

void write_value(writer& out, std::string_view value) noexcept
{
    out.shortstr(value);
}
void write_value(writer& out, table_view value) noexcept
{
    out.table(value);
}
void write_value(writer& out, std::uint8_t value) noexcept
{
    out.u8(value);
}
void write_value(writer& out, timestamp value) noexcept
{
    out.u64(value.seconds);
}

std::size_t value_size(std::string_view value) noexcept
{
    return 1 + value.size();
}
std::size_t value_size(table_view value) noexcept
{
    return 4 + value.raw().size();
}
std::size_t value_size(std::uint8_t) noexcept
{
    return 1;
}
std::size_t value_size(timestamp) noexcept
{
    return 8;
}

void write_properties(writer& out, const properties& props) noexcept
{
    unsigned flags = 0;
    unsigned bit = 0x8000;
    for_each_property(props, [&](const auto& property) {
        if (property)
            flags |= bit;
        bit >>= 1;
    });
    out.u16(static_cast<std::uint16_t>(flags));
    for_each_property(props, [&](const auto& property) {
        if (property)
            write_value(out, *property);
    });
}

template <class WriteProperties>
std::size_t encode_header(std::span<std::byte> out, std::uint16_t channel, std::uint64_t body_size,
                          WriteProperties&& write) noexcept
{
    return build_frame(out, frame_header, channel, [&](writer& w) {
        w.u16(class_basic);
        w.u16(0);
        w.u64(body_size);
        write(w);
    });
}

} // namespace

status properties_view::decode(properties& out) const noexcept
{
    out = {};
    if (raw_.empty())
        return {};
    reader in(raw_);
    auto flags = read_flags(in);
    unsigned bit = 0x8000;
    for_each_property(out, [&](auto& property) {
        if ((flags & bit) != 0 && in.ok()) {
            read_value(in, property.emplace());
            if (!in.ok())
                property.reset();
        }
        bit >>= 1;
    });
    return in.ok() ? status{} : failure(fault::truncated, fault_scope::content);
}

std::optional<table_view> properties_view::headers() const noexcept
{
    if (raw_.empty())
        return std::nullopt;
    reader in(raw_);
    auto flags = read_flags(in);
    if ((flags & 0x2000) == 0)
        return std::nullopt;
    if ((flags & 0x8000) != 0)
        in.shortstr(); // content type
    if ((flags & 0x4000) != 0)
        in.shortstr(); // content encoding
    auto table = in.table();
    return in.ok() ? std::optional(table) : std::nullopt;
}

status decode(std::span<const std::byte> payload, content_header& out) noexcept
{
    reader in(payload);
    out.class_id = in.u16();
    in.u16(); // weight: unused, zero (AMQP 0-9-1 4.2.6.1)
    out.body_size = in.u64();
    out.props = properties_view(in.rest());
    return in.remaining() >= 2 ? status{} : failure(fault::truncated);
}

std::size_t encoded_size(const properties& props) noexcept
{
    std::size_t size = 2;
    for_each_property(props, [&](const auto& property) {
        if (property)
            size += value_size(*property);
    });
    return size;
}

std::size_t encode(std::span<std::byte> out, const properties& props) noexcept
{
    writer w(out);
    write_properties(w, props);
    return w.ok() ? w.size() : 0;
}

std::size_t header_frame_size(const properties& props) noexcept
{
    return frame_overhead + header_fixed_size + encoded_size(props);
}

std::size_t header_frame_size(properties_view props) noexcept
{
    return frame_overhead + header_fixed_size + (props.raw().empty() ? 2 : props.raw().size());
}

std::size_t encode_header_frame(std::span<std::byte> out, std::uint16_t channel,
                                std::uint64_t body_size, const properties& props) noexcept
{
    return encode_header(out, channel, body_size, [&](writer& w) { write_properties(w, props); });
}

std::size_t encode_header_frame(std::span<std::byte> out, std::uint16_t channel,
                                std::uint64_t body_size, properties_view props) noexcept
{
    return encode_header(out, channel, body_size, [&](writer& w) {
        if (props.raw().empty())
            w.u16(0);
        else
            w.bytes(props.raw());
    });
}

} // namespace acquit::amqp::wire
