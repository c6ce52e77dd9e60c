#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// SASL mechanisms, each a pair of pure functions: what the client answers and how a server reads
/// it.
///
/// * PLAIN: "\0user\0password" (RFC 4616).
/// * AMQPLAIN: a field table without its length, LOGIN and PASSWORD as long strings (RabbitMQ).
/// * EXTERNAL: an empty response; the transport knows who it is (RabbitMQ: client certificate).
namespace acquit::amqp {

struct credentials {
    std::string user;
    std::string password;
};

/// The first of `wanted` that we know and that the server's space separated list offers, or
/// nothing.
[[nodiscard]] std::optional<std::string_view>
choose_mechanism(const std::vector<std::string>& wanted, std::string_view offered) noexcept;

/// The response of start-ok. Nothing for an unknown mechanism or a user or password that it cannot
/// carry (PLAIN: no zero byte in either). The caller wipes it.
[[nodiscard]] std::optional<std::string>
mechanism_response(std::string_view mechanism, std::string_view user, std::string_view password);

/// Nothing when the response is malformed or the mechanism unknown.
[[nodiscard]] std::optional<credentials> read_response(std::string_view mechanism,
                                                       std::string_view response);

} // namespace acquit::amqp
