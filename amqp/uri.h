#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Addresses of brokers, by the RabbitMQ URI specification (an RFC 3986 generic URI):
///
///     amqp://user:pass@host:10000/vhost?heartbeat=20&connection_timeout=5000
///     amqps://host                      TLS, port 5671
///     amqp://[::1]:5672/%2f             IPv6; the vhost "/"
///
/// Extensions of ours: several hosts, `amqp://u:p@h1,h2:5673/vhost`, tried in that order; a unix
/// socket, `amqp+unix://u:p@/path/of/socket?vhost=v` (percent-encoding applies to the path).
///
/// The whole text is checked: an unescaped `@`, `#` or `:` in a password is an error that says
/// to percent-encode it, never another host. No error text and no `describe()` holds a password.
namespace acquit::amqp {

struct host_port {
    std::string host;       ///< as written, decoded, without the brackets of IPv6; "" = not given
    std::uint16_t port = 0; ///< 5672 or 5671 (TLS) where none was given

    friend bool operator==(const host_port&, const host_port&) = default;
};

struct uri {
    bool tls = false;
    std::optional<std::string> user; ///< absent differs from empty: "amqp://@h" has an empty one
    std::optional<std::string> password;
    std::vector<host_port> hosts; ///< at least one, unless `unix_path` is set
    std::string unix_path;
    /// Absent ("amqp://h": the default "/") differs from empty ("amqp://h/": the vhost named "").
    std::optional<std::string> vhost;

    // Query parameters of the RabbitMQ specification. Absent = the default of the connection.
    std::optional<std::uint16_t> heartbeat_s;           ///< seconds
    std::optional<std::uint64_t> connection_timeout_ms; ///< milliseconds
    std::optional<std::uint16_t> channel_max;
    std::vector<std::string> auth_mechanisms; ///< "plain", "external"...: in capitals, in order
    std::string cacertfile;
    std::string certfile;
    std::string keyfile;
    std::optional<bool> verify; ///< verify_peer or verify_none
    std::optional<bool> fail_if_no_peer_cert;
    std::optional<std::string> server_name_indication; ///< "disable" switches it off: empty
    std::optional<std::string> connection_name;

    /// Names of query parameters that mean nothing here (another client's): ignored, worth a
    /// warning.
    std::vector<std::string> unknown_parameters;

    /// The URI without user and password: for logs.
    [[nodiscard]] std::string describe() const;
};

/// `error` is empty where `address` holds.
struct uri_result {
    uri address;
    std::string error;

    [[nodiscard]] explicit operator bool() const noexcept { return error.empty(); }
};

[[nodiscard]] uri_result parse_uri(std::string_view text);

/// Percent-encoding of everything but unreserved characters (RFC 3986 2.3): to build an address
/// from a user or password of any bytes.
[[nodiscard]] std::string uri_encode(std::string_view text);

} // namespace acquit::amqp
