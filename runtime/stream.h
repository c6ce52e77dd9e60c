#pragma once

#include <acquit/runtime/ring.h>
#include <acquit/runtime/waiter.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/socket.h>
#include <sys/uio.h>

namespace acquit::runtime {

class provided_memory;
class stream;

/// A receive into provided memory that goes on by itself, completion by completion; its owner counts
/// what comes (receive_buffer.h). For streams over a descriptor.
class stream_feed {
public:
    stream_feed(const stream_feed&) = delete;
    stream_feed& operator=(const stream_feed&) = delete;

    /// Bytes have come into `piece`, or it is over: 0 at the end of the stream, -errno; -ENOBUFS when
    /// all that was provided is full. `goes_on`: it need not be started again.
    virtual void fed(std::int32_t result, std::uint16_t piece, bool goes_on) noexcept = 0;
    [[nodiscard]] virtual const provided_memory& memory() const noexcept = 0;
    ring_token token;

protected:
    stream_feed() noexcept = default;
    ~stream_feed() = default;
};

/// One read of a stream: awaited by a coroutine, or started by an object that derives from it and
/// overrides `on_ready`, without any coroutine:
///
///     class input : read_op { void on_ready() noexcept override { use(result()); begin(); } };
///
/// The bytes it reads into must stay until it is over. Public members below `// implementations`
/// are for streams, not for users.
class [[nodiscard]] read_op : public waiter {
public:
    read_op(stream& from, std::span<std::byte> into) noexcept : stream_(from), into_(into) {}

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept;
    /// Bytes read, 0 at the end of the stream. Throws io_error, operation_cancelled.
    std::size_t await_resume() const { return checked_result(); }

    /// Without a coroutine: starts, and calls `on_ready` from the ready queue when it is over.
    void begin() noexcept;
    /// Asks a read that is under way to end; it still ends by itself.
    void cancel() noexcept
    {
        if (waiting())
            on_cancel();
    }
    /// Bytes read, 0 at the end, -errno (-ECANCELED after `cancel`).
    [[nodiscard]] std::int32_t result() const noexcept { return result_; }

    // implementations
    [[nodiscard]] std::span<std::byte> into() const noexcept { return into_; }
    [[nodiscard]] bool cancel_asked() const noexcept { return asked_; }
    /// The operation is over. Bytes, or -errno.
    void finish(std::int32_t result) noexcept;
    ring_token token;

protected:
    ~read_op() = default;
    void on_cancel() noexcept override;
    void set_result(std::int32_t result) noexcept { result_ = result; }
    void read_into(std::span<std::byte> into) noexcept { into_ = into; }
    std::size_t checked_result() const
    {
        if (result_ < 0 || cancelled()) [[unlikely]]
            throw_failure();
        return static_cast<std::size_t>(result_);
    }
    stream& stream_;

private:
    [[noreturn]] void throw_failure() const;
    std::span<std::byte> into_;
    std::int32_t result_ = 0;
    bool asked_ = false;
};

/// One write of a stream: all bytes, in order, however many system calls that takes. Awaited, or
/// started without a coroutine as `read_op`. The bytes (and the array of parts) must stay until it
/// is over. After an error or a cancellation an unknown part was written: close the stream.
class [[nodiscard]] write_op : public waiter {
public:
    explicit write_op(stream& to) noexcept : stream_(to) {}
    write_op(stream& to, std::span<const std::byte> bytes) noexcept : stream_(to) { set(bytes); }
    write_op(stream& to, std::span<const iovec> parts) noexcept : stream_(to) { set(parts); }

    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept;
    /// Throws io_error, operation_cancelled.
    void await_resume() const
    {
        if (result_ < 0 || cancelled()) [[unlikely]]
            throw_failure();
    }

    /// Without a coroutine: starts writing, and calls `on_ready` from the ready queue when all is
    /// written or the write has failed. One at a time.
    void begin(std::span<const std::byte> bytes) noexcept;
    void begin(std::span<const iovec> parts) noexcept;
    void cancel() noexcept
    {
        if (waiting())
            on_cancel();
    }
    /// 0 when all was written, else -errno (-ECANCELED after `cancel`).
    [[nodiscard]] std::int32_t result() const noexcept { return result_; }

    // implementations
    /// What is left to write begins with these bytes; empty when nothing is left.
    [[nodiscard]] std::span<const std::byte> next_bytes() const noexcept;
    /// More than one part is left, and none is half written: they may be gathered.
    [[nodiscard]] std::span<const iovec> whole_parts() const noexcept;
    /// So many bytes were written. False when that was all.
    bool advance(std::size_t written) noexcept;
    [[nodiscard]] bool cancel_asked() const noexcept { return asked_; }
    /// The operation is over: 0 or -errno.
    void finish(std::int32_t result) noexcept;
    ring_token token;
    msghdr message{};

protected:
    ~write_op() = default;
    stream& stream_;

private:
    void begin() noexcept;
    void set(std::span<const std::byte> bytes) noexcept;
    void set(std::span<const iovec> parts) noexcept;
    void on_cancel() noexcept final;
    [[noreturn]] void throw_failure() const;
    iovec single_{};
    std::span<const iovec> parts_; // begins with the first that is not written in full
    std::size_t offset_ = 0;       // bytes of it that are written
    std::int32_t result_ = 0;
    bool asked_ = false;
};

/// What `stream::read_some` and `stream::write` give to `co_await`.
class [[nodiscard]] stream_read final : public read_op {
public:
    using read_op::read_op;
};
class [[nodiscard]] stream_write final : public write_op {
public:
    using write_op::write_op;
};

/// A connected two-way byte stream. At most one read and one write are in flight; both may be.
/// Awaiting allocates nothing: the operation lives in the awaiting frame. Destroying a stream with
/// an operation in flight ends the program. Loop thread only.
class stream {
public:
    virtual ~stream() = default;
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;

    /// Reads at least one byte, at most `into.size()` (not 0).
    stream_read read_some(std::span<std::byte> into) noexcept { return stream_read(*this, into); }
    stream_write write(std::span<const std::byte> bytes) noexcept
    {
        return stream_write(*this, bytes);
    }
    /// Gathers: the parts in order, as one.
    stream_write write(std::span<const iovec> parts) noexcept { return stream_write(*this, parts); }

    /// The bytes of this stream can come into memory that is provided in advance: it is a socket.
    [[nodiscard]] virtual bool can_be_fed() const noexcept { return false; }
    /// Begins to receive into the feed's memory, beside no other read.
    virtual void start_feed(stream_feed&) noexcept {}
    /// Ends a feed before it returns: its memory is its owner's again.
    virtual void stop_feed(stream_feed&) noexcept {}

    /// No more bytes from this side; reading goes on. Not while a write is in flight.
    virtual void shutdown_write() noexcept = 0;
    /// Ends it in both directions. Operations in flight fail with ECONNABORTED (they still have to
    /// be waited for), later ones at once. Idempotent.
    virtual void close() noexcept = 0;
    /// Who is at the other end, for logs and errors: `10.0.0.7:5672`, `unix:/run/broker.sock`.
    [[nodiscard]] virtual std::string peer() const = 0;

protected:
    stream() noexcept = default;

private:
    friend class read_op;
    friend class write_op;
    virtual void start_read(read_op& operation) noexcept = 0;
    virtual void start_write(write_op& operation) noexcept = 0;
    /// Must lead to `finish` soon: with -ECANCELED, or with what was done by then.
    virtual void cancel_read(read_op& operation) noexcept = 0;
    virtual void cancel_write(write_op& operation) noexcept = 0;
};

template <class Promise>
bool read_op::await_suspend(std::coroutine_handle<Promise> handle) noexcept
{
    result_ = 0;
    asked_ = false;
    if (!suspend(handle))
        return false;
    stream_.start_read(*this);
    return true;
}

template <class Promise>
bool write_op::await_suspend(std::coroutine_handle<Promise> handle) noexcept
{
    result_ = 0;
    asked_ = false;
    if (!suspend(handle))
        return false;
    stream_.start_write(*this);
    return true;
}

} // namespace acquit::runtime
