#include <acquit/runtime/error.h>
#include <acquit/runtime/resolve.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timeout.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

namespace acquit::runtime {

namespace {

class descriptor {
public:
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor()
    {
        if (fd_ >= 0)
            ::close(fd_);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

private:
    int fd_;
};

// Blocking on purpose: io_uring waits for such a socket itself and ends an operation on a non-blocking
// one with EAGAIN.
int open_socket(int family)
{
    const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        throw io_error(errno, "socket");
    return fd;
}

class [[nodiscard]] connect_op final : public io_op {
public:
    connect_op(int fd, const socket_address& address) noexcept : fd_(fd), address_(address) {}
    void await_resume() const
    {
        if (const auto code = result(); code < 0)
            throw io_error(-code, "connect");
    }

private:
    ring_token prepare(ring& io, completion_target target) noexcept override
    {
        return io.connect(fd_, address_.get(), address_.size, target);
    }
    int fd_;
    const socket_address& address_;
};

task<void> connect_to(int fd, const socket_address& address)
{
    co_await connect_op(fd, address);
}

void set_no_delay(int fd) noexcept
{
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// A connect to a free local port can meet itself, when the kernel chooses that very port as source.
bool connected_to_itself(int fd) noexcept
{
    sockaddr_storage here{};
    sockaddr_storage there{};
    socklen_t here_size = sizeof here;
    socklen_t there_size = sizeof there;
    return ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
           ::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
           here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

socket_address unix_address(const std::string& path)
{
    socket_address address;
    auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
    local->sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof local->sun_path)
        throw io_error(path.empty() ? EINVAL : ENAMETOOLONG,
                       fmt::format("unix socket \"{}\"", path));
    std::memcpy(local->sun_path, path.data(), path.size());
    std::size_t length = path.size() + 1;
    if (path.front() == '@') { // abstract: no terminating zero belongs to the name
        local->sun_path[0] = '\0';
        length = path.size();
    }
    address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
    return address;
}

void listen_on(int fd, const socket_address& address)
{
    if (::bind(fd, address.get(), address.size) != 0)
        throw io_error(errno, "cannot bind " + address.text());
    if (::listen(fd, SOMAXCONN) != 0)
        throw io_error(errno, "cannot listen on " + address.text());
}

} // namespace

task<std::unique_ptr<stream>> connect_tcp(std::string host, std::uint16_t port,
                                          connect_options options)
{
    const auto addresses = co_await resolve(host, port);
    int last_code = EADDRNOTAVAIL;
    std::string reasons;
    for (const auto& address : addresses) {
        std::string reason;
        try {
            descriptor fd(open_socket(address.storage.ss_family));
            set_no_delay(fd.get());
            auto attempt = connect_to(fd.get(), address);
            if (options.attempt_timeout > duration::zero())
                attempt = with_timeout(options.attempt_timeout, std::move(attempt));
            co_await std::move(attempt);
            if (!connected_to_itself(fd.get()))
                co_return std::make_unique<socket_stream>(loop::current(), fd.release(),
                                                          address.text());
            last_code = ECONNREFUSED;
            reason = "connected to itself, nobody listens";
        } catch (const io_error& failure) {
            last_code = failure.code();
            reason = ::strerrordesc_np(failure.code());
        } catch (const timed_out& failure) {
            last_code = ETIMEDOUT;
            reason = failure.what();
        }
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", address.text(), reason);
    }
    throw io_error(last_code, fmt::format("cannot connect to {}:{} ({})", host, port, reasons));
}

task<std::unique_ptr<stream>> connect_unix(std::string path)
{
    const auto address = unix_address(path);
    descriptor fd(open_socket(AF_UNIX));
    try {
        co_await connect_op(fd.get(), address);
    } catch (const io_error& failure) {
        throw io_error(failure.code(), "cannot connect to " + address.text());
    }
    co_return std::make_unique<socket_stream>(loop::current(), fd.release(), address.text());
}

listener::listener(loop& owner, int fd, std::uint16_t port, std::string path) noexcept
    : loop_(&owner), fd_(fd), port_(port), path_(std::move(path))
{
}

listener::listener(listener&& other) noexcept
    : loop_(other.loop_), fd_(std::exchange(other.fd_, -1)), port_(other.port_),
      path_(std::exchange(other.path_, {}))
{
}

listener::~listener()
{
    close();
}

void listener::close() noexcept
{
    if (fd_ < 0)
        return;
    ::close(std::exchange(fd_, -1));
    if (!path_.empty())
        ::unlink(path_.c_str());
}

listener listener::tcp(loop& owner, std::string_view address, std::uint16_t port)
{
    auto wanted = numeric_address(address, port);
    descriptor fd(open_socket(wanted.storage.ss_family));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    listen_on(fd.get(), wanted);
    socklen_t size = sizeof wanted.storage;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&wanted.storage), &size) != 0)
        throw io_error(errno, "getsockname");
    const std::uint16_t bound =
        wanted.storage.ss_family == AF_INET
            ? ntohs(reinterpret_cast<const sockaddr_in*>(&wanted.storage)->sin_port)
            : ntohs(reinterpret_cast<const sockaddr_in6*>(&wanted.storage)->sin6_port);
    return {owner, fd.release(), bound, {}};
}

listener listener::unix_path(loop& owner, std::string path)
{
    const auto address = unix_address(path);
    descriptor fd(open_socket(AF_UNIX));
    listen_on(fd.get(), address);
    return {owner, fd.release(), 0, path.front() == '@' ? std::string() : std::move(path)};
}

ring_token listener::accept_op::prepare(ring& io, completion_target target) noexcept
{
    return io.accept(listener_.fd_, target);
}

std::unique_ptr<stream> listener::accept_op::await_resume()
{
    const auto fd = result();
    if (fd < 0)
        throw io_error(-fd, "accept");
    socket_address peer;
    peer.size = sizeof peer.storage;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size) != 0)
        peer.storage.ss_family = AF_UNSPEC;
    if (peer.storage.ss_family != AF_UNIX)
        set_no_delay(fd);
    return std::make_unique<socket_stream>(*listener_.loop_, fd, peer.text());
}

} // namespace acquit::runtime
