#include <acquit/amqp/session/session.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace acquit::amqp {

namespace {

// What a server may send before tuning. Its properties carry free text (cluster name, copyright),
// so 4096, which is what the specification says, is not assumed of it.
constexpr std::uint32_t start_frame_size_max = 131072;
// What a client may send before tuning (AMQP 0-9-1 4.2.3; RabbitMQ before 4.1).
constexpr std::uint32_t start_ok_frame_size_max = 4096;

constexpr std::size_t short_string_max = 255;

} // namespace

session::session(client_options options)
    : client_(true), step_(step::start), limits_(options.limits),
      client_options_(std::move(options))
{
}

session::session(server_options options)
    : state_(session_state::handshake), client_(false), step_(step::header),
      limits_(options.limits), server_options_(std::move(options))
{
}

session::~session()
{
    wipe(client_options_.password);
}

void session::start(std::uint64_t now_ns)
{
    heartbeat_.start(now_ns);
    if (client_ && state_ == session_state::idle) {
        state_ = session_state::handshake;
        const auto room = output_.reserve(wire::protocol_header.size());
        std::copy(wire::protocol_header.begin(), wire::protocol_header.end(), room.begin());
        output_.commit(wire::protocol_header.size());
    }
}

event session::next(std::span<const std::byte> input) noexcept
{
    if (next_delivery(input)) [[likely]] {
        return {event_kind::content, content_.channel, content_.consumed, 0};
    }
    return next_frame(input);
}

void session::content_is_a_delivery() noexcept
{
    content_in_input_ = true;
    content_.kind = content_kind::deliver;
    content_.mandatory = false;
    content_.immediate = false;
    content_.head_in_input = true;
    content_.body_in_input = true;
    content_.body_dropped = false;
    content_.return_code = 0;
    content_.message_count = 0;
    content_.return_text = {};
}

event session::next_frame(std::span<const std::byte> input)
{
    if (input.empty() || state_ == session_state::idle) {
        return {event_kind::need_more, 0, 0, input.size() + 1};
    }
    if (deaf_) {
        return {event_kind::nothing, 0, input.size(), 0};
    }
    if (step_ == step::header) {
        return server_header(input);
    }
    if (step_ == step::start && wire::begins_protocol_header(input)) {
        return foreign_header(input);
    }
    wire::frame_view frame;
    const auto parsed = wire::parse_frame(input, inbound_frame_max(), frame);
    if (parsed.need_more()) {
        return {event_kind::need_more, 0, 0, parsed.wanted};
    }
    if (parsed.failed()) {
        const auto failed = fail(parsed.error, input.size());
        deaf_ = true; // where the next frame begins is lost
        return failed;
    }
    if (state_ == session_state::closing || state_ == session_state::failed) {
        return after_close(frame);
    }
    switch (frame.type) {
    case wire::frame_method:
        return method_frame(frame);
    case wire::frame_header:
        return header_frame(frame);
    case wire::frame_body:
        return body_frame(frame);
    default:
        if (frame.channel != 0) { // AMQP 0-9-1 4.2.7
            return fail(wire::reply_code::frame_error, "heartbeat on a channel other than 0",
                        frame.size);
        }
        return {event_kind::nothing, 0, frame.size, 0};
    }
}

event session::method_frame(const wire::frame_view& frame)
{
    const auto id = wire::method_of(frame.payload);
    const bool of_connection = id.class_id == wire::class_connection;
    if (of_connection != (frame.channel == 0)) { // AMQP 0-9-1 4.2.3: 503
        return fail(wire::reply_code::command_invalid,
                    fmt::format("{} on channel {}", wire::method_name(id), frame.channel),
                    frame.size, id);
    }
    if (step_ != step::done) {
        return handshake_method(id, frame.payload.subspan(4), frame.size);
    }
    return of_connection ? connection_method(id, frame.payload, frame.size)
                         : channel_method(frame, id);
}

event session::connection_method(wire::method_id id, std::span<const std::byte> payload,
                                 std::size_t consumed)
{
    using namespace wire::connection;
    const auto arguments = payload.subspan(4);
    if (id == wire::id_of<wire::connection::close>) {
        return peer_closes(arguments, consumed);
    }
    if (client_ && id == wire::id_of<blocked>) {
        blocked method;
        if (const auto decoded = wire::decode(arguments, method); !decoded) {
            return fail(decoded, consumed, id);
        }
        blocked_reason_ = method.reason;
        return {event_kind::blocked, 0, consumed, 0};
    }
    if (client_ && id == wire::id_of<unblocked>) {
        blocked_reason_.clear();
        return {event_kind::unblocked, 0, consumed, 0};
    }
    if (client_ && id == wire::id_of<update_secret_ok> && secrets_pending_ != 0) {
        --secrets_pending_;
        return {event_kind::secret_updated, 0, consumed, 0};
    }
    if (!client_ && id == wire::id_of<update_secret>) {
        update_secret method;
        if (const auto decoded = wire::decode(arguments, method); !decoded) {
            return fail(decoded, consumed, id);
        }
        write(0, update_secret_ok{});
        return {event_kind::secret_updated, 0, consumed, 0};
    }
    return fail(
        wire::reply_code::command_invalid,
        fmt::format("unexpected {} ({}.{})", wire::method_name(id), id.class_id, id.method_id),
        consumed, id);
}

event session::peer_closes(std::span<const std::byte> arguments, std::size_t consumed)
{
    wire::connection::close method;
    if (const auto decoded = wire::decode(arguments, method); !decoded) {
        return fail(decoded, consumed, wire::id_of<wire::connection::close>);
    }
    write(0, wire::connection::close_ok{});
    close_ = {0,
              wire::reply_code{method.reply_code},
              std::string(method.reply_text),
              {method.failing_class_id, method.failing_method_id},
              true};
    state_ = session_state::closed;
    fast_ = false;
    deaf_ = true;
    return {event_kind::closed, 0, consumed, 0};
}

// We sent connection.close, by command or in a failure: only its end is still of interest.
event session::after_close(const wire::frame_view& frame)
{
    if (frame.type == wire::frame_method && frame.channel == 0) {
        const auto id = wire::method_of(frame.payload);
        if (id == wire::id_of<wire::connection::close>) {
            // Both closed at once: the peer waits for its answer, and ours may never come.
            return peer_closes(frame.payload.subspan(4), frame.size);
        }
        if (id == wire::id_of<wire::connection::close_ok>) {
            state_ = session_state::closed;
            deaf_ = true;
            return {event_kind::closed, 0, frame.size, 0};
        }
    }
    return {event_kind::nothing, 0, frame.size, 0};
}

event session::fail(wire::reply_code code, std::string_view detail, std::size_t consumed,
                    wire::method_id offender, wire::fault what)
{
    const auto failed = refuse(code, detail, consumed, offender, state_ == session_state::open);
    fault_.what = what;
    return failed;
}

event session::fail(const wire::status& status, std::size_t consumed, wire::method_id offender)
{
    const auto where = offender == wire::method_id{}
                           ? std::string()
                           : fmt::format("{}: ", wire::method_name(offender));
    return fail(status.code, where + wire::describe(status), consumed, offender, status.what);
}

event session::refuse(wire::reply_code code, std::string_view detail, std::size_t consumed,
                      wire::method_id offender, bool say_it)
{
    fault_ = {code, wire::fault::none, fmt::format("{} - {}", wire::reply_name(code), detail),
              offender, say_it};
    if (say_it) {
        write_close(code, fault_.text, offender);
    } else {
        deaf_ = true;
    }
    state_ = session_state::failed;
    fast_ = false;
    return {event_kind::failed, 0, consumed, 0};
}

void session::write_close(wire::reply_code code, std::string_view text, wire::method_id offender)
{
    text = text.substr(0, short_string_max);
    write(0, wire::connection::close{.reply_code = static_cast<std::uint16_t>(code),
                                     .reply_text = text,
                                     .failing_class_id = offender.class_id,
                                     .failing_method_id = offender.method_id});
    close_ = {0, code, std::string(text), offender, false};
}

send_status session::close(wire::reply_code code, std::string_view text, wire::method_id offender)
{
    switch (state_) {
    case session_state::idle:
    case session_state::handshake:
        // Before open and open-ok nothing may be said, the socket is closed (AMQP 0-9-1 2.2.4).
        close_ = {0, code, std::string(text), offender, false};
        state_ = session_state::closed;
        deaf_ = true;
        return send_status::sent;
    case session_state::open:
        write_close(code, text, offender);
        state_ = session_state::closing;
        fast_ = false;
        return send_status::sent;
    default:
        return send_status::connection_not_open;
    }
}

std::uint32_t session::inbound_frame_max() const noexcept
{
    if (tuned_.frame_size_max != 0) {
        return tuned_.frame_size_max;
    }
    return client_ ? start_frame_size_max : start_ok_frame_size_max;
}

send_status session::may_send(std::uint16_t channel) const noexcept
{
    if (!is_open()) {
        return send_status::connection_not_open;
    }
    return channels_.state(channel) == channel_state::open ? send_status::sent
                                                           : send_status::channel_not_open;
}

send_status session::send_update_secret(std::string_view secret, std::string_view reason)
{
    if (!is_open()) {
        return send_status::connection_not_open;
    }
    if (!client_) {
        return send_status::bad_argument;
    }
    const auto status =
        write_method(0, wire::connection::update_secret{.new_secret = secret, .reason = reason});
    secrets_pending_ += status == send_status::sent ? 1 : 0;
    return status;
}

send_status session::send_blocked(std::string_view reason)
{
    if (!is_open()) {
        return send_status::connection_not_open;
    }
    return client_ ? send_status::bad_argument
                   : write_method(0, wire::connection::blocked{.reason = reason});
}

send_status session::send_unblocked()
{
    if (!is_open()) {
        return send_status::connection_not_open;
    }
    return client_ ? send_status::bad_argument : write_method(0, wire::connection::unblocked{});
}

session::tick_result session::tick(std::uint64_t now_ns)
{
    if (state_ == session_state::closed) {
        return {};
    }
    const bool may_write = state_ == session_state::handshake || state_ == session_state::open;
    if (heartbeat_.beat_due(now_ns)) {
        // What waits in the output tells the peer as much, and a peer that does not read must not
        // make the output grow.
        if (may_write && output_.pending() == 0) {
            output_.commit(wire::encode_heartbeat(output_.reserve(wire::frame_overhead)));
        }
        heartbeat_.note_output(now_ns);
    }
    return {heartbeat_.peer_dead(now_ns), heartbeat_.next_ns(now_ns)};
}

wire::table_view session::peer_properties() const noexcept
{
    return wire::table_view(peer_properties_);
}

namespace {

std::string text_of(wire::table_view table, std::string_view name)
{
    const auto value = table.find(name);
    return std::string(value ? value->as_string().value_or("") : "");
}

} // namespace

std::string session::server_version() const
{
    return text_of(peer_properties(), "version");
}

std::string session::server_product() const
{
    return text_of(peer_properties(), "product");
}

bool session::server_has(std::string_view capability) const noexcept
{
    const auto capabilities = peer_properties().find("capabilities");
    const auto table = capabilities ? capabilities->as_table() : std::nullopt;
    const auto value = table ? table->find(capability) : std::nullopt;
    return value && value->as_bool().value_or(false);
}

} // namespace acquit::amqp
