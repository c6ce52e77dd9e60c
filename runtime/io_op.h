#pragma once

#include <acquit/runtime/loop.h>
#include <acquit/runtime/ring.h>
#include <acquit/runtime/waiter.h>

namespace acquit::runtime {

/// A ring operation as an awaitable leaf: prepares it, keeps its result, and on cancellation asks
/// the kernel and waits for its answer. Derive and say what to prepare; see socket.cc for uses.
class io_op : public waiter {
public:
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        start();
        return true;
    }

protected:
    io_op() noexcept = default;
    ~io_op() = default;
    virtual ring_token prepare(ring& io, completion_target target) noexcept = 0;
    /// What the system call returned, or -errno. Throws operation_cancelled where it was ended by
    /// cancellation; where it was done all the same, its result counts.
    std::int32_t result() const;

private:
    void start() noexcept;
    void on_cancel() noexcept final;
    static void completed(void* self, std::int32_t result, std::uint32_t flags) noexcept;

    ring_token token_;
    std::int32_t result_ = 0;
    bool asked_ = false;
};

/// `co_await wait_readable(fd)`: until poll(2) would report it, POLLHUP and POLLERR included.
/// Throws io_error, operation_cancelled.
class [[nodiscard]] poll_op final : public io_op {
public:
    poll_op(int fd, unsigned events) noexcept : fd_(fd), events_(events) {}
    void await_resume() const;

private:
    ring_token prepare(ring& io, completion_target target) noexcept override;
    int fd_;
    unsigned events_;
};

poll_op wait_readable(int fd) noexcept;
poll_op wait_writable(int fd) noexcept;

} // namespace acquit::runtime
