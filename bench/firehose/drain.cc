// acquit-drain: receives deliveries and discards them, unparsed; settles by counting bytes. What a
// client cannot do better: the limit that every other one is compared with.
//
//     acquit-drain HOST PORT QUEUE PREFETCH MESSAGES [--io recv|loop] [--settle-every N]
//
// It needs a server whose deliveries are all of one size, as acquit-firehose is with one --size.
// Prints one line of JSON: CPU and time from the first tenth of the messages to the last.

#include "statistics.h"

#include <acquit/amqp/session/session.h>
#include <acquit/amqp/wire/settle_frames.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/task.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace acquit;
namespace wire = amqp::wire;

namespace {

constexpr std::size_t receive_size = 256 * 1024;
constexpr std::uint16_t channel = 1;

struct order {
    std::string host;
    std::uint16_t port = 0;
    std::string queue;
    std::uint16_t prefetch = 0;
    std::uint64_t messages = 0;
    std::uint64_t settle_every = 0; // 0: a quarter of the prefetch
    bool by_loop = false;
};

/// The part of the conversation before deliveries are only bytes: handshake, consume, and the first
/// delivery, which tells their size.
class opening {
public:
    opening(int fd, const order& what) : fd_(fd), what_(what) {}

    /// Bytes of deliveries that have been received, the first delivery included.
    std::size_t run()
    {
        session_.start(0);
        while (stride == 0) {
            flush();
            const auto got = ::recv(fd_, buffer_.data() + end_, buffer_.size() - end_, 0);
            if (got <= 0)
                throw std::runtime_error("the server is gone");
            end_ += static_cast<std::size_t>(got);
            while (stride == 0 && step())
                ;
        }
        return stride + end_ - begin_;
    }

    std::size_t stride = 0; ///< bytes of one delivery

private:
    bool step()
    {
        const auto e = session_.next(std::span(buffer_).subspan(begin_, end_ - begin_));
        if (e.kind == amqp::event_kind::need_more) {
            std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                      buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
            end_ -= begin_;
            begin_ = 0;
            buffer_.resize(std::max(buffer_.size(), e.wanted));
            return false;
        }
        begin_ += e.consumed;
        if (consuming_)
            delivery_ += e.consumed;
        switch (e.kind) {
        case amqp::event_kind::opened:
            check(session_.open_channel(channel));
            break;
        case amqp::event_kind::channel_opened:
            check(session_.send(channel, wire::basic::qos{.prefetch_count = what_.prefetch}));
            check(session_.send(channel, wire::basic::consume{.queue = what_.queue}));
            break;
        case amqp::event_kind::method:
            consuming_ = session_.method().id == wire::id_of<wire::basic::consume_ok>;
            break;
        case amqp::event_kind::content:
            stride = delivery_;
            break;
        case amqp::event_kind::failed:
        case amqp::event_kind::closed:
        case amqp::event_kind::channel_closed:
            throw std::runtime_error("the server refused: " + std::string(session_.fault_text()) +
                                     session_.close_info().text);
        default:
            break;
        }
        return true;
    }
    static void check(amqp::send_status s)
    {
        if (s != amqp::send_status::sent)
            throw std::runtime_error(amqp::name(s));
    }
    void flush()
    {
        auto& output = session_.output();
        if (output.open_empty())
            return;
        auto bytes = output.begin_send();
        while (!bytes.empty()) {
            const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0)
                throw std::runtime_error("the server is gone");
            bytes = bytes.subspan(static_cast<std::size_t>(sent));
        }
        output.end_send();
    }

    int fd_;
    const order& what_;
    amqp::session session_{amqp::client_options{.heartbeat_s = 0}};
    std::vector<std::byte> buffer_ = std::vector<std::byte>(receive_size);
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::size_t delivery_ = 0;
    bool consuming_ = false;
};

/// How many messages the bytes so far are, which of them are to be settled, and what it cost.
class tally {
public:
    tally(const order& what, std::size_t stride) : what_(what), stride_(stride) {}

    /// True: `frame` holds an ack to be sent.
    bool received(std::size_t bytes, std::array<std::byte, wire::settle_frame_size>& frame)
    {
        bytes_ += bytes;
        const auto messages = std::min(bytes_ / stride_, what_.messages);
        if (cpu_ == 0 && messages >= what_.messages / 10) {
            first_ = messages;
            began_ns_ = firehose::clock_ns();
            cpu_ = firehose::cpu_ns();
        }
        if (messages - settled_ < what_.settle_every && messages != what_.messages)
            return false;
        settled_ = messages;
        wire::write_ack(frame.data(), channel, messages, true);
        return true;
    }
    [[nodiscard]] bool done() const { return settled_ == what_.messages; }
    void print() const
    {
        const auto messages = what_.messages - first_;
        const auto took = static_cast<double>(firehose::clock_ns() - began_ns_) * 1e-9;
        const auto cpu_us = static_cast<double>(firehose::cpu_ns() - cpu_) * 1e-3;
        fmt::print(
            "{{\"client\": \"drain\", \"messages\": {}, \"seconds\": {:.6f}, \"rate\": {:.1f}, "
            "\"cpu_us\": {:.5f}}}\n",
            messages, took, static_cast<double>(messages) / took,
            cpu_us / static_cast<double>(messages));
    }

private:
    const order& what_;
    std::size_t stride_;
    std::uint64_t bytes_ = 0;
    std::uint64_t settled_ = 0;
    std::uint64_t first_ = 0;
    std::uint64_t began_ns_ = 0;
    std::uint64_t cpu_ = 0;
};

void drain_by_recv(int fd, tally& counts, std::size_t bytes)
{
    std::vector<std::byte> buffer(receive_size);
    std::array<std::byte, wire::settle_frame_size> frame;
    for (;;) {
        if (counts.received(bytes, frame) &&
            ::send(fd, frame.data(), frame.size(), MSG_NOSIGNAL) < 0)
            throw std::runtime_error("the server is gone");
        if (counts.done())
            return;
        const auto got = ::recv(fd, buffer.data(), buffer.size(), 0);
        if (got <= 0)
            throw std::runtime_error("the server is gone");
        bytes = static_cast<std::size_t>(got);
    }
}

runtime::task<> drain_by_loop(runtime::loop& events, int fd, tally& counts, std::size_t bytes)
{
    runtime::socket_stream stream(events, fd, "server");
    runtime::receive_buffer input(events);
    std::array<std::byte, wire::settle_frame_size> frame;
    for (;;) {
        if (counts.received(bytes, frame))
            co_await stream.write(frame);
        if (counts.done())
            break;
        bytes = co_await input.receive(stream);
        if (bytes == 0)
            throw std::runtime_error("the server is gone");
        input.consume(bytes);
    }
    stream.close();
}

int connect_to(const order& what)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(what.port);
    if (::inet_pton(AF_INET, what.host.c_str(), &address.sin_addr) != 1)
        throw std::runtime_error(what.host + " is not a numeric address");
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = 1;
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        throw std::runtime_error("cannot connect");
    return fd;
}

template <class T>
T number(const char* text)
{
    T value{};
    const std::string_view all(text);
    if (std::from_chars(all.data(), all.data() + all.size(), value).ptr != all.data() + all.size())
        throw std::runtime_error(fmt::format("{} is not a number", text));
    return value;
}

order parse(int argc, char** argv)
{
    if (argc < 6)
        throw std::runtime_error("HOST PORT QUEUE PREFETCH MESSAGES [--io recv|loop] "
                                 "[--settle-every N]");
    order what{.host = argv[1],
               .port = number<std::uint16_t>(argv[2]),
               .queue = argv[3],
               .prefetch = number<std::uint16_t>(argv[4]),
               .messages = number<std::uint64_t>(argv[5])};
    for (int i = 6; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        if (name == "--io")
            what.by_loop = std::string_view(argv[i + 1]) == "loop";
        else if (name == "--settle-every")
            what.settle_every = number<std::uint64_t>(argv[i + 1]);
        else
            throw std::runtime_error(fmt::format("unknown option \"{}\"", name));
    }
    if (what.settle_every == 0)
        what.settle_every = std::max<std::uint64_t>(what.prefetch / 4u, 1);
    return what;
}

} // namespace

int main(int argc, char** argv)
{
    try {
        const order what = parse(argc, argv);
        const int fd = connect_to(what);
        opening first(fd, what);
        const auto bytes = first.run();
        tally counts(what, first.stride);
        if (what.by_loop) {
            runtime::loop events;
            events.run(drain_by_loop(events, fd, counts, bytes));
        } else {
            drain_by_recv(fd, counts, bytes);
            ::close(fd);
        }
        counts.print();
        return 0;
    } catch (const std::exception& e) {
        fmt::print(stderr, "acquit-drain: {}\n", e.what());
        return 1;
    }
}
