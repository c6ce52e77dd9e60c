#pragma once

#include <acquit/amqp/wire/field_table.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

/// Content headers and the fourteen properties of the class basic (AMQP 0-9-1 4.2.6.1, 1.8.1).
///
///     0          2        4           12      14
///     +----------+--------+-----------+-------+---------------------------------+
///     | class id | weight | body size | flags | values of those that have a flag |      payload of
///     a header frame
///     +----------+--------+-----------+-------+---------------------------------+
///
/// Flags go from bit 15 (content-type) down to bit 2 (cluster-id); bit 0 says that another flag
/// word follows. Nobody defined further words; they are skipped.
namespace acquit::amqp::wire {

/// The properties, present or absent; absent is not empty. Strings are at most 255 bytes each (they
/// are short strings) and, like the table, views: of the receive buffer when decoded, of the
/// caller's memory when encoded.
///
///     properties p{.content_type = "application/json", .delivery_mode = 2};
struct properties {
    std::optional<std::string_view> content_type = {};
    std::optional<std::string_view> content_encoding = {};
    std::optional<table_view> headers = {};
    std::optional<std::uint8_t> delivery_mode = {}; ///< 1 transient, 2 persistent
    std::optional<std::uint8_t> priority = {};
    std::optional<std::string_view> correlation_id = {};
    std::optional<std::string_view> reply_to = {};
    std::optional<std::string_view> expiration = {}; ///< milliseconds, in decimal digits
    std::optional<std::string_view> message_id = {};
    std::optional<wire::timestamp> timestamp = {};
    std::optional<std::string_view> type = {};
    std::optional<std::string_view> user_id =
        {}; ///< RabbitMQ: must be the connection's user, or absent
    std::optional<std::string_view> app_id = {};
    std::optional<std::string_view> cluster_id = {}; ///< reserved by the specification
};

/// The property part of a content header, undecoded. Two words; making one checks nothing.
class properties_view {
public:
    constexpr properties_view() noexcept = default;
    /// `raw`: flags and values. An empty span stands for "no properties".
    constexpr explicit properties_view(std::span<const std::byte> raw) noexcept : raw_(raw) {}

    std::span<const std::byte> raw() const noexcept { return raw_; }

    /// All of them in one go. A fault is of content scope: the message is still deliverable; `out`
    /// then holds what was read before the fault. Bytes after the last value are ignored. The
    /// header table is not looked into.
    status decode(properties& out) const noexcept;

    /// One of them, without decoding the others; nothing when absent or not readable.
    std::optional<table_view> headers() const noexcept;

private:
    std::span<const std::byte> raw_;
};

struct content_header {
    std::uint16_t class_id = 0; ///< 60, basic, in all that is in use
    std::uint64_t body_size =
        0; ///< bytes; all 64 bits may be set, so bound it before reserving memory
    properties_view props;
};

/// `payload`: of a frame of type header. Fails (connection scope) when shorter than 14 bytes.
status decode(std::span<const std::byte> payload, content_header& out) noexcept;

/// Size of flags and values, in bytes.
std::size_t encoded_size(const properties& props) noexcept;

/// Writes flags and values alone, as a header frame holds them. Returns the bytes written, at least
/// 2; 0 when they do not fit or a string is longer than 255 bytes.
std::size_t encode(std::span<std::byte> out, const properties& props) noexcept;

/// The size of the whole header frame.
std::size_t header_frame_size(const properties& props) noexcept;
std::size_t header_frame_size(properties_view props) noexcept;

/// Writes a whole header frame of class basic. Returns the bytes written; 0 when it does not fit or
/// a string is longer than 255 bytes. A header may not be split over frames: the caller sees to
/// frame_max.
std::size_t encode_header_frame(std::span<std::byte> out, std::uint16_t channel,
                                std::uint64_t body_size, const properties& props) noexcept;
/// The same with properties as they were received, byte for byte.
std::size_t encode_header_frame(std::span<std::byte> out, std::uint16_t channel,
                                std::uint64_t body_size, properties_view props) noexcept;

} // namespace acquit::amqp::wire
