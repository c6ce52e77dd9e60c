#pragma once

#include <acquit/amqp/session/event.h>
#include <acquit/amqp/wire/field_table.h>
#include <acquit/amqp/wire/properties.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::amqp {

/// What a publisher hands over. Everything but `body_owner` is a view: it must live until the publish returned.
struct outgoing {
    std::string_view
        exchange{}; ///< "" is the default exchange: routes to the queue named by the key
    std::string_view routing_key{}; ///< at most 255 bytes (AMQP 0-9-1 shortstr)
    /// The broker gives back (`basic.return`) what no queue takes, instead of dropping it.
    bool mandatory = false;
    wire::properties properties{};
    std::span<const std::byte> body{};
    /// Who keeps the body's memory, unchanged: then a large body (16 KiB or more) is not copied, the
    /// send gathers it from where it lies and lets go of its owner afterwards.
    std::shared_ptr<const void> body_owner{};
};

/// The same with properties that are encoded already: those of a received message, byte for byte.
struct raw_outgoing {
    std::string_view exchange{};
    std::string_view routing_key{};
    bool mandatory = false;
    std::span<const std::byte> properties{}; ///< flags and values; not empty
    std::span<const std::byte> body{};
    std::shared_ptr<const void> body_owner{}; ///< as of `outgoing`
};

/// `std::as_bytes` for text.
[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) noexcept
{
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// A message with storage of its own: what `basic.get` brings, or what was returned.
struct received {
    std::string exchange;
    std::string routing_key;
    std::uint64_t delivery_tag = 0;
    bool redelivered = false;
    std::uint32_t message_count = 0; ///< basic.get: how many are left in the queue
    std::uint16_t reply_code = 0;    ///< basic.return: why, e.g. 312 no-route
    std::string reply_text;
    std::vector<std::byte> raw_properties;
    std::vector<std::byte> body;

    /// Views into `raw_properties`.
    [[nodiscard]] wire::properties properties() const noexcept;
    [[nodiscard]] std::string_view body_text() const noexcept
    {
        return {reinterpret_cast<const char*>(body.data()), body.size()};
    }
};

/// A copy of a message that the session shows.
[[nodiscard]] received copy_of(const content_event& content);

} // namespace acquit::amqp
