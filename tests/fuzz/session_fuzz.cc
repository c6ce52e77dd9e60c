#include "../amqp/session_peers.h"

#include <cstdlib>

/// One end of a connection against any bytes. Whole input and the same input byte by byte must give
/// the same events and the same output, whatever the owner does at an event.
///
///     byte 0   bit 0 the server's end, bit 1 from the first byte (else: open, channels 1 to 3),
///              bit 2 small limits
///     byte 1   what the owner does, once: see `act`
///     byte 2   at which event
///     rest     the input
using namespace acquit::amqp;
using namespace acquit::amqp::testing;

namespace {

void act(session& end, const event& said, unsigned what)
{
    const auto channel = static_cast<std::uint16_t>(what >> 3 & 3);
    switch (what & 7) {
    case 1:
        (void)end.close();
        break;
    case 2:
        (void)end.close_channel(channel);
        break;
    case 3:
        (void)end.open_channel(end.free_channel());
        break;
    case 4:
        (void)end.take_body();
        break;
    case 5:
        (void)end.send_update_secret("secret", "reason");
        break;
    case 6:
        (void)end.send(channel, wire::basic::qos{});
        break;
    case 7:
        if (said.kind == event_kind::content) {
            (void)end.send_content(channel, wire::basic::publish{}, {}, end.content().body);
        }
        break;
    default:
        break;
    }
}

struct outcome {
    std::vector<std::string> diary;
    bytes said;
    session_state state;

    friend bool operator==(const outcome&, const outcome&) = default;
};

outcome run(std::span<const std::byte> control, std::span<const std::byte> input, std::size_t piece)
{
    const auto flags = std::to_integer<unsigned>(control[0]);
    client_options client;
    server_options server;
    if ((flags & 4) != 0) {
        client.limits =
            server.limits = {.body_size_max = 64, .assembled_size_max = 96, .open_channels_max = 4};
    }
    two_peers both(client, server);
    if ((flags & 2) != 0) {
        both.client.session.start(0);
    } else {
        both.open_channels(3);
    }
    auto& end = (flags & 1) != 0 ? both.server : both.client;
    unsigned events = 0;
    end.on_event = [&](const event& said) {
        if (said.kind != event_kind::nothing && events++ == std::to_integer<unsigned>(control[2])) {
            act(end.session, said, std::to_integer<unsigned>(control[1]));
        }
    };
    end.receive(input, piece);
    return {end.diary, end.say(), end.session.state()};
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto all = std::as_bytes(std::span(data, size));
    if (size < 3) {
        return 0;
    }
    const auto whole = run(all.first(3), all.subspan(3), 0);
    const auto cut = run(all.first(3), all.subspan(3), 1);
    if (whole != cut) {
        for (const auto& said : whole.diary) {
            fmt::print(stderr, "whole: {}\n", said);
        }
        for (const auto& said : cut.diary) {
            fmt::print(stderr, "cut:   {}\n", said);
        }
        std::abort();
    }
    return 0;
}
