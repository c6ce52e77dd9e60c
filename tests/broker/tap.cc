#include "tap.h"

#include "broker.h"

#include <acquit/amqp/wire/frame.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/error.h>

#include <algorithm>
#include <array>
#include <utility>

namespace acquit::tests {

namespace wire = amqp::wire;

namespace {

sent_method read_method(const wire::frame_view& frame)
{
    sent_method m{.channel = frame.channel};
    const auto u16 = [&](std::size_t at) {
        return static_cast<std::uint16_t>(std::to_integer<unsigned>(frame.payload[at]) << 8 |
                                          std::to_integer<unsigned>(frame.payload[at + 1]));
    };
    m.id = {u16(0), u16(2)};
    const auto arguments = frame.payload.subspan(4);
    if (m.id == wire::id_of<wire::basic::ack>) {
        wire::basic::ack ack;
        (void)wire::decode(arguments, ack);
        m.delivery_tag = ack.delivery_tag;
        m.flag = ack.multiple;
    } else if (m.id == wire::id_of<wire::basic::reject>) {
        wire::basic::reject reject;
        (void)wire::decode(arguments, reject);
        m.delivery_tag = reject.delivery_tag;
        m.flag = reject.requeue;
    } else if (m.id == wire::id_of<wire::basic::nack>) {
        wire::basic::nack nack;
        (void)wire::decode(arguments, nack);
        m.delivery_tag = nack.delivery_tag;
        m.flag = nack.requeue;
    } else if (m.id == wire::id_of<wire::basic::consume>) {
        wire::basic::consume consume;
        (void)wire::decode(arguments, consume);
        m.flag = consume.no_ack;
    }
    return m;
}

} // namespace

amqp::connection_options tap::options() const
{
    auto options = broker_options();
    options.hosts = {{.host = "127.0.0.1", .port = listener_.port()}};
    return options;
}

runtime::task<> tap::run()
{
    co_await runtime::with_scope([this](runtime::scope& tasks) -> runtime::task<> {
        for (;;)
            tasks.spawn(serve(co_await listener_.accept()));
    });
}

runtime::task<> tap::serve(std::unique_ptr<runtime::stream> client)
{
    if (refusing_)
        co_return;
    const auto to = broker_options().hosts.front();
    line between{.client = std::move(client),
                 .broker = co_await runtime::connect_tcp(to.host, to.port)};
    const std::size_t connection = said_.size();
    said_.emplace_back();
    lines_.push_back(&between);
    try {
        co_await runtime::with_scope([&](runtime::scope& both) -> runtime::task<> {
            both.spawn(pump(between, true, connection));
            both.spawn(pump(between, false, connection));
            co_return;
        });
    } catch (...) { // only when the test is over
        std::erase(lines_, &between);
        throw;
    }
    std::erase(lines_, &between);
}

runtime::task<> tap::pump(line& between, bool from_client, std::size_t connection)
{
    auto& from = from_client ? *between.client : *between.broker;
    auto& to = from_client ? *between.broker : *between.client;
    std::array<std::byte, 16384> bytes{};
    try {
        while (const std::size_t n = co_await from.read_some(bytes)) {
            if (from_client)
                said_[connection].insert(said_[connection].end(), bytes.data(), bytes.data() + n);
            co_await to.write(std::span(bytes).first(n));
        }
        if (between.open)
            to.shutdown_write();
    } catch (const runtime::io_error&) {
        from.close();
        to.close();
    }
}

void tap::cut()
{
    for (auto* between : lines_) {
        between->open = false;
        between->client->close();
        between->broker->close();
    }
}

std::vector<sent_method> tap::methods(std::size_t connection) const
{
    std::vector<sent_method> found;
    std::span<const std::byte> rest(said_.at(connection));
    if (rest.size() < 8)
        return found;
    rest = rest.subspan(8); // the protocol header
    wire::frame_view frame;
    while (wire::parse_frame(rest, 131072, frame).complete()) {
        if (frame.type == wire::frame_method)
            found.push_back(read_method(frame));
        rest = rest.subspan(frame.size);
    }
    return found;
}

std::size_t tap::times(wire::method_id id) const
{
    std::size_t n = 0;
    for (std::size_t i = 0; i < said_.size(); ++i) {
        const auto sent = methods(i);
        n += static_cast<std::size_t>(std::count_if(
            sent.begin(), sent.end(), [id](const sent_method& m) { return m.id == id; }));
    }
    return n;
}

std::size_t tap::bytes() const noexcept
{
    std::size_t n = 0;
    for (const auto& bytes : said_)
        n += bytes.size();
    return n;
}

} // namespace acquit::tests
