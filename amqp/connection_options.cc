#include <acquit/amqp/connection_options.h>
#include <acquit/amqp/error.h>
#include <acquit/runtime/log.h>

#include <fmt/format.h>

namespace acquit::amqp {

connection_options options_from_uri(std::string_view address)
{
    auto parsed = parse_uri(address);
    if (!parsed)
        throw connection_error(fmt::format("address of the broker: {}", parsed.error));
    uri& u = parsed.address;
    if (u.tls) {
        throw connection_error(
            fmt::format("{}: this build of acquit has no TLS; use amqp://, or a local tunnel that "
                        "speaks TLS to the broker",
                        u.describe()));
    }

    for (const auto& parameter : u.unknown_parameters)
        runtime::log(runtime::log_level::warning,
                     "unknown parameter in the broker's address, ignored",
                     {{"parameter", parameter}});

    connection_options options;
    if (!u.hosts.empty())
        options.hosts = std::move(u.hosts);
    for (auto& host : options.hosts) {
        if (host.host.empty())
            host.host = "localhost";
    }
    options.unix_path = std::move(u.unix_path);
    if (u.user)
        options.session.user = *u.user;
    if (u.password)
        options.session.password = *u.password;
    if (u.vhost)
        options.session.vhost = *u.vhost;
    if (u.heartbeat_s)
        options.session.heartbeat_s = *u.heartbeat_s;
    if (u.channel_max)
        options.session.channel_max = *u.channel_max;
    if (u.connection_name)
        options.session.connection_name = *u.connection_name;
    if (!u.auth_mechanisms.empty())
        options.session.mechanisms = u.auth_mechanisms;
    if (u.connection_timeout_ms)
        options.connect_timeout = std::chrono::milliseconds(*u.connection_timeout_ms);
    return options;
}

} // namespace acquit::amqp
