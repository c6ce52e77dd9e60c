#include "../amqp/session_peers.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

/// Writes the corpus of the session fuzzer: session_corpus FOLDER. Each file is a conversation that
/// reaches a state which random bytes would not; the layout stands in session_fuzz.cc.
using namespace acquit::amqp;
using namespace acquit::amqp::testing;

namespace {

constexpr unsigned client_end = 0;
constexpr unsigned server_end = 1;
constexpr unsigned from_start = 2;
constexpr unsigned small_limits = 4;

struct writer {
    std::filesystem::path folder;

    void put(const char* name, unsigned flags, unsigned action, unsigned at,
             const bytes& input) const
    {
        std::ofstream file(folder / name, std::ios::binary);
        for (const auto control : {flags, action, at}) {
            file.put(static_cast<char>(control));
        }
        file << text_of(input);
    }
};

// What each end says in a handshake, all flights together.
std::pair<bytes, bytes> handshake()
{
    two_peers both;
    both.client.session.start(0);
    bytes from_client;
    bytes from_server;
    for (;;) {
        const auto to_server = both.client.say();
        both.server.receive(to_server);
        const auto to_client = both.server.say();
        both.client.receive(to_client);
        if (to_server.empty() && to_client.empty()) {
            return {from_client, from_server};
        }
        from_client = std::move(from_client) + to_server;
        from_server = std::move(from_server) + to_client;
    }
}

bytes content(std::uint16_t channel, std::size_t size, std::size_t frame)
{
    const wire::basic::deliver method{
        .consumer_tag = "c", .delivery_tag = 1, .exchange = "e", .routing_key = "k"};
    auto all = method_frame(channel, method) +
               header_frame(channel, size, {.delivery_mode = std::uint8_t{2}});
    const auto body = body_of(size);
    for (std::span<const std::byte> rest = body; !rest.empty();) {
        const auto part = std::min(rest.size(), frame);
        all = std::move(all) + body_frame(channel, rest.first(part));
        rest = rest.subspan(part);
    }
    return all;
}

} // namespace

int main(int count, char** arguments)
{
    if (count != 2) {
        std::fputs("usage: session_corpus FOLDER\n", stderr);
        return 2;
    }
    const writer out{arguments[1]};
    std::filesystem::create_directories(out.folder);

    const auto [from_client, from_server] = handshake();
    out.put("handshake_client", client_end | from_start, 0, 0, from_server);
    out.put("handshake_server", server_end | from_start, 0, 0, from_client);
    out.put("other_version", client_end | from_start, 0, 0,
            bytes_of(std::string_view("AMQP\3\1\0\0", 8)));
    out.put("refused_login", client_end | from_start, 0, 0,
            method_frame(0, wire::connection::start{.mechanisms = "PLAIN"}) +
                method_frame(
                    0, wire::connection::close{.reply_code = 403, .reply_text = "ACCESS_REFUSED"}));

    const auto whole = content(1, 20, 20);
    out.put("deliveries", client_end, 0, 0, whole + whole + content(2, 0, 1) + whole);
    out.put("several_frames", client_end, 4, 0, content(1, 20, 7) + content(3, 20, 6));
    out.put("too_large", client_end | small_limits, 0, 0,
            content(1, 65, 65) + content(1, 64, 64) + content(1, 65, 10) + content(1, 64, 9));
    out.put("interleaved", client_end | small_limits, 0, 0,
            method_frame(1, wire::basic::deliver{}) + header_frame(1, 60) +
                method_frame(2, wire::basic::get_ok{}) + body_frame(1, body_of(50)) +
                header_frame(2, 60) + body_frame(2, body_of(50)) + body_frame(2, body_of(10)) +
                body_frame(1, body_of(10)));
    out.put("returned", client_end, 7, 0,
            method_frame(1, wire::basic::return_{.reply_code = 312, .reply_text = "NO_ROUTE"}) +
                header_frame(1, 3) + body_frame(1, body_of(3)));
    out.put("replies", client_end, 0, 0,
            method_frame(1, wire::queue::declare_ok{.queue = "q"}) +
                method_frame(2, wire::basic::consume_ok{.consumer_tag = "c"}) +
                method_frame(1, wire::basic::ack{.delivery_tag = 1}) +
                method_frame(1, wire::basic::cancel{.consumer_tag = "c", .no_wait = true}) +
                method_frame(1, wire::channel::flow{}) + raw_frame(wire::frame_heartbeat, 0, {}));
    out.put("channel_closed", client_end, 3, 0,
            method_frame(1, wire::channel::close{.reply_code = 404, .reply_text = "NOT_FOUND"}) +
                method_frame(1, wire::channel::open_ok{}) + whole);
    out.put("channel_closing", client_end, 2 | 1 << 3, 0,
            whole + whole + method_frame(1, wire::channel::close{}) +
                method_frame(1, wire::channel::close_ok{}));
    out.put("blocked", client_end, 5, 0,
            method_frame(0, wire::connection::blocked{.reason = "low on memory"}) +
                method_frame(0, wire::connection::unblocked{}) +
                method_frame(0, wire::connection::update_secret_ok{}));
    out.put("connection_closed", client_end, 0, 0,
            method_frame(0, wire::connection::close{.reply_code = 320}) + whole);
    out.put("connection_closing", client_end, 1, 0,
            whole + whole + method_frame(0, wire::connection::close_ok{}));
    out.put("unexpected", client_end, 0, 0,
            body_frame(1, body_of(3)) + whole + method_frame(0, wire::connection::close_ok{}));
    out.put("end_missing", client_end, 0, 0, whole + raw_frame(wire::frame_body, 1, {}, 0));

    out.put("server_opens", server_end | small_limits, 0, 0,
            method_frame(4, wire::channel::open{}) + method_frame(5, wire::channel::open{}));
    out.put("server_takes", server_end, 2 | 1 << 3, 2,
            method_frame(1, wire::queue::declare{.queue = "q", .durable = true}) +
                method_frame(1, wire::basic::publish{.routing_key = "q", .mandatory = true}) +
                header_frame(1, 3) + body_frame(1, body_of(3)) +
                method_frame(1, wire::basic::ack{.delivery_tag = 1}) +
                method_frame(1, wire::channel::close{}) +
                method_frame(1, wire::channel::close_ok{}));
    out.put("server_secret", server_end, 0, 0,
            method_frame(0, wire::connection::update_secret{.new_secret = "s", .reason = "r"}) +
                method_frame(0, wire::connection::close{}));
    return 0;
}
