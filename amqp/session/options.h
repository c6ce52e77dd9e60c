#pragma once

#include <acquit/amqp/wire/table.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// What the two ends of a connection want. Plain structs for designated initialisers:
///
///     session client{client_options{.user = "guest", .password = "guest", .heartbeat_s = 20}};
namespace acquit::amqp {

/// Bounds on what a peer can make us keep. All of them hold before any allocation.
struct session_limits {
    /// Bytes. A body that is announced larger is skipped as it comes and reported with
    /// `content_event::body_dropped`. 128 MiB is the largest default of any RabbitMQ
    /// (max_message_size, 3.10; 16 MiB since 4.0).
    std::uint64_t body_size_max = 128 * 1024 * 1024;
    /// Bytes, over all channels, of bodies that came in several frames and are not complete. A body
    /// that would pass it is dropped like one that is too large: 2047 channels with a body of
    /// body_size_max each would otherwise be 256 GiB.
    std::uint64_t assembled_size_max = 256 * 1024 * 1024;
    /// Channels open at once, either role, whatever channel_max was tuned. 2047 is RabbitMQ's own.
    std::uint16_t open_channels_max = 2047;
};

/// A client's side: who we are, what we ask for.
struct client_options {
    std::string user = "guest";
    std::string password = "guest"; ///< wiped from the session as soon as the login was encoded
    std::string vhost = "/";
    /// Our order of preference; the server's is random (RabbitMQ: differs per boot). Known: PLAIN,
    /// AMQPLAIN, EXTERNAL.
    std::vector<std::string> mechanisms{"PLAIN"};
    std::uint32_t frame_size_max = 131072; ///< bytes, whole frame; 0 = whatever the server offers
    std::uint16_t channel_max = 2047;      ///< 0 = whatever the server offers
    std::uint16_t heartbeat_s = 60;        ///< seconds; 0 switches heartbeats off
    std::string connection_name{};         ///< shown by RabbitMQ's tools; empty = none
    std::string locale = "en_US";
    /// Set over our own: product, version, platform, information, capabilities.
    wire::table properties{};
    session_limits limits{};
};

/// A server's side: the tests, the simulation and the stand-in server.
struct server_options {
    std::uint32_t frame_size_max = 131072; ///< the offer; 0 = no limit
    std::uint16_t channel_max = 2047;      ///< the offer; 0 = no limit
    std::uint16_t heartbeat_s = 60;        ///< the suggestion
    std::string mechanisms = "PLAIN AMQPLAIN";
    std::string locales = "en_US";
    std::string product = "RabbitMQ";
    std::string version = "4.0.5";
    /// Set over our own: product, version, platform, capabilities as RabbitMQ has them.
    wire::table properties{};
    std::vector<std::pair<std::string, std::string>> users{{"guest", "guest"}};
    std::vector<std::string> vhosts{"/"};
    session_limits limits{};
};

/// The table that a client sends in start-ok: the user's properties over ours.
[[nodiscard]] wire::table client_properties(const client_options& options);

/// The table that a server sends in start.
[[nodiscard]] wire::table server_properties(const server_options& options);

/// For logs. Never a password.
[[nodiscard]] std::string describe(const client_options& options);

/// Overwrites the characters before letting them go, in a way that the optimiser keeps.
void wipe(std::string& secret) noexcept;

} // namespace acquit::amqp
