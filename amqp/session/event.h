#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/deliver_fast.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/amqp/wire/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// What a session says to its owner.
namespace acquit::amqp {

enum class event_kind : std::uint8_t {
    need_more,        ///< `wanted` contiguous bytes are needed, counted from the start of input
    nothing,          ///< `consumed` bytes are done with and nobody needs to know
    opened,           ///< the handshake is over
    method,           ///< session::method(): not handled by the session itself
    content,          ///< session::content(): a message is complete
    channel_opened,   ///< client: open-ok came; server: the peer opened, open-ok is written
    channel_closed,   ///< by the peer: session::close_info(); close-ok is written
    channel_close_ok, ///< our close was answered; the number is free again
    blocked,          ///< connection.blocked: session::blocked_reason()
    unblocked,        ///< connection.unblocked
    secret_updated,   ///< client: update-secret-ok; server: the peer sent update-secret
    closed,           ///< the connection is over: session::close_info()
    failed            ///< session::fault(), session::fault_text()
};

[[nodiscard]] const char* name(event_kind kind) noexcept;

struct event {
    event_kind kind = event_kind::nothing;
    std::uint16_t channel = 0;
    std::size_t consumed = 0; ///< bytes of input that the owner must not pass again
    std::size_t wanted = 0;   ///< need_more only: total contiguous bytes from the start of input
};

/// Decode with `wire::decode<M>(payload, m)`; the session has already checked that it succeeds.
struct method_event {
    std::uint16_t channel = 0;
    wire::method_id id{};
    std::span<const std::byte> payload; ///< the arguments; points into input
};

enum class content_kind : std::uint8_t { deliver, get_ok, return_, publish };

[[nodiscard]] const char* name(content_kind kind) noexcept;

/// A complete message. Which fields mean something depends on `kind`. The base holds what every
/// delivery has: channel, redelivered, delivery_tag (deliver, get_ok), consumer_tag (deliver),
/// exchange, routing_key, properties (the property part of the header frame, flags included), body;
/// it is a base so that the codec's fast path fills it in place.
///
/// "In input" says that views point into the bytes that were passed to this call of `next`, so they
/// live as long as the owner keeps those. Otherwise they point into the session and live until
/// the next call of `next`.
struct content_event : wire::delivery_frames {
    content_kind kind = content_kind::deliver;
    bool mandatory = false;     ///< publish
    bool immediate = false;     ///< publish
    bool head_in_input = false; ///< strings and properties
    bool body_in_input = false;
    bool body_dropped = false;       ///< above a limit: the bytes were skipped and `body` is empty
    std::uint16_t return_code = 0;   ///< return_: a wire::reply_code, 312 NO_ROUTE for example
    std::uint32_t message_count = 0; ///< get_ok: messages left in the queue
    std::uint64_t body_size = 0;     ///< as announced
    std::string_view return_text;    ///< return_
};

/// Why a channel or the connection ended.
struct close_event {
    std::uint16_t channel = 0; ///< 0 = the connection
    wire::reply_code code = wire::reply_code::success;
    std::string text;           ///< as the peer wrote it; not escaped
    wire::method_id offender{}; ///< the method that the peer blames; 0.0 = none
    bool by_peer = false;
};

/// Why a session gave up on its peer.
struct fault_event {
    wire::reply_code code = wire::reply_code::success;
    /// What the codec says of malformed bytes; `none` where the bytes are sound and merely not
    /// allowed here (an unexpected frame, a refused login, limits that do not meet).
    wire::fault what = wire::fault::none;
    std::string text; ///< begins with the name of the code, as RabbitMQ writes them; no credentials
    wire::method_id offender{}; ///< 0.0 = not a method
    bool close_written = false; ///< a connection.close is in the output and will be answered
};

enum class session_state : std::uint8_t {
    idle,      ///< client: start() was not called
    handshake, ///< protocol header, start, secure, tune, open
    open,
    closing, ///< we sent connection.close; only its close-ok is still of interest
    closed,  ///< close and close-ok are through, in whichever order
    failed   ///< the peer broke the protocol, or we refused what it offered
};

[[nodiscard]] const char* name(session_state state) noexcept;

enum class channel_state : std::uint8_t { closed, opening, open, closing };

[[nodiscard]] const char* name(channel_state state) noexcept;

enum class [[nodiscard]] send_status : std::uint8_t {
    sent, ///< the frames are in the output buffer, all of them; any other value: none of them
    connection_not_open,
    channel_not_open,
    too_large,   ///< a method or content header above the tuned frame_size_max
    bad_argument ///< a short string above 255 bytes, a channel number out of range
};

[[nodiscard]] const char* name(send_status status) noexcept;

} // namespace acquit::amqp
