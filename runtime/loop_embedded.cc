#include <acquit/runtime/loop.h>
#include <acquit/runtime/ring.h>

#include <cerrno>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

// A loop inside a foreign one. What the foreign loop watches is an epoll descriptor over an event counter,
// which the ring raises with each completion, and a timer, which stands for everything else: the nearest
// timer of ours, or, set to now, work that is left or was made ready between two calls of `poll`.
namespace acquit::runtime {

namespace {

void watch(int epoll, int fd)
{
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        throw io_error(errno, "epoll_ctl");
}

void set_timer(int fd, time_point at) noexcept
{
    const auto since_epoch = at.time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
    itimerspec spec{};
    spec.it_value.tv_sec = seconds.count();
    spec.it_value.tv_nsec = (since_epoch - seconds).count();
    ::timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, nullptr); // clears an expiry as well
}

constexpr time_point never{};              // disarms
constexpr time_point at_once{duration{1}}; // long past

} // namespace

int loop::fd()
{
    ACQUIT_ASSERT(ring_ != nullptr, "a loop with virtual time cannot be embedded");
    if (epoll_fd_ >= 0)
        return epoll_fd_;
    timer_fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer_fd_ < 0)
        throw io_error(errno, "timerfd_create");
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        throw io_error(errno, "epoll_create1");
    epoll_fd_ = epoll;
    completion_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (completion_fd_ < 0)
        throw io_error(errno, "eventfd");
    ring_->count_completions(completion_fd_);
    watch(epoll_fd_, completion_fd_);
    watch(epoll_fd_, timer_fd_);
    if (!in_turn_)
        leave_to_foreign_loop();
    return epoll_fd_;
}

void loop::poll()
{
    loop* const previous = current_;
    current_ = this;
    outside_ = false;
    unusual_ = options_.shuffle_seed != 0;
    sleeping_.store(false);
    if (completion_fd_ >= 0) {
        std::uint64_t counted; // before the completions are reaped: a later one counts anew
        (void)!::read(completion_fd_, &counted, sizeof counted);
    }
    one_turn(false);
    if (epoll_fd_ >= 0)
        leave_to_foreign_loop();
    else
        ring_->submit();
    current_ = previous;
}

void loop::leave_to_foreign_loop() noexcept
{
    outside_ = true;
    unusual_ = true;
    arm_wake_up();
    ring_->submit();
    sleeping_.store(true);
    if (!ready_.empty() || !hooks_.empty() || posted_.load() != nullptr || ring_->has_completions())
        set_timer(timer_fd_, at_once);
    else
        set_timer(timer_fd_, timers_.empty() ? never : timers_.earliest());
}

void loop::signal_foreign_loop() noexcept
{
    set_timer(timer_fd_, at_once);
}

} // namespace acquit::runtime
