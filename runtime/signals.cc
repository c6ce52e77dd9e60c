#include <acquit/runtime/assert.h>
#include <acquit/runtime/error.h>
#include <acquit/runtime/io_op.h>
#include <acquit/runtime/signals.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include <sys/eventfd.h>
#include <unistd.h>

namespace acquit::runtime {

namespace {

constexpr int highest_signal = 64;

std::uint64_t bit_of(int signal) noexcept
{
    return std::uint64_t{1} << (signal - 1);
}

/// One watcher. The descriptor is made on first use and never closed: a handler that runs in another
/// thread while a watcher ends could otherwise write into somebody else's file.
struct watcher_slot {
    std::atomic<int> fd{-1};
    std::atomic<std::uint64_t> watched{0};
    std::atomic<std::uint64_t> came{0};
    bool used = false;
};

std::array<watcher_slot, 64> slots;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free); // used within a signal handler

std::mutex registry; // guards `used` of the slots and what follows
std::array<unsigned, highest_signal + 1> watchers{};
std::array<struct sigaction, highest_signal + 1> previous{};

void handle(int signal)
{
    const int kept = errno;
    for (auto& slot : slots) {
        if ((slot.watched.load() & bit_of(signal)) == 0)
            continue;
        slot.came.fetch_or(bit_of(signal));
        const std::uint64_t one = 1;
        (void)!::write(slot.fd.load(), &one, sizeof one);
    }
    errno = kept;
}

void stop_watching(watcher_slot& slot) noexcept
{
    std::uint64_t signals = slot.watched.exchange(0);
    for (; signals != 0; signals &= signals - 1) {
        const int signal = std::countr_zero(signals) + 1;
        const auto index = static_cast<std::size_t>(signal);
        if (--watchers[index] == 0)
            ::sigaction(signal, &previous[index], nullptr);
    }
    slot.used = false;
}

} // namespace

signal_watcher::signal_watcher(std::initializer_list<int> signals) : slot_(0)
{
    const std::lock_guard lock(registry);
    while (slot_ < static_cast<int>(slots.size()) && slots[static_cast<std::size_t>(slot_)].used)
        ++slot_;
    if (slot_ == static_cast<int>(slots.size()))
        throw io_error(EMFILE, "too many signal watchers");
    auto& slot = slots[static_cast<std::size_t>(slot_)];
    if (slot.fd.load() < 0) {
        const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0)
            throw io_error(errno, "eventfd");
        slot.fd.store(fd);
    }
    slot.used = true;
    slot.came.store(0);
    for (const int signal : signals) {
        ACQUIT_ASSERT(signal >= 1 && signal <= highest_signal, "signal {}", signal);
        if ((slot.watched.load() & bit_of(signal)) != 0)
            continue;
        const auto index = static_cast<std::size_t>(signal);
        slot.watched.fetch_or(bit_of(signal));
        if (watchers[index]++ > 0)
            continue;
        struct sigaction action{};
        action.sa_handler = &handle;
        action.sa_flags = SA_RESTART;
        ::sigemptyset(&action.sa_mask);
        if (::sigaction(signal, &action, &previous[index]) != 0) {
            const int code = errno;
            --watchers[index];
            slot.watched.fetch_and(~bit_of(signal));
            stop_watching(slot);
            throw io_error(code, "sigaction");
        }
    }
}

signal_watcher::~signal_watcher()
{
    const std::lock_guard lock(registry);
    stop_watching(slots[static_cast<std::size_t>(slot_)]);
}

task<int> signal_watcher::next()
{
    auto& slot = slots[static_cast<std::size_t>(slot_)];
    for (;;) {
        if (const std::uint64_t came = slot.came.load(); came != 0) {
            slot.came.fetch_and(~(came & -came));
            co_return std::countr_zero(came) + 1;
        }
        co_await wait_readable(slot.fd.load());
        // First empty the descriptor, then look: the handler does it the other way round.
        std::uint64_t count = 0;
        (void)!::read(slot.fd.load(), &count, sizeof count);
    }
}

} // namespace acquit::runtime
