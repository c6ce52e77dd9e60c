// The least that a client with an epoll loop can do: wait, receive, find the end of the delivery by
// its known size, ack it. No parsing, no library: what the latency of ours is compared with.
//
//     epoll-pingpong HOST PORT QUEUE PREFETCH MESSAGES each BODY

#include "figures.h"

#include <acquit/amqp/session/session.h>
#include <acquit/amqp/wire/settle_frames.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace acquit;
namespace wire = amqp::wire;

namespace {

constexpr std::uint16_t channel = 1;

void check(bool good, const char* what)
{
    if (!good)
        throw std::runtime_error(what);
}

class epoll_client {
public:
    epoll_client(const char* host, int port, std::string queue, int prefetch)
        : queue_(std::move(queue)), prefetch_(static_cast<std::uint16_t>(prefetch))
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        check(::inet_pton(AF_INET, host, &address.sin_addr) == 1, "not a numeric address");
        const int one = 1;
        (void)::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        check(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
              "cannot connect");
        epoll_event e{};
        e.events = EPOLLIN;
        check(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_, &e) == 0, "epoll_ctl");
        session_.start(0);
    }
    ~epoll_client()
    {
        ::close(epoll_);
        ::close(fd_);
    }
    epoll_client(const epoll_client&) = delete;
    epoll_client& operator=(const epoll_client&) = delete;

    /// Handshake, consume, and the first delivery, whose size is that of all.
    void open()
    {
        while (delivery_size_ == 0) {
            flush();
            receive();
            while (delivery_size_ == 0 && step())
                ;
        }
    }

    void run(figures& counts)
    {
        std::uint64_t tag = 1; // the first delivery has been taken by open()
        for (;;) {
            ack(tag);
            if (counts.one())
                return;
            ++tag;
            while (end_ - begin_ < delivery_size_)
                receive();
            begin_ += delivery_size_;
        }
    }

private:
    void receive()
    {
        epoll_event ready{};
        check(::epoll_wait(epoll_, &ready, 1, 30'000) == 1, "nothing comes");
        if (begin_ == end_) {
            begin_ = end_ = 0;
        } else if (buffer_.size() - end_ < delivery_size_) {
            std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
            end_ -= begin_;
            begin_ = 0;
        }
        const auto got = ::recv(fd_, buffer_.data() + end_, buffer_.size() - end_, MSG_DONTWAIT);
        check(got > 0, "the server is gone");
        end_ += static_cast<std::size_t>(got);
    }
    void ack(std::uint64_t tag)
    {
        std::array<std::byte, wire::settle_frame_size> frame;
        wire::write_ack(frame.data(), channel, tag, false);
        check(::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(frame.size()),
              "the server is gone");
    }
    void flush()
    {
        auto& output = session_.output();
        if (output.open_empty())
            return;
        const auto bytes = output.begin_send();
        check(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(bytes.size()),
              "the server is gone");
        output.end_send();
    }
    bool step()
    {
        const auto e = session_.next(std::span(buffer_).subspan(begin_, end_ - begin_));
        if (e.kind == amqp::event_kind::need_more) {
            check(e.wanted < buffer_.size() - begin_, "too large for this");
            return false;
        }
        begin_ += e.consumed;
        if (consuming_)
            size_ += e.consumed;
        switch (e.kind) {
        case amqp::event_kind::opened:
            (void)session_.open_channel(channel);
            break;
        case amqp::event_kind::channel_opened:
            (void)session_.send(channel, wire::basic::qos{.prefetch_count = prefetch_});
            (void)session_.send(channel, wire::basic::consume{.queue = queue_});
            break;
        case amqp::event_kind::method:
            consuming_ = session_.method().id == wire::id_of<wire::basic::consume_ok>;
            break;
        case amqp::event_kind::content:
            delivery_size_ = size_;
            break;
        case amqp::event_kind::failed:
        case amqp::event_kind::closed:
        case amqp::event_kind::channel_closed:
            check(false, "the server refuses");
            break;
        default:
            break;
        }
        return true;
    }

    std::string queue_;
    std::uint16_t prefetch_;
    int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    amqp::session session_{amqp::client_options{.heartbeat_s = 0}};
    std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 20);
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::size_t size_ = 0;
    std::size_t delivery_size_ = 0;
    bool consuming_ = false;
};

} // namespace

int main(int argc, char** argv)
{
    try {
        check(argc == 8, "HOST PORT QUEUE PREFETCH MESSAGES each BODY");
        epoll_client me(argv[1], std::atoi(argv[2]), argv[3], std::atoi(argv[4]));
        figures counts("epoll loop", std::strtoull(argv[5], nullptr, 10));
        me.open();
        me.run(counts);
        counts.print();
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "epoll-pingpong: %s\n", e.what());
        return 1;
    }
}
