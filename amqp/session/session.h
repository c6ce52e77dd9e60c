#pragma once

#include <acquit/amqp/session/channel_table.h>
#include <acquit/amqp/session/event.h>
#include <acquit/amqp/session/heartbeat.h>
#include <acquit/amqp/session/options.h>
#include <acquit/amqp/session/output.h>
#include <acquit/amqp/session/tuning.h>
#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::amqp {

/// One end of an AMQP 0-9-1 connection, without the connection: bytes in -> events, commands ->
/// bytes out. It has no socket, no clock, no coroutine and throws nothing of its own; it serves the
/// client and the server.
///
///     session client{client_options{.user = "guest"}};
///     client.start(now_ns);
///     for (;;) {
///         write(socket, client.output());
///         auto input = receive(socket);
///         client.note_input(now_ns);
///         for (;;) {
///             auto event = client.next(input);
///             input = input.subspan(event.consumed);
///             if (event.kind == event_kind::need_more) break;   // event.wanted bytes in one piece
///             if (event.kind == event_kind::content) handle(client.content());
///         }
///     }
///
/// What it keeps in order by itself: the handshake, tuning, the numbers and states of channels, the
/// frames of a message, replies to close, heartbeats. What it leaves to the owner: which reply
/// belongs to which request, consumers, confirms, deadlines, reconnecting (with a new session: a
/// session is used for one connection and holds nothing of an earlier one).
///
/// Invariants:
/// * The same bytes give the same events however they are cut into calls (only the two
///   `..._in_input` flags and the moment differ).
/// * Nothing is written for a channel after its close but close-ok, nothing on the connection after
///   its close but close-ok.
/// * Memory that a peer can make us hold is bounded by `session_limits`. Replies to close are
/// small,
///   but an owner that never sends must stop reading at a bound of `output().pending()`.
class session {
public:
    explicit session(client_options options);
    explicit session(server_options options);
    session(const session&) = delete;
    session& operator=(const session&) = delete;
    ~session();

    // ---- bytes in -----------------------------------------------------------------------------

    /// Handles at most one event. `input` begins where the last call stopped consuming. Never waits
    /// for bytes of a frame that is already known to be wrong. After `closed` or `failed` (and a
    /// lost frame boundary) everything is consumed and nothing said.
    [[nodiscard]] event next(std::span<const std::byte> input) noexcept;

    /// Each valid until the next call of `next`, after the event that it belongs to.
    [[nodiscard]] const method_event& method() const noexcept { return method_; }
    [[nodiscard]] const content_event& content() const noexcept { return content_; }
    [[nodiscard]] const close_event& close_info() const noexcept { return close_; }
    [[nodiscard]] std::string_view blocked_reason() const noexcept { return blocked_reason_; }

    /// The body of `content()` when it was assembled here (neither in input nor dropped); the spans
    /// of `content()` then point into the result. Empty otherwise.
    [[nodiscard]] std::vector<std::byte> take_body() noexcept;

    /// After `failed`: what was wrong, with the reply code of the specification. Where the
    /// connection was open, connection.close with that code is in the output; during the handshake
    /// nothing is written and the owner closes the socket (AMQP 0-9-1 2.2.4).
    [[nodiscard]] const fault_event& fault() const noexcept { return fault_; }
    [[nodiscard]] std::string_view fault_text() const noexcept { return fault_.text; }

    /// The common case of `next`, and nothing else: true when the input begins with a whole delivery
    /// in single frames, which `content()` shows; its `consumed` says how many bytes they are. False:
    /// ask `next`.
    [[nodiscard]] event next_other(std::span<const std::byte> input) noexcept
    {
        return next_frame(input);
    }
    [[nodiscard]] bool next_delivery(std::span<const std::byte> input) noexcept
    {
        if (finished_channel_ != 0) [[unlikely]]
            release_finished();
        if (!fast_ || !wire::parse_delivery(input, tuned_.frame_size_max, content_) ||
            !channels_.open_and_idle(content_.channel) ||
            content_.body.size() > limits_.body_size_max) [[unlikely]]
            return false;
        if (!content_in_input_) [[unlikely]]
            content_is_a_delivery();
        content_.body_size = content_.body.size();
        return true;
    }

    // ---- commands -----------------------------------------------------------------------------

    /// Client: writes the protocol header. Server: only starts the clock.
    void start(std::uint64_t now_ns);

    /// Client only. `bad_argument`: 0, above the tuned channel_max, in use, or too many channels.
    send_status open_channel(std::uint16_t channel);
    /// Everything that still comes for the channel is skipped, until `channel_close_ok`.
    send_status close_channel(std::uint16_t channel,
                              wire::reply_code code = wire::reply_code::success,
                              std::string_view text = {}, wire::method_id offender = {});
    /// Everything that still comes is skipped, until `closed`. Also during the handshake, where it
    /// writes nothing: the state is `closed` at once and the owner closes the socket.
    send_status close(wire::reply_code code = wire::reply_code::success, std::string_view text = {},
                      wire::method_id offender = {});

    /// Any method of an open channel that carries no content.
    template <class M>
    send_status send(std::uint16_t channel, const M& method)
    {
        static_assert(!M::content, "use send_content");
        static_assert(M::class_id != wire::connection::start::class_id,
                      "the session itself speaks on channel 0");
        static_assert(M::class_id != wire::channel::open::class_id ||
                          M::method_id == wire::channel::flow::method_id ||
                          M::method_id == wire::channel::flow_ok::method_id,
                      "use open_channel and close_channel");
        if (const auto status = may_send(channel); status != send_status::sent) {
            return status;
        }
        return write_method(channel, method);
    }

    /// A message: method, header, and as many body frames as the tuned frame_size_max asks for. All
    /// or nothing. The body is copied; one of `shared_body_size_min` bytes or more with an owner is
    /// not, its owner is kept until it was sent (`output_buffer::share`).
    static constexpr std::size_t shared_body_size_min = 16 * 1024;
    send_status send_content(std::uint16_t channel, const wire::basic::publish& method,
                             const wire::properties& properties, std::span<const std::byte> body,
                             const std::shared_ptr<const void>& owner = nullptr);
    send_status send_content(std::uint16_t channel, const wire::basic::deliver& method,
                             const wire::properties& properties, std::span<const std::byte> body);
    send_status send_content(std::uint16_t channel, const wire::basic::get_ok& method,
                             const wire::properties& properties, std::span<const std::byte> body);
    send_status send_content(std::uint16_t channel, const wire::basic::return_& method,
                             const wire::properties& properties, std::span<const std::byte> body);

    /// The same with properties as they came, flags included: `content_event::properties`.
    send_status send_raw_content(std::uint16_t channel, const wire::basic::publish& method,
                                 std::span<const std::byte> properties,
                                 std::span<const std::byte> body,
                                 const std::shared_ptr<const void>& owner = nullptr);
    send_status send_raw_content(std::uint16_t channel, const wire::basic::deliver& method,
                                 std::span<const std::byte> properties,
                                 std::span<const std::byte> body);
    send_status send_raw_content(std::uint16_t channel, const wire::basic::get_ok& method,
                                 std::span<const std::byte> properties,
                                 std::span<const std::byte> body);
    send_status send_raw_content(std::uint16_t channel, const wire::basic::return_& method,
                                 std::span<const std::byte> properties,
                                 std::span<const std::byte> body);

    /// Client: a new password or token; `secret_updated` follows. RabbitMQ extension.
    send_status send_update_secret(std::string_view secret, std::string_view reason);
    /// Server: connection.blocked and unblocked.
    send_status send_blocked(std::string_view reason);
    send_status send_unblocked();

    /// Frames of open channels may also be written directly (settlements are); the owner checks
    /// `channel()` first.
    [[nodiscard]] output_buffer& output() noexcept { return output_; }
    [[nodiscard]] const output_buffer& output() const noexcept { return output_; }

    // ---- time ---------------------------------------------------------------------------------

    struct tick_result {
        bool peer_dead = false;           ///< two intervals of silence: drop the socket at once
        std::uint64_t next_ns = never_ns; ///< call again then
    };

    /// Writes a heartbeat when one is due and nothing else waits in the output. Read the socket
    /// before believing `peer_dead`: a process that was stopped finds its bytes there.
    tick_result tick(std::uint64_t now_ns);
    /// When `tick` is due; changes at tuning, so look again after `next` during the handshake.
    [[nodiscard]] std::uint64_t next_tick_ns() const noexcept { return heartbeat_.next_ns(0); }
    /// Bytes came in, whatever they are.
    void note_input(std::uint64_t now_ns) noexcept { heartbeat_.note_input(now_ns); }
    /// Bytes went out.
    void note_output(std::uint64_t now_ns) noexcept { heartbeat_.note_output(now_ns); }

    // ---- state --------------------------------------------------------------------------------

    [[nodiscard]] session_state state() const noexcept { return state_; }
    [[nodiscard]] bool is_open() const noexcept { return state_ == session_state::open; }
    [[nodiscard]] bool is_client() const noexcept { return client_; }
    [[nodiscard]] channel_state channel(std::uint16_t channel) const noexcept
    {
        return is_open() ? channels_.state(channel) : channel_state::closed;
    }
    /// Lowest number that open_channel would take; 0 = none.
    [[nodiscard]] std::uint16_t free_channel() noexcept;
    [[nodiscard]] std::uint32_t channels_in_use() const noexcept { return channels_.in_use(); }
    /// Holds from tuning on.
    [[nodiscard]] const amqp::tuned& tuned() const noexcept { return tuned_; }

    /// What the peer said of itself, in start or start-ok. Owned by the session.
    [[nodiscard]] wire::table_view peer_properties() const noexcept;
    [[nodiscard]] wire::table_view server_properties() const noexcept { return peer_properties(); }
    /// "" when the peer did not say.
    [[nodiscard]] std::string server_version() const;
    [[nodiscard]] std::string server_product() const;
    /// A name in the table `capabilities` of the peer's properties, such as "basic.nack".
    [[nodiscard]] bool server_has(std::string_view capability) const noexcept;
    /// The mechanism that the login used; "" before.
    [[nodiscard]] std::string_view mechanism() const noexcept { return mechanism_; }
    /// Server: who logged in, and to which vhost.
    [[nodiscard]] std::string_view user() const noexcept { return user_; }
    [[nodiscard]] std::string_view vhost() const noexcept { return vhost_; }

private:
    /// Where the handshake stands: what may come next.
    enum class step : std::uint8_t {
        header,   // server: "AMQP" 0 0 9 1
        start,    // client
        start_ok, // server
        tune,     // client
        tune_ok,  // server
        open,     // server
        open_ok,  // client
        done
    };

    // session.cc
    event next_frame(std::span<const std::byte> input);
    event method_frame(const wire::frame_view& frame);
    event connection_method(wire::method_id id, std::span<const std::byte> payload,
                            std::size_t consumed);
    event peer_closes(std::span<const std::byte> arguments, std::size_t consumed);
    event after_close(const wire::frame_view& frame);
    event fail(wire::reply_code code, std::string_view detail, std::size_t consumed,
               wire::method_id offender = {}, wire::fault what = wire::fault::none);
    event fail(const wire::status& status, std::size_t consumed, wire::method_id offender = {});
    event refuse(wire::reply_code code, std::string_view detail, std::size_t consumed,
                 wire::method_id offender, bool say_it);
    void write_close(wire::reply_code code, std::string_view text, wire::method_id offender);
    [[nodiscard]] std::uint32_t inbound_frame_max() const noexcept;
    [[nodiscard]] send_status may_send(std::uint16_t channel) const noexcept;

    // session_channels.cc
    event channel_method(const wire::frame_view& frame, wire::method_id id);
    event open_channel_method(const wire::frame_view& frame, wire::method_id id);
    event peer_opens_channel(const wire::frame_view& frame);
    event peer_closes_channel(const wire::frame_view& frame, channel_state after);

    // session_handshake.cc
    event server_header(std::span<const std::byte> input);
    event foreign_header(std::span<const std::byte> input);
    event handshake_method(wire::method_id id, std::span<const std::byte> arguments,
                           std::size_t consumed);
    event on_start(std::span<const std::byte> arguments, std::size_t consumed);
    event on_start_ok(std::span<const std::byte> arguments, std::size_t consumed);
    event on_tune(std::span<const std::byte> arguments, std::size_t consumed);
    event on_tune_ok(std::span<const std::byte> arguments, std::size_t consumed);
    event on_open(std::span<const std::byte> arguments, std::size_t consumed);
    event opened(std::size_t consumed);
    void adopt(const amqp::tuned& agreed);

    // session_content.cc
    event begin_content(const wire::frame_view& frame, wire::method_id id);
    event header_frame(const wire::frame_view& frame);
    event body_frame(const wire::frame_view& frame);
    event finish_content(assembly& half, std::uint16_t channel, std::size_t consumed);
    [[nodiscard]] std::optional<event> content_frame_out_of_place(const wire::frame_view& frame);
    void drop_body(assembly& half) noexcept;
    void release_finished() noexcept;
    void forget_half_message(std::uint16_t channel) noexcept;
    template <class M, class Properties>
    send_status write_content(std::uint16_t channel, const M& method, const Properties& properties,
                              std::span<const std::byte> body,
                              const std::shared_ptr<const void>& owner = nullptr);
    void share_body(std::uint16_t channel, std::span<const std::byte> body, std::size_t payload_max,
                    const std::shared_ptr<const void>& owner);

    /// A frame of the session's own, outside every limit but its fields'. False: a short string is
    /// too long.
    template <class M>
    bool write(std::uint16_t channel, const M& method)
    {
        const auto written =
            wire::encode_frame(output_.reserve(wire::encoded_size(method)), channel, method);
        output_.commit(written);
        return written != 0;
    }

    template <class M>
    send_status write_method(std::uint16_t channel, const M& method)
    {
        if (wire::encoded_size(method) > tuned_.frame_size_max) {
            return send_status::too_large;
        }
        return write(channel, method) ? send_status::sent : send_status::bad_argument;
    }

    [[gnu::cold]] void content_is_a_delivery() noexcept;

    // What next() touches for every delivery comes first.
    session_state state_ = session_state::idle;
    bool fast_ = false;             // open, client: deliveries may take the fast path
    bool content_in_input_ = false; // all of content_ that no delivery changes is as in one
    bool client_;
    bool deaf_ = false; // nothing after this point is looked at
    step step_ = step::start;
    std::uint16_t finished_channel_ = 0; // its assembly holds the body of content_
    amqp::tuned tuned_;
    channel_table channels_;
    content_event content_;

    output_buffer output_;
    heartbeat_clock heartbeat_;
    session_limits limits_;
    std::uint64_t assembled_ = 0; // bytes in half messages, all channels
    method_event method_;
    close_event close_;
    fault_event fault_;
    std::uint32_t secrets_pending_ = 0;
    std::string blocked_reason_;
    std::string mechanism_;
    std::string user_;
    std::string vhost_;
    std::vector<std::byte> peer_properties_;
    client_options client_options_;
    server_options server_options_;
};

} // namespace acquit::amqp
