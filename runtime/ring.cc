#include <acquit/runtime/assert.h>
#include <acquit/runtime/error.h>
#include <acquit/runtime/ring.h>

#include <liburing.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

namespace acquit::runtime {

namespace {

constexpr std::uint32_t no_slot = std::numeric_limits<std::uint32_t>::max();
// Of kernel 6.12; liburing before 2.9 has no names for them.
constexpr std::uint16_t pbuf_ring_incremental = 2; // IOU_PBUF_RING_INC
constexpr unsigned cqe_buffer_shift = 16;          // IORING_CQE_BUFFER_SHIFT
constexpr std::size_t page_size = 4096;

constexpr int send_flags = MSG_NOSIGNAL | MSG_WAITALL;

std::string advice(int code)
{
    switch (code) {
    case ENOSYS:
        return "io_uring is not available: the kernel is too old (5.11 is needed, 6.1 or newer is "
               "best) or "
               "was built without it, or a seccomp profile hides it; containers: allow the "
               "io_uring_setup, io_uring_enter and io_uring_register system calls";
    case EPERM:
    case EACCES:
        return "io_uring is not permitted: look at `sysctl kernel.io_uring_disabled` (0 allows it) "
               "and, "
               "in a container, at its seccomp profile, which must allow io_uring_setup, "
               "io_uring_enter "
               "and io_uring_register (docker: --security-opt seccomp=...)";
    case ENOMEM:
        return "io_uring_setup ran out of memory or of the memory lock limit (`ulimit -l`)";
    case EMFILE:
    case ENFILE:
        return "io_uring_setup ran out of file descriptors (`ulimit -n`)";
    default:
        return "io_uring_setup";
    }
}

bool allowed_by_environment(const char* variable) noexcept
{
    const char* value = std::getenv(variable);
    return value == nullptr || std::strcmp(value, "0") != 0;
}

void check(int result) noexcept
{
    // ETIME and EINTR end a wait; EAGAIN and EBUSY ask us to reap first, which the caller does next.
    if (result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN ||
        result == -EBUSY)
        return;
    ACQUIT_ASSERT(false, "io_uring_enter failed: {}", std::strerror(-result));
}

} // namespace

ring::ring(const ring_options& options)
    : ring_(std::make_unique<io_uring>()), first_free_(no_slot),
      provides_(options.provided_memory && allowed_by_environment("ACQUIT_RING_PROVIDED_MEMORY"))
{
    constexpr unsigned always = IORING_SETUP_CLAMP;
    const unsigned attempts[] = {
        always | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        always | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
        always,
    };
    const bool defer = options.defer_taskrun && allowed_by_environment("ACQUIT_RING_DEFER_TASKRUN");
    int result = -EINVAL;
    for (std::size_t attempt = defer ? 0 : 1; attempt < std::size(attempts); ++attempt) {
        std::memset(ring_.get(), 0, sizeof *ring_);
        result = io_uring_queue_init(options.entries, ring_.get(), attempts[attempt]);
        if (result == 0) {
            defers_taskrun_ = attempt == 0;
            break;
        }
        if (result != -EINVAL)
            break;
    }
    if (result < 0)
        throw io_error(-result, advice(-result));
    if ((ring_->features & IORING_FEAT_EXT_ARG) == 0) {
        io_uring_queue_exit(ring_.get());
        throw io_error(ENOSYS, advice(ENOSYS));
    }
    slots_.reserve(options.entries);
}

ring::~ring()
{
    io_uring_queue_exit(ring_.get());
}

io_uring_sqe* ring::take_entry() noexcept
{
    for (;;) {
        if (auto* entry = io_uring_get_sqe(ring_.get())) [[likely]]
            return entry;
        submit();
    }
}

std::uint64_t ring::take_slot(completion_target target) noexcept
{
    std::uint32_t index = first_free_;
    if (index == no_slot) {
        index = static_cast<std::uint32_t>(slots_.size());
        slots_.emplace_back();
    } else {
        first_free_ = slots_[index].next_free;
    }
    slots_[index].target = target;
    ++in_flight_;
    return std::uint64_t{slots_[index].generation} << 32 | index;
}

void ring::free_slot(std::uint32_t index) noexcept
{
    slot& freed = slots_[index];
    if (++freed.generation == 0) // 0 would make a token that names nothing
        freed.generation = 1;
    freed.target = {};
    freed.next_free = first_free_;
    first_free_ = index;
    --in_flight_;
}

ring::slot* ring::find(std::uint64_t user_data) noexcept
{
    const auto index = static_cast<std::uint32_t>(user_data);
    if (index >= slots_.size() || slots_[index].generation != user_data >> 32 ||
        slots_[index].target.call == nullptr)
        return nullptr;
    return &slots_[index];
}

ring_token ring::finish(io_uring_sqe* entry, completion_target target) noexcept
{
    const std::uint64_t user_data = take_slot(target);
    entry->user_data = user_data;
    return ring_token(user_data);
}

ring_token ring::recv(int fd, std::span<std::byte> into, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_recv(entry, fd, into.data(), into.size(), 0);
    return finish(entry, target);
}

ring_token ring::recv_into(int fd, const provided_memory& memory, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_recv_multishot(entry, fd, nullptr, 0, 0);
    entry->flags |= IOSQE_BUFFER_SELECT;
    entry->buf_group = memory.group();
    return finish(entry, target);
}

ring_token ring::send(int fd, std::span<const std::byte> bytes, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_send(entry, fd, bytes.data(), bytes.size(), send_flags);
    return finish(entry, target);
}

ring_token ring::sendmsg(int fd, const msghdr* message, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_sendmsg(entry, fd, message, send_flags);
    return finish(entry, target);
}

ring_token ring::read(int fd, std::span<std::byte> into, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_read(entry, fd, into.data(), static_cast<unsigned>(into.size()), 0);
    return finish(entry, target);
}

ring_token ring::connect(int fd, const sockaddr* address, socklen_t size,
                         completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_connect(entry, fd, address, size);
    return finish(entry, target);
}

ring_token ring::accept(int fd, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_accept(entry, fd, nullptr, nullptr, SOCK_CLOEXEC);
    return finish(entry, target);
}

ring_token ring::poll(int fd, unsigned events, completion_target target) noexcept
{
    auto* entry = take_entry();
    io_uring_prep_poll_add(entry, fd, events);
    return finish(entry, target);
}

void ring::cancel(ring_token token) noexcept
{
    if (find(token.value_) == nullptr)
        return;
    auto* entry = take_entry();
    io_uring_prep_cancel64(entry, token.value_, 0);
    entry->user_data = 0; // names no slot: its own completion is of no interest
}

void ring::abandon(ring_token token) noexcept
{
    if (find(token.value_) != nullptr)
        free_slot(static_cast<std::uint32_t>(token.value_));
}

void ring::cancel_now(ring_token token) noexcept
{
    if (find(token.value_) == nullptr)
        return;
    submit(); // what is not submitted cannot be found
    io_uring_sync_cancel_reg what{};
    what.addr = token.value_;
    what.timeout.tv_sec = -1; // as long as it takes
    what.timeout.tv_nsec = -1;
    int result = 0;
    do {
        result = io_uring_register_sync_cancel(ring_.get(), &what);
    } while (result == -EINTR || result == -EALREADY || result == -EAGAIN);
    // ENOENT: it has ended, and its last completion is there or about to be.
    ACQUIT_ASSERT(result >= 0 || result == -ENOENT, "cancelling in place failed: {}",
                  std::strerror(-result));
    check(io_uring_get_events(ring_.get())); // runs what was left of it
    abandon(token);
}

void ring::submit() noexcept
{
    const unsigned prepared = io_uring_sq_ready(ring_.get());
    if (prepared == 0)
        return;
    ++statistics_.enters;
    check(io_uring_submit(ring_.get()));
    statistics_.submitted += prepared - io_uring_sq_ready(ring_.get());
}

void ring::submit_and_wait(std::optional<duration> limit) noexcept
{
    const unsigned prepared = io_uring_sq_ready(ring_.get());
    const bool sleeps = !limit || *limit > duration::zero();
    // Where completions are counted, one that was counted may still wait for us to enter: those that
    // are here already are no reason to stay out.
    if (!sleeps && prepared == 0 && (in_flight_ == 0 || (has_completions() && !counted_)))
        return;
    ++statistics_.enters;
    if (!sleeps) {
        check(io_uring_submit_and_get_events(ring_.get()));
    } else if (!limit) {
        check(io_uring_submit_and_wait(ring_.get(), 1));
    } else {
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*limit);
        __kernel_timespec limit_spec{seconds.count(), (*limit - seconds).count()};
        io_uring_cqe* first = nullptr;
        check(io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &limit_spec, nullptr));
    }
    statistics_.submitted += prepared - io_uring_sq_ready(ring_.get());
}

unsigned ring::reap() noexcept
{
    unsigned reaped = 0;
    const unsigned most = ring_->cq.ring_entries;
    while (reaped < most) {
        unsigned head = 0;
        io_uring_cqe* completion = nullptr;
        unsigned found = 0;
        io_uring_for_each_cqe(ring_.get(), head, completion)
        {
            ++found;
            const std::uint64_t user_data = completion->user_data;
            const std::int32_t result = completion->res;
            const std::uint32_t flags = completion->flags;
            io_uring_cq_advance(ring_.get(), 1); // before the target, which may prepare and submit
            if (slot* known = find(user_data)) {
                const completion_target target = known->target;
                if (!more_follow(flags))
                    free_slot(static_cast<std::uint32_t>(user_data));
                target.call(target.object, result, flags);
            } else if (user_data != 0 && user_data != LIBURING_UDATA_TIMEOUT) {
                ++statistics_.late;
            }
        }
        if (found == 0)
            break;
        reaped += found;
    }
    statistics_.completions += reaped;
    return reaped;
}

bool ring::more_follow(std::uint32_t flags) noexcept
{
    return (flags & IORING_CQE_F_MORE) != 0;
}

std::uint16_t ring::piece_of(std::uint32_t flags) noexcept
{
    return static_cast<std::uint16_t>(flags >> cqe_buffer_shift);
}

// The kernel reads the pieces' addresses from here; it wants a page's alignment.
struct alignas(page_size) provided_memory::page {
    std::byte entries[page_size];
    [[nodiscard]] io_uring_buf_ring* get() noexcept
    {
        return reinterpret_cast<io_uring_buf_ring*>(entries);
    }
};

std::unique_ptr<provided_memory> ring::provide()
{
    if (!provides_)
        return nullptr;
    const bool fresh = free_groups_.empty();
    if (fresh && next_group_ == std::numeric_limits<std::uint16_t>::max())
        return nullptr;
    const std::uint16_t group = fresh ? next_group_ : free_groups_.back();
    auto entries = std::make_unique<provided_memory::page>();
    io_uring_buf_ring_init(entries->get());
    io_uring_buf_reg what{};
    what.ring_addr = reinterpret_cast<std::uintptr_t>(entries.get());
    what.ring_entries = provided_memory::pieces_max;
    what.bgid = group;
    // The field behind bgid: `pad` in liburing 2.3, `flags` in later ones.
    std::memcpy(reinterpret_cast<std::byte*>(&what) + offsetof(io_uring_buf_reg, bgid) +
                    sizeof what.bgid,
                &pbuf_ring_incremental, sizeof pbuf_ring_incremental);
    if (const int result = io_uring_register_buf_ring(ring_.get(), &what, 0); result != 0) {
        if (result == -EINVAL)
            provides_ = false; // this kernel never will
        return nullptr;
    }
    if (fresh)
        free_groups_.reserve(++next_group_); // so that giving it back takes no memory
    else
        free_groups_.pop_back();
    return std::unique_ptr<provided_memory>(new provided_memory(*this, std::move(entries), group));
}

provided_memory::provided_memory(ring& owner, std::unique_ptr<page> entries,
                                 std::uint16_t group) noexcept
    : ring_(owner), entries_(std::move(entries)), group_(group)
{
}

provided_memory::~provided_memory()
{
    const int result = io_uring_unregister_buf_ring(ring_.ring_.get(), group_);
    ACQUIT_ASSERT(result == 0, "io_uring_unregister_buf_ring: {}", std::strerror(-result));
    ring_.free_groups_.push_back(group_);
}

void provided_memory::add(std::span<std::byte> piece, std::uint16_t id) noexcept
{
    io_uring_buf_ring_add(entries_->get(), piece.data(), static_cast<unsigned>(piece.size()), id,
                          io_uring_buf_ring_mask(pieces_max), 0);
    io_uring_buf_ring_advance(entries_->get(), 1);
}

bool ring::has_prepared() const noexcept
{
    return io_uring_sq_ready(ring_.get()) != 0;
}

bool ring::has_completions() const noexcept
{
    return io_uring_cq_ready(ring_.get()) != 0;
}

void ring::count_completions(int event_fd)
{
    if (const int failed = io_uring_register_eventfd(ring_.get(), event_fd); failed < 0)
        throw io_error(-failed, "io_uring_register_eventfd");
    counted_ = true;
}

} // namespace acquit::runtime
