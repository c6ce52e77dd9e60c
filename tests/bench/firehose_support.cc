#include "firehose_support.h"

#include <acquit/amqp/message.h>

#include <fmt/format.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace acquit::testing {

running_server::running_server(const firehose::settings& how)
    : serving_(how), stop_fd_(::eventfd(0, EFD_CLOEXEC))
{
    serving_.stop_on(stop_fd_);
    thread_ = std::thread([this] { serving_.run(); });
}

const firehose::statistics& running_server::stop()
{
    if (thread_.joinable()) {
        (void)::eventfd_write(stop_fd_, 1);
        thread_.join();
    }
    return serving_.seen();
}

running_server::~running_server()
{
    stop();
    ::close(stop_fd_);
}

script_client::script_client(std::uint16_t port, amqp::client_options options)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), session_(std::move(options))
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw std::system_error(errno, std::generic_category(), "connect");
    session_.start(0);
    flush();
    wait_until("opened", [](const auto& e) { return e.kind == amqp::event_kind::opened; });
}

script_client::~script_client()
{
    ::close(fd_);
}

void script_client::check(amqp::send_status status)
{
    if (status != amqp::send_status::sent)
        throw std::logic_error(amqp::name(status));
}

void script_client::raw(std::span<const std::byte> bytes)
{
    while (!bytes.empty()) {
        const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0)
            throw std::system_error(errno, std::generic_category(), "send");
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
}

void script_client::flush()
{
    auto& output = session_.output();
    if (output.open_empty())
        return;
    raw(output.begin_send());
    output.end_send();
}

// False: the end of the stream.
bool script_client::fill()
{
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, 10'000) == 0)
        throw std::runtime_error("nothing came for ten seconds");
    const auto before = bytes_.size();
    bytes_.resize(before + 65536);
    const auto got = ::recv(fd_, bytes_.data() + before, 65536, 0);
    bytes_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
}

void script_client::keep(const amqp::event& e)
{
    if (e.kind != amqp::event_kind::content)
        return;
    const auto& c = session_.content();
    const auto* const body = reinterpret_cast<const char*>(c.body.data());
    deliveries_.push_back({.channel = c.channel,
                           .tag = c.delivery_tag,
                           .redelivered = c.redelivered,
                           .consumer_tag = std::string(c.consumer_tag),
                           .body = std::string(body, c.body.size()),
                           .properties = {c.properties.begin(), c.properties.end()}});
}

void script_client::wait_until(const char* what,
                               const std::function<bool(const amqp::event&)>& found)
{
    for (;;) {
        const auto e = session_.next(std::span(bytes_).subspan(at_));
        if (e.kind == amqp::event_kind::need_more) {
            if (!fill())
                throw std::runtime_error(fmt::format("waiting for {}: the server is gone", what));
            continue;
        }
        at_ += e.consumed;
        keep(e);
        flush();
        if (found(e))
            return;
        if (e.kind == amqp::event_kind::failed || e.kind == amqp::event_kind::closed)
            throw std::runtime_error(fmt::format(
                "waiting for {}: {} {}", what, session_.close_info().text, session_.fault_text()));
    }
}

void script_client::wait_for_method(wire::method_id id)
{
    wait_until(wire::method_name(id), [&](const auto& e) {
        return e.kind == amqp::event_kind::method && session_.method().id == id;
    });
}

void script_client::open_channel(std::uint16_t channel)
{
    check(session_.open_channel(channel));
    flush();
    wait_until("channel.open-ok",
               [](const auto& e) { return e.kind == amqp::event_kind::channel_opened; });
}

void script_client::consume(std::uint16_t prefetch, bool no_ack, std::uint16_t channel,
                            std::string_view tag)
{
    ask(channel, wire::basic::qos{.prefetch_count = prefetch}, wire::id_of<wire::basic::qos_ok>);
    ask(channel, wire::basic::consume{.queue = "q", .consumer_tag = tag, .no_ack = no_ack},
        wire::id_of<wire::basic::consume_ok>);
}

const std::vector<delivered>& script_client::receive(std::size_t count)
{
    if (deliveries_.size() < count)
        wait_until("deliveries", [&](const auto&) { return deliveries_.size() >= count; });
    return deliveries_;
}

std::size_t script_client::received_after_round_trip(std::uint16_t channel)
{
    // The server reads the settlements before this, and writes what they allow before the second
    // answer.
    for (int i = 0; i < 2; ++i)
        ask(channel, wire::queue::declare{.queue = "q", .passive = true},
            wire::id_of<wire::queue::declare_ok>);
    return deliveries_.size();
}

void script_client::ack(std::uint64_t tag, bool multiple, std::uint16_t channel)
{
    tell(channel, wire::basic::ack{.delivery_tag = tag, .multiple = multiple});
}

void script_client::reject(std::uint64_t tag, bool requeue)
{
    tell(1, wire::basic::reject{.delivery_tag = tag, .requeue = requeue});
}

void script_client::nack(std::uint64_t tag, bool multiple, bool requeue)
{
    tell(1, wire::basic::nack{.delivery_tag = tag, .multiple = multiple, .requeue = requeue});
}

void script_client::publish(std::string_view body, std::uint16_t channel)
{
    check(session_.send_content(channel, wire::basic::publish{.routing_key = "q"},
                                wire::properties{}, amqp::bytes_of(body)));
    flush();
}

amqp::close_event script_client::wait_for_channel_close()
{
    wait_until("channel.close",
               [](const auto& e) { return e.kind == amqp::event_kind::channel_closed; });
    return session_.close_info();
}

amqp::close_event script_client::wait_for_end()
{
    for (;;) {
        const auto e = session_.next(std::span(bytes_).subspan(at_));
        if (e.kind == amqp::event_kind::need_more && !fill())
            return {};
        at_ += e.consumed;
        keep(e);
        flush();
        if (e.kind == amqp::event_kind::closed)
            return session_.close_info();
    }
}

void script_client::close_channel(std::uint16_t channel)
{
    check(session_.close_channel(channel));
    flush();
    wait_until("channel.close-ok",
               [](const auto& e) { return e.kind == amqp::event_kind::channel_close_ok; });
}

void script_client::leave(std::span<const std::byte> last_bytes)
{
    const int on = 1;
    (void)::setsockopt(fd_, IPPROTO_TCP, TCP_CORK, &on, sizeof on); // in one packet with the end
    raw(last_bytes);
    (void)::shutdown(fd_, SHUT_WR);
}

void script_client::close()
{
    check(session_.close());
    flush();
    (void)wait_for_end();
}

} // namespace acquit::testing
