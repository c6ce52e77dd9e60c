// rabbitmq-c as a consumer.
//
//     rabbitmqc HOST PORT QUEUE PREFETCH MESSAGES frames:each|frames:64|message:each|message:64 BODY
//
//     frames    amqp_simple_wait_frame, reading method, header and body frames by hand
//     message   amqp_consume_message
//     each      an ack per message; a number: one for so many, with multiple = 1

#include "figures.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include <amqp.h>
#include <amqp_tcp_socket.h>

namespace {

[[noreturn]] void fail(const char* what)
{
    std::fprintf(stderr, "rabbitmqc: %s\n", what);
    std::exit(1);
}

void check(amqp_rpc_reply_t reply, const char* what)
{
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        fail(what);
}

amqp_connection_state_t open(const char* host, int port)
{
    auto* const connection = amqp_new_connection();
    auto* const socket = amqp_tcp_socket_new(connection);
    if (socket == nullptr || amqp_socket_open(socket, host, port) != 0)
        fail("cannot connect");
    check(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"),
          "login");
    amqp_channel_open(connection, 1);
    check(amqp_get_rpc_reply(connection), "channel.open");
    return connection;
}

// One delivery by frames: its tag.
std::uint64_t receive(amqp_connection_state_t connection, std::uint64_t& bytes)
{
    amqp_frame_t frame;
    amqp_maybe_release_buffers(connection);
    do {
        if (amqp_simple_wait_frame(connection, &frame) != AMQP_STATUS_OK)
            fail("no frame");
    } while (frame.frame_type != AMQP_FRAME_METHOD ||
             frame.payload.method.id != AMQP_BASIC_DELIVER_METHOD);
    const auto tag = static_cast<amqp_basic_deliver_t*>(frame.payload.method.decoded)->delivery_tag;
    if (amqp_simple_wait_frame(connection, &frame) != AMQP_STATUS_OK ||
        frame.frame_type != AMQP_FRAME_HEADER)
        fail("no header");
    for (auto left = frame.payload.properties.body_size; left != 0;) {
        if (amqp_simple_wait_frame(connection, &frame) != AMQP_STATUS_OK ||
            frame.frame_type != AMQP_FRAME_BODY)
            fail("no body");
        left -= frame.payload.body_fragment.len;
        bytes += frame.payload.body_fragment.len;
    }
    return tag;
}

std::uint64_t consume_message(amqp_connection_state_t connection, std::uint64_t& bytes)
{
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(connection);
    check(amqp_consume_message(connection, &envelope, nullptr, 0), "no message");
    const auto tag = envelope.delivery_tag;
    bytes += envelope.message.body.len;
    amqp_destroy_envelope(&envelope);
    return tag;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 8)
        fail(
            "HOST PORT QUEUE PREFETCH MESSAGES frames:each|frames:64|message:each|message:64 BODY");
    const auto messages = std::strtoull(argv[5], nullptr, 10);
    const std::string mode = argv[6];
    const auto body = std::strtoull(argv[7], nullptr, 10);
    const bool frames = mode.compare(0, 7, "frames:") == 0;
    const auto colon = mode.find(':') + 1;
    const auto every =
        mode.substr(colon) == "each" ? 1 : std::strtoull(mode.c_str() + colon, nullptr, 10);
    if (every == 0 || (!frames && mode.compare(0, 8, "message:") != 0))
        fail("what mode?");

    auto* const connection = open(argv[1], std::atoi(argv[2]));
    amqp_basic_qos(connection, 1, 0, static_cast<std::uint16_t>(std::atoi(argv[4])), 0);
    check(amqp_get_rpc_reply(connection), "basic.qos");
    amqp_basic_consume(connection, 1, amqp_cstring_bytes(argv[3]), amqp_empty_bytes, 0, 0, 0,
                       amqp_empty_table);
    check(amqp_get_rpc_reply(connection), "basic.consume");

    const auto name = "rabbitmq-c " + mode;
    figures counts(name.c_str(), messages);
    std::uint64_t bytes = 0;
    for (std::uint64_t unsettled = 0;;) {
        const auto tag = frames ? receive(connection, bytes) : consume_message(connection, bytes);
        if (++unsettled == every || counts.last_is_next()) {
            if (amqp_basic_ack(connection, 1, tag, every != 1) != AMQP_STATUS_OK)
                fail("cannot ack");
            unsettled = 0;
        }
        if (counts.one())
            break;
    }
    check(amqp_connection_close(connection, AMQP_REPLY_SUCCESS), "connection.close");
    amqp_destroy_connection(connection);
    if (bytes != messages * body)
        fail("bodies of another size came");
    counts.print();
    return 0;
}
