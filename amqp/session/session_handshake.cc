#include <acquit/amqp/session/mechanism.h>
#include <acquit/amqp/session/session.h>

#include <fmt/format.h>

#include <algorithm>

/// The beginning of a connection (AMQP 0-9-1 2.2.4), both ends:
///
///     client                               server
///     "AMQP" 0 0 9 1        -->
///                           <--            start (properties, mechanisms)
///     start-ok (login)      -->
///                           <--            tune (limits)
///     tune-ok, open (vhost) -->
///                           <--            open-ok
namespace acquit::amqp {

namespace {

// A frame before tuning (AMQP 0-9-1 4.2.3; RabbitMQ before 4.1 resets a connection whose start-ok
// is larger, three seconds later and without a word).
constexpr std::size_t start_ok_frame_size_max = 4096;

} // namespace

event session::server_header(std::span<const std::byte> input)
{
    const auto expected = std::span(wire::protocol_header);
    const auto here = std::min(input.size(), expected.size());
    if (!std::equal(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(here),
                    expected.begin())) {
        // AMQP 0-9-1 4.2.2: answer with the version that is spoken here, and close the socket.
        const auto room = output_.reserve(expected.size());
        std::copy(expected.begin(), expected.end(), room.begin());
        output_.commit(expected.size());
        return refuse(wire::reply_code::not_implemented, "not the protocol header of AMQP 0-9-1",
                      input.size(), {}, false);
    }
    if (here < expected.size()) {
        return {event_kind::need_more, 0, 0, expected.size()};
    }
    const auto properties = amqp::server_properties(server_options_);
    write(0, wire::connection::start{.server_properties = properties.view(),
                                     .mechanisms = server_options_.mechanisms,
                                     .locales = server_options_.locales});
    step_ = step::start_ok;
    return {event_kind::nothing, 0, expected.size(), 0};
}

event session::foreign_header(std::span<const std::byte> input)
{
    if (input.size() < wire::protocol_header.size()) {
        return {event_kind::need_more, 0, 0, wire::protocol_header.size()};
    }
    const auto number = [&](std::size_t at) { return std::to_integer<unsigned>(input[at]); };
    return refuse(wire::reply_code::not_implemented,
                  fmt::format("the server does not speak AMQP 0-9-1 but offers AMQP {}.{}.{}.{}",
                              number(4), number(5), number(6), number(7)),
                  input.size(), {}, false);
}

event session::handshake_method(wire::method_id id, std::span<const std::byte> arguments,
                                std::size_t consumed)
{
    using namespace wire::connection;
    if (id == wire::id_of<wire::connection::close>) {
        return peer_closes(arguments, consumed);
    }
    switch (step_) {
    case step::start:
        if (id == wire::id_of<wire::connection::start>) {
            return on_start(arguments, consumed);
        }
        break;
    case step::start_ok:
        if (id == wire::id_of<start_ok>) {
            return on_start_ok(arguments, consumed);
        }
        break;
    case step::tune:
        if (id == wire::id_of<tune>) {
            return on_tune(arguments, consumed);
        }
        if (id == wire::id_of<secure>) {
            return refuse(
                wire::reply_code::not_implemented,
                fmt::format("the server asks a second question of mechanism {}", mechanism_),
                consumed, id, false);
        }
        break;
    case step::tune_ok:
        if (id == wire::id_of<tune_ok>) {
            return on_tune_ok(arguments, consumed);
        }
        break;
    case step::open:
        if (id == wire::id_of<open>) {
            return on_open(arguments, consumed);
        }
        break;
    case step::open_ok:
        if (id == wire::id_of<open_ok>) {
            return opened(consumed);
        }
        break;
    case step::header:
    case step::done:
        break;
    }
    return fail(wire::reply_code::command_invalid,
                fmt::format("unexpected {} ({}.{}) during the handshake", wire::method_name(id),
                            id.class_id, id.method_id),
                consumed, id);
}

event session::on_start(std::span<const std::byte> arguments, std::size_t consumed)
{
    const auto id = wire::id_of<wire::connection::start>;
    wire::connection::start method;
    if (const auto decoded = wire::decode(arguments, method); !decoded) {
        return fail(decoded, consumed, id);
    }
    if (method.version_major != 0 || method.version_minor != 9) {
        return refuse(
            wire::reply_code::not_implemented,
            fmt::format("the server speaks AMQP {}.{}", method.version_major, method.version_minor),
            consumed, id, false);
    }
    const auto raw = method.server_properties.raw();
    peer_properties_.assign(raw.begin(), raw.end());

    const auto mechanism = choose_mechanism(client_options_.mechanisms, method.mechanisms);
    if (!mechanism) {
        return refuse(wire::reply_code::access_refused,
                      fmt::format("no authentication mechanism in common: the server has {}",
                                  method.mechanisms),
                      consumed, id, false);
    }
    mechanism_ = *mechanism;
    auto response = mechanism_response(mechanism_, client_options_.user, client_options_.password);
    wipe(client_options_.password);
    if (!response) {
        return refuse(wire::reply_code::access_refused,
                      fmt::format("user or password cannot be sent by {}", mechanism_), consumed,
                      id, false);
    }
    const auto properties = client_properties(client_options_);
    const wire::connection::start_ok answer{.client_properties = properties.view(),
                                            .mechanism = mechanism_,
                                            .response = *response,
                                            .locale = client_options_.locale};
    const auto size = wire::encoded_size(answer);
    const bool written = size <= start_ok_frame_size_max && write(0, answer);
    wipe(*response);
    if (!written) {
        return refuse(wire::reply_code::not_allowed,
                      fmt::format("start-ok of {} bytes is above the {} that servers take: "
                                  "client properties or credentials are too long",
                                  size, start_ok_frame_size_max),
                      consumed, id, false);
    }
    step_ = step::tune;
    return {event_kind::nothing, 0, consumed, 0};
}

event session::on_start_ok(std::span<const std::byte> arguments, std::size_t consumed)
{
    const auto id = wire::id_of<wire::connection::start_ok>;
    wire::connection::start_ok method;
    if (const auto decoded = wire::decode(arguments, method); !decoded) {
        return fail(decoded, consumed, id);
    }
    const auto raw = method.client_properties.raw();
    peer_properties_.assign(raw.begin(), raw.end());
    mechanism_ = method.mechanism;

    const bool offered =
        choose_mechanism({mechanism_}, server_options_.mechanisms) == method.mechanism;
    auto login = offered ? read_response(mechanism_, method.response) : std::nullopt;
    const auto& users = server_options_.users;
    const bool known = login && std::find(users.begin(), users.end(),
                                          std::pair{login->user, login->password}) != users.end();
    if (login) {
        user_ = login->user;
        wipe(login->password);
    }
    if (!known) {
        // RabbitMQ: says so where the client understands it, else lets the socket die.
        return refuse(wire::reply_code::access_refused,
                      fmt::format("Login was refused using authentication mechanism {}. For "
                                  "details see the broker logfile.",
                                  mechanism_),
                      consumed, {}, offered && server_has("authentication_failure_close"));
    }
    write(0, wire::connection::tune{.channel_max = server_options_.channel_max,
                                    .frame_max = server_options_.frame_size_max,
                                    .heartbeat = server_options_.heartbeat_s});
    step_ = step::tune_ok;
    return {event_kind::nothing, 0, consumed, 0};
}

event session::on_tune(std::span<const std::byte> arguments, std::size_t consumed)
{
    const auto id = wire::id_of<wire::connection::tune>;
    wire::connection::tune method;
    if (const auto decoded = wire::decode(arguments, method); !decoded) {
        return fail(decoded, consumed, id);
    }
    const auto agreed = negotiate(
        {client_options_.frame_size_max, client_options_.channel_max, client_options_.heartbeat_s},
        {method.frame_max, method.channel_max, method.heartbeat});
    if (!agreed) {
        return refuse(wire::reply_code::not_allowed, agreed.refusal, consumed, id, false);
    }
    const wire::connection::open open{.virtual_host = client_options_.vhost};
    if (client_options_.vhost.size() > 255) {
        return refuse(wire::reply_code::invalid_path, "the vhost is longer than 255 bytes",
                      consumed, id, false);
    }
    write(0, wire::connection::tune_ok{.channel_max = agreed.result.channel_max,
                                       .frame_max = agreed.result.frame_size_max,
                                       .heartbeat = agreed.result.heartbeat_s});
    write(0, open);
    vhost_ = client_options_.vhost;
    adopt(agreed.result);
    step_ = step::open_ok;
    return {event_kind::nothing, 0, consumed, 0};
}

event session::on_tune_ok(std::span<const std::byte> arguments, std::size_t consumed)
{
    const auto id = wire::id_of<wire::connection::tune_ok>;
    wire::connection::tune_ok method;
    if (const auto decoded = wire::decode(arguments, method); !decoded) {
        return fail(decoded, consumed, id);
    }
    const auto agreed = accept(
        {server_options_.frame_size_max, server_options_.channel_max, server_options_.heartbeat_s},
        {method.frame_max, method.channel_max, method.heartbeat});
    if (!agreed) {
        return refuse(wire::reply_code::not_allowed, agreed.refusal, consumed, id, false);
    }
    adopt(agreed.result);
    step_ = step::open;
    return {event_kind::nothing, 0, consumed, 0};
}

event session::on_open(std::span<const std::byte> arguments, std::size_t consumed)
{
    const auto id = wire::id_of<wire::connection::open>;
    wire::connection::open method;
    if (const auto decoded = wire::decode(arguments, method); !decoded) {
        return fail(decoded, consumed, id);
    }
    vhost_ = method.virtual_host;
    const auto& vhosts = server_options_.vhosts;
    if (std::find(vhosts.begin(), vhosts.end(), vhost_) == vhosts.end()) {
        return refuse(wire::reply_code::not_allowed, fmt::format("vhost {} not found", vhost_),
                      consumed, id, true);
    }
    write(0, wire::connection::open_ok{});
    return opened(consumed);
}

event session::opened(std::size_t consumed)
{
    step_ = step::done;
    state_ = session_state::open;
    fast_ = client_;
    return {event_kind::opened, 0, consumed, 0};
}

void session::adopt(const amqp::tuned& agreed)
{
    tuned_ = agreed;
    // The tune-ok that goes out with this is a sign of life already; the first heartbeat follows
    // half an interval after it, by the new interval and not by an older timer (c5).
    heartbeat_.interval(agreed.heartbeat_s);
}

} // namespace acquit::amqp
