#pragma once

#include <acquit/runtime/io_op.h>
#include <acquit/runtime/stream.h>
#include <acquit/runtime/task.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace acquit::runtime {

/// A stream over a connected TCP or unix socket.
class socket_stream final : public stream {
public:
    /// Takes the descriptor over. `peer` is what `peer()` answers.
    socket_stream(loop& owner, int fd, std::string peer) noexcept;
    ~socket_stream() override;

    [[nodiscard]] bool can_be_fed() const noexcept override { return true; }
    void start_feed(stream_feed& feed) noexcept override;
    void stop_feed(stream_feed& feed) noexcept override;
    void shutdown_write() noexcept override;
    void close() noexcept override;
    [[nodiscard]] std::string peer() const override { return peer_; }
    [[nodiscard]] int fd() const noexcept { return fd_; }

private:
    void start_read(read_op& operation) noexcept override;
    void start_write(write_op& operation) noexcept override;
    void cancel_read(read_op& operation) noexcept override;
    void cancel_write(write_op& operation) noexcept override;
    void continue_write() noexcept;
    static void read_done(void* self, std::int32_t result, std::uint32_t flags) noexcept;
    static void feed_done(void* self, std::int32_t result, std::uint32_t flags) noexcept;
    static void write_done(void* self, std::int32_t result, std::uint32_t flags) noexcept;

    loop& loop_;
    int fd_;
    std::string peer_;
    read_op* reading_ = nullptr;
    write_op* writing_ = nullptr;
    stream_feed* feeding_ = nullptr;
};

struct connect_options {
    /// For each address of the name; then the next is tried. Zero: as long as the kernel tries.
    duration attempt_timeout = std::chrono::seconds(10);
};

/// Connects to the first address of `host` that answers, in the resolver's order, with TCP_NODELAY.
/// A numeric address (with or without brackets for IPv6) needs no resolver. Throws io_error with
/// the code of the last attempt and a text that names host, port and each address with its reason;
/// operation_cancelled.
task<std::unique_ptr<stream>> connect_tcp(std::string host, std::uint16_t port,
                                          connect_options options = {});

/// Connects to a unix socket; a path that begins with `@` is abstract. Throws io_error.
task<std::unique_ptr<stream>> connect_unix(std::string path);

/// A listening socket.
///
///     listener incoming = listener::tcp(loop, "127.0.0.1", 0);
///     auto stream = co_await incoming.accept();
class listener {
public:
    /// Binds a numeric address; port 0 lets the kernel choose. Throws io_error.
    static listener tcp(loop& owner, std::string_view address, std::uint16_t port);
    /// Binds a path, which must not exist, and removes it at the end. Throws io_error.
    static listener unix_path(loop& owner, std::string path);
    listener(listener&& other) noexcept;
    listener& operator=(listener&&) = delete;
    ~listener();

    /// The bound TCP port; 0 for unix sockets.
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    [[nodiscard]] int fd() const noexcept { return fd_; }
    class accept_op;
    /// Waits for a connection. Throws io_error, operation_cancelled. One at a time.
    [[nodiscard]] accept_op accept() noexcept;
    /// Closes; not while an accept is in flight (cancel it first).
    void close() noexcept;

private:
    listener(loop& owner, int fd, std::uint16_t port, std::string path) noexcept;
    loop* loop_;
    int fd_;
    std::uint16_t port_;
    std::string path_;
};

class [[nodiscard]] listener::accept_op final : public io_op {
public:
    explicit accept_op(listener& on) noexcept : listener_(on) {}
    std::unique_ptr<stream> await_resume();

private:
    ring_token prepare(ring& io, completion_target target) noexcept override;
    listener& listener_;
};

inline listener::accept_op listener::accept() noexcept
{
    return accept_op(*this);
}

} // namespace acquit::runtime
