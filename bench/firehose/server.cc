#include "server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace acquit::firehose {

namespace {

// Heartbeats and deadlines are looked at so often.
constexpr std::uint64_t tick_ns = 100'000'000;

[[noreturn]] void fail(const std::string& what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

// Where epoll's data is not a client.
char stop_mark;
char listener_mark;

} // namespace

server::server(const settings& how) : shared_(how)
{
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0)
        fail("epoll_create1");
    try {
        listen_tcp();
        if (!how.unix_path.empty())
            listen_unix();
    } catch (...) {
        for (const int fd : listeners_)
            ::close(fd);
        ::close(epoll_);
        throw;
    }
}

server::~server()
{
    clients_.clear();
    for (const int fd : listeners_)
        ::close(fd);
    if (!shared_.how.unix_path.empty())
        (void)::unlink(shared_.how.unix_path.c_str());
    ::close(epoll_);
}

void server::listen_tcp()
{
    const auto& how = shared_.how;
    sockaddr_storage address{};
    socklen_t size = 0;
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address);
    if (::inet_pton(AF_INET, how.host.c_str(), &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(how.port);
        size = sizeof *v4;
    } else if (::inet_pton(AF_INET6, how.host.c_str(), &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(how.port);
        size = sizeof *v6;
    } else {
        errno = EINVAL;
        fail(fmt::format("{} is not a numeric address", how.host));
    }
    const int fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    listeners_.push_back(fd);
    const int one = 1;
    (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(fd, 1024) != 0)
        fail(fmt::format("cannot listen on {}:{}", how.host, how.port));
    (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
    address_ = address.ss_family == AF_INET ? fmt::format("{}:{}", how.host, port_)
                                            : fmt::format("[{}]:{}", how.host, port_);
    watch(fd, EPOLLIN, &listener_mark);
}

void server::listen_unix()
{
    const auto& path = shared_.how.unix_path;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        fail(path);
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    listeners_.push_back(fd);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd, 1024) != 0)
        fail(fmt::format("cannot listen on {}", path));
    watch(fd, EPOLLIN, &listener_mark);
}

void server::watch(int fd, std::uint32_t events, void* what)
{
    epoll_event e{};
    e.events = events;
    e.data.ptr = what;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e) != 0)
        fail("epoll_ctl");
}

void server::stop_on(int fd)
{
    watch(fd, EPOLLIN, &stop_mark);
}

void server::accept_from(int listener)
{
    for (;;) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return; // none left, or no descriptors: the next wait tries again
        if (clients_.size() == clients_max) {
            ++shared_.seen.connections_refused;
            ::close(fd);
            continue;
        }
        const int one = 1;
        (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (const int size = static_cast<int>(shared_.how.send_buffer); size != 0)
            (void)::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        clients_.push_back(std::make_unique<client>(shared_, fd));
        ++shared_.seen.connections;
        watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, clients_.back().get());
        next_tick_ns_ = 0;
    }
}

void server::run()
{
    shared_.now_ns = clock_ns();
    while (wait()) {
        work();
        tick();
        bury();
        if (shared_.how.connections != 0 && gone_ >= shared_.how.connections && clients_.empty())
            break;
    }
    for (auto& each : clients_)
        each.reset(); // what they leave unsettled is counted
    clients_.clear();
    note_cpu();
}

bool server::delivering() const noexcept
{
    return shared_.seen.first_delivery_ns != 0 &&
           (shared_.unsettled != 0 || !shared_.queues.all_empty());
}

std::uint64_t server::next_deadline_ns() const noexcept
{
    if (!shared_.pending.empty() || shared_.how.spin)
        return 0;
    auto next = next_tick_ns_;
    // What is due already waits for a client's window or socket, not for the time.
    if (shared_.pace.active() && shared_.seen.consumers != 0 &&
        shared_.pace.allowance(shared_.now_ns) == 0)
        next = std::min(next, shared_.pace.next_ns());
    return next;
}

bool server::wait()
{
    const auto deadline = next_deadline_ns();
    const auto before = deadline == 0 ? shared_.now_ns : clock_ns();
    if (deadline != 0)
        note_cpu();
    const auto left = deadline > before ? deadline - before : 0;
    const timespec limit{static_cast<std::time_t>(left / 1'000'000'000),
                         static_cast<long>(left % 1'000'000'000)};
    std::array<epoll_event, 64> events;
    const int count =
        ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &limit, nullptr);
    if (count < 0 && errno != EINTR)
        fail("epoll_pwait2");
    shared_.now_ns = clock_ns();
    ++shared_.seen.turns;
    if (left != 0 || (shared_.how.spin && count == 0 && shared_.pending.empty())) {
        ++shared_.seen.sleeps;
        if (delivering()) {
            const bool blocked = std::any_of(clients_.begin(), clients_.end(),
                                             [](const auto& each) { return each->is_blocked(); });
            auto& waited = blocked ? shared_.seen.asleep_socket_ns : shared_.seen.asleep_window_ns;
            waited += shared_.now_ns - before;
        }
    }
    for (int i = 0; i < count; ++i) {
        const auto& e = events[static_cast<std::size_t>(i)];
        if (e.data.ptr == &stop_mark)
            return false;
        if (e.data.ptr == &listener_mark) {
            for (const int fd : listeners_)
                accept_from(fd);
            continue;
        }
        static_cast<client*>(e.data.ptr)
            ->on_ready((e.events & EPOLLIN) != 0, (e.events & EPOLLOUT) != 0,
                       (e.events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0);
    }
    if (shared_.pace.active() && shared_.pace.allowance(shared_.now_ns) != 0) {
        for (const auto& each : clients_) {
            if (each->has_waiting())
                each->schedule();
        }
    }
    return true;
}

void server::work()
{
    // Those that ask again have their turn after the next look at the kernel.
    const auto now = std::exchange(shared_.pending, {});
    for (client* const each : now)
        each->work();
}

void server::tick()
{
    if (shared_.now_ns < next_tick_ns_)
        return;
    next_tick_ns_ = shared_.now_ns + tick_ns;
    for (const auto& each : clients_)
        each->tick();
}

void server::bury()
{
    const auto gone = std::erase_if(clients_, [this](const auto& each) {
        if (!each->is_over())
            return false;
        std::erase(shared_.pending, each.get());
        return true;
    });
    gone_ += gone;
    if (gone != 0)
        note_cpu();
}

// The processor time up to the last delivery or settlement; asked for when there is time.
void server::note_cpu()
{
    auto& seen = shared_.seen;
    if (const auto done = seen.deliveries + seen.settlement_frames; done != cpu_noted_at_) {
        cpu_noted_at_ = done;
        seen.last_cpu_ns = cpu_ns();
    }
}

} // namespace acquit::firehose
