/// Which delivery of a message this is: 1 for the first.
///
/// Two parties count. We count copies, in a header of our own (decimal text, wire-compatible with
/// existing services); RabbitMQ's quorum queues count returns, in `x-delivery-count`. The attempt is
/// the larger one: a message that was copied and then returned was tried both times.
#pragma once

#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace acquit::settle {

inline constexpr std::string_view default_counter_header = "x-ruststream-retry-count";
inline constexpr std::string_view server_counter_header = "x-delivery-count";

/// The copies counted so far: 0 when the header is absent, is not a long string or is not decimal
/// text. A number beyond 32 bits counts as the largest one.
[[nodiscard]] std::uint32_t
copies_counted(amqp::wire::table_view headers,
               std::string_view counter_header = default_counter_header) noexcept;

/// The attempt. `x-delivery-count` may have any integer type; it only counts on a redelivery, since
/// on a first delivery it can only be what the publisher sent (RabbitMQ passes that on untouched).
[[nodiscard]] std::uint32_t
attempt_of(amqp::wire::table_view headers, bool redelivered,
           std::string_view counter_header = default_counter_header) noexcept;

} // namespace acquit::settle
