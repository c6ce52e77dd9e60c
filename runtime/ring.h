#pragma once

#include <acquit/runtime/clock.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sys/socket.h>

struct io_uring;
struct io_uring_sqe;
struct iovec;

namespace acquit::runtime {

/// Who is told about the end of an operation: a plain function and what to hand it. Called while
/// completions are reaped: it may store the result, make waiters ready and prepare operations, and
/// must not run code of the user. `result` is what the system call returns, or -errno.
struct completion_target {
    void (*call)(void* object, std::int32_t result, std::uint32_t flags) noexcept = nullptr;
    void* object = nullptr;
};

/// Names one operation in flight; false when it names none. An old token is harmless: it carries
/// the generation of its slot, and nothing that is done with it reaches the next user of the slot.
class ring_token {
public:
    ring_token() noexcept = default;
    [[nodiscard]] explicit operator bool() const noexcept { return value_ != 0; }

private:
    friend class ring;
    explicit ring_token(std::uint64_t value) noexcept : value_(value) {}
    std::uint64_t value_ = 0;
};

struct ring_options {
    /// Submission entries, 1 to 32768; rounded up to a power of two by the kernel. More operations
    /// than this may be in flight: a full queue is submitted first.
    unsigned entries = 256;
    /// Kernel 6.1: completions are worked off in our own enter only. Off in tests of the path that
    /// older kernels take; `ACQUIT_RING_DEFER_TASKRUN=0` in the environment has the same effect.
    bool defer_taskrun = true;
    /// Kernel 6.12: memory may be provided for receiving. Off in tests of the path that older kernels
    /// take; `ACQUIT_RING_PROVIDED_MEMORY=0` in the environment has the same effect.
    bool provided_memory = true;
};

struct ring_statistics {
    std::uint64_t enters = 0;      ///< io_uring_enter calls
    std::uint64_t submitted = 0;   ///< operations handed to the kernel
    std::uint64_t completions = 0; ///< completions reaped, those of cancels included
    std::uint64_t late = 0;        ///< completions whose operation was abandoned
};

class ring;

/// Memory that the kernel receives into when bytes come, given to it in advance
/// (`ring::recv_into`): one piece after the other, each from its beginning to its last byte. Who
/// adds a piece knows by counting bytes where the next ones go.
class provided_memory {
public:
    static constexpr unsigned pieces_max = 4;
    /// Gives up what is left; nothing may be receiving into it any more.
    ~provided_memory();
    provided_memory(const provided_memory&) = delete;
    provided_memory& operator=(const provided_memory&) = delete;

    /// `id` comes back with the completions for this piece. At most `pieces_max` at a time.
    void add(std::span<std::byte> piece, std::uint16_t id) noexcept;
    [[nodiscard]] std::uint16_t group() const noexcept { return group_; }

private:
    friend class ring;
    struct page;
    provided_memory(ring& owner, std::unique_ptr<page> entries, std::uint16_t group) noexcept;
    ring& ring_;
    std::unique_ptr<page> entries_;
    std::uint16_t group_;
};

/// The kernel's side of a loop: prepares operations, submits them, turns completions into calls.
/// The only file that knows liburing. Knows neither coroutines nor cancellation (stream.h,
/// io_op.h).
///
/// Preparing never fails: where the submission queue is full it is submitted first. What an
/// operation points to must live until its target was called.
class ring {
public:
    /// Throws io_error and says what to change: kernel too old (ENOSYS), sysctl
    /// kernel.io_uring_disabled or a container's seccomp profile (EPERM), memory lock limit
    /// (ENOMEM).
    explicit ring(const ring_options& options = {});
    ~ring();
    ring(const ring&) = delete;
    ring& operator=(const ring&) = delete;

    ring_token recv(int fd, std::span<std::byte> into, completion_target target) noexcept;
    /// Receives again and again into what is provided, a completion each (`more_follow` but for the
    /// last). Ends with -ENOBUFS when all of it is full: provide more, then begin anew.
    ring_token recv_into(int fd, const provided_memory& memory, completion_target target) noexcept;
    ring_token send(int fd, std::span<const std::byte> bytes, completion_target target) noexcept;
    ring_token sendmsg(int fd, const msghdr* message, completion_target target) noexcept;
    ring_token read(int fd, std::span<std::byte> into, completion_target target) noexcept;
    ring_token connect(int fd, const sockaddr* address, socklen_t size,
                       completion_target target) noexcept;
    ring_token accept(int fd, completion_target target) noexcept;
    /// `events` as of poll(2); the result is the mask that came.
    ring_token poll(int fd, unsigned events, completion_target target) noexcept;

    /// Asks the kernel to end the operation; its target is still called, once, with -ECANCELED or
    /// with the result it had by then.
    void cancel(ring_token token) noexcept;
    /// Ends the operation before it returns (a system call): the kernel uses what it points to no
    /// longer, and its target is not called any more. Kernel 6.0.
    void cancel_now(ring_token token) noexcept;
    /// The target is not called any more. The kernel may still use what the operation points to.
    void abandon(ring_token token) noexcept;

    /// Hands prepared operations over without waiting.
    void submit() noexcept;
    /// One system call: submits, then waits for a completion or until `limit` is over. No limit:
    /// waits as long as it takes; a limit of zero never sleeps.
    void submit_and_wait(std::optional<duration> limit) noexcept;
    /// Calls the targets of all completions that are there, at most one queue full. Returns how
    /// many.
    unsigned reap() noexcept;

    /// Null where the kernel cannot fill provided memory piece by piece (before 6.12), or has no
    /// room for more of it.
    [[nodiscard]] std::unique_ptr<provided_memory> provide();
    /// Of a completion's flags: the operation goes on, more completions follow.
    [[nodiscard]] static bool more_follow(std::uint32_t flags) noexcept;
    /// Of a completion's flags: the piece of provided memory that was filled.
    [[nodiscard]] static std::uint16_t piece_of(std::uint32_t flags) noexcept;

    [[nodiscard]] bool has_prepared() const noexcept;
    [[nodiscard]] bool has_completions() const noexcept;
    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
    /// From now on each completion also counts up `event_fd`. Throws io_error. Watch that, not the
    /// ring's own descriptor: an epoll within an epoll misses the ring's wake-ups (measured on 6.18).
    void count_completions(int event_fd);
    [[nodiscard]] bool defers_taskrun() const noexcept { return defers_taskrun_; }
    [[nodiscard]] const ring_statistics& statistics() const noexcept { return statistics_; }

private:
    struct slot {
        completion_target target;
        std::uint32_t generation = 1;
        std::uint32_t next_free = 0;
    };
    friend class provided_memory;
    io_uring_sqe* take_entry() noexcept;
    std::uint64_t take_slot(completion_target target) noexcept;
    ring_token finish(io_uring_sqe* entry, completion_target target) noexcept;
    [[nodiscard]] slot* find(std::uint64_t user_data) noexcept;
    void free_slot(std::uint32_t index) noexcept;

    std::unique_ptr<io_uring> ring_;
    std::vector<slot> slots_;
    std::uint32_t first_free_;
    std::size_t in_flight_ = 0;
    bool defers_taskrun_ = false;
    bool counted_ = false; // count_completions was called
    bool provides_;        // allowed, and not refused by the kernel so far
    std::uint16_t next_group_ = 0;
    std::vector<std::uint16_t> free_groups_;
    ring_statistics statistics_;
};

} // namespace acquit::runtime
