#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace acquit::amqp::detail {

/// Where a message was to go, for errors.
[[nodiscard]] inline std::string destination(std::string_view exchange,
                                             std::string_view routing_key)
{
    return exchange.empty() ? fmt::format("queue \"{}\"", routing_key)
                            : fmt::format("exchange \"{}\", key \"{}\"", exchange, routing_key);
}

} // namespace acquit::amqp::detail
