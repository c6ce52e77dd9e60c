#pragma once

#include <acquit/amqp/session/session.h>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Two sessions that talk to each other through their outputs, with a diary of what each said.
///
///     two_peers both;
///     both.open();                                 // the handshake, to the end
///     both.client.session.open_channel(1);
///     both.talk();                                 // until nobody has anything to say
///     EXPECT_EQ(both.client.diary.back(), "channel_opened 1");
namespace acquit::amqp::testing {

using bytes = std::vector<std::byte>;

inline bytes bytes_of(std::string_view text)
{
    const auto* const from = reinterpret_cast<const std::byte*>(text.data());
    return {from, from + text.size()};
}

inline std::string text_of(std::span<const std::byte> from)
{
    return {reinterpret_cast<const char*>(from.data()), from.size()};
}

/// A body in which every byte tells its place, more or less.
inline bytes body_of(std::size_t size, unsigned seed = 1)
{
    bytes body(size);
    for (std::size_t i = 0; i < size; ++i) {
        body[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xFF);
    }
    return body;
}

inline std::uint64_t digest(std::span<const std::byte> from)
{
    std::uint64_t sum = 1469598103934665603ULL;
    for (const auto byte : from) {
        sum = (sum ^ std::to_integer<std::uint64_t>(byte)) * 1099511628211ULL;
    }
    return sum;
}

/// One line per event: all that does not depend on how the input was cut.
inline std::string line(const session& from, const event& said)
{
    auto text = fmt::format("{} {}", name(said.kind), said.channel);
    switch (said.kind) {
    case event_kind::method:
        text += fmt::format(" {} {:x}", wire::method_name(from.method().id),
                            digest(from.method().payload));
        break;
    case event_kind::content: {
        const auto& c = from.content();
        text += fmt::format(" {} tag={} consumer={} exchange={} key={} redelivered={} mandatory={} "
                            "immediate={} count={} code={} text={} properties={:x} size={} "
                            "dropped={} body={:x}",
                            name(c.kind), c.delivery_tag, c.consumer_tag, c.exchange, c.routing_key,
                            c.redelivered, c.mandatory, c.immediate, c.message_count, c.return_code,
                            c.return_text, digest(c.properties), c.body_size, c.body_dropped,
                            digest(c.body));
        break;
    }
    case event_kind::channel_closed:
    case event_kind::closed: {
        const auto& c = from.close_info();
        text += fmt::format(" {} '{}' {}.{}{}", static_cast<unsigned>(c.code), c.text,
                            c.offender.class_id, c.offender.method_id, c.by_peer ? " by peer" : "");
        break;
    }
    case event_kind::blocked:
        text += fmt::format(" '{}'", from.blocked_reason());
        break;
    case event_kind::failed:
        text +=
            fmt::format(" {} '{}'", static_cast<unsigned>(from.fault().code), from.fault_text());
        break;
    default:
        break;
    }
    return text;
}

/// A session, the bytes that it has not taken yet, and its diary (without need_more and nothing).
struct peer {
    template <class Options>
    explicit peer(Options options) : session(std::move(options))
    {
    }

    /// Takes `input` in pieces of `piece` bytes; 0 = in one.
    void receive(std::span<const std::byte> input, std::size_t piece = 0)
    {
        while (!input.empty()) {
            const auto part = piece == 0 ? input.size() : std::min(piece, input.size());
            inbox.insert(inbox.end(), input.begin(),
                         input.begin() + static_cast<std::ptrdiff_t>(part));
            input = input.subspan(part);
            take();
        }
    }

    /// What it has to say, and forgets.
    bytes say()
    {
        const auto said = session.output().begin_send();
        bytes copy(said.begin(), said.end());
        session.output().end_send();
        return copy;
    }

    amqp::session session;
    std::vector<std::string> diary;
    bytes inbox;
    std::function<void(const event&)> on_event; ///< while the event's views hold

private:
    void take()
    {
        // A buffer of exactly the unread bytes, so that a read beyond them is seen.
        bytes input(inbox);
        std::size_t done = 0;
        for (;;) {
            const auto said = session.next(std::span(input).subspan(done));
            done += said.consumed;
            if (said.kind == event_kind::need_more) {
                break;
            }
            if (said.kind != event_kind::nothing) {
                diary.push_back(line(session, said));
            }
            if (on_event) {
                on_event(said);
            }
        }
        inbox.erase(inbox.begin(), inbox.begin() + static_cast<std::ptrdiff_t>(done));
    }
};

struct two_peers {
    explicit two_peers(client_options c = {}, server_options s = {})
        : client(std::move(c)), server(std::move(s))
    {
    }

    /// Until neither has anything more to say.
    void talk()
    {
        for (;;) {
            const auto to_server = client.say();
            const auto to_client = server.say();
            if (to_server.empty() && to_client.empty()) {
                return;
            }
            server.receive(to_server, piece);
            client.receive(to_client, piece);
        }
    }

    void open()
    {
        client.session.start(0);
        server.session.start(0);
        talk();
    }

    /// With channels 1 to `channels` open, and empty diaries.
    void open_channels(std::uint16_t channels)
    {
        open();
        for (std::uint16_t number = 1; number <= channels; ++number) {
            (void)client.session.open_channel(number);
        }
        talk();
        client.diary.clear();
        server.diary.clear();
    }

    peer client;
    peer server;
    std::size_t piece = 0; ///< how bytes arrive: 0 = as they were said
};

/// Frames made by hand, for what no session would write.
inline bytes raw_frame(std::uint8_t type, std::uint16_t channel, std::span<const std::byte> payload,
                       std::uint8_t end = wire::frame_end)
{
    bytes frame(wire::frame_head_size);
    wire::write_frame_head(frame.data(), type, channel, static_cast<std::uint32_t>(payload.size()));
    frame.insert(frame.end(), payload.begin(), payload.end());
    frame.push_back(std::byte{end});
    return frame;
}

template <class M>
bytes method_frame(std::uint16_t channel, const M& method)
{
    bytes frame(wire::encoded_size(method));
    frame.resize(wire::encode_frame(frame, channel, method));
    return frame;
}

inline bytes header_frame(std::uint16_t channel, std::uint64_t body_size,
                          const wire::properties& properties = {})
{
    bytes frame(wire::header_frame_size(properties));
    frame.resize(wire::encode_header_frame(frame, channel, body_size, properties));
    return frame;
}

inline bytes body_frame(std::uint16_t channel, std::span<const std::byte> body)
{
    return raw_frame(wire::frame_body, channel, body);
}

inline bytes operator+(bytes left, const bytes& right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

/// The first frame of `said` that is method M, decoded; its views point into `said`.
template <class M>
std::optional<M> find_method(std::span<const std::byte> said)
{
    wire::frame_view frame;
    while (!said.empty() && wire::parse_frame(said, 131072, frame).complete()) {
        if (frame.type == wire::frame_method && wire::method_of(frame.payload) == wire::id_of<M>) {
            M method;
            if (wire::decode(frame.payload.subspan(4), method)) {
                return method;
            }
        }
        said = said.subspan(frame.size);
    }
    return std::nullopt;
}

} // namespace acquit::amqp::testing
