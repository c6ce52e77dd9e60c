#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define ACQUIT_PLAIN_FRAMES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define ACQUIT_PLAIN_FRAMES 1
#endif
#endif
#ifndef ACQUIT_PLAIN_FRAMES
#define ACQUIT_PLAIN_FRAMES 0
#endif

/// Memory of coroutine frames: per thread, free lists by size in steps of 64 bytes up to 4 KiB. A
/// frame may be freed on another thread than its own; it then stays there. Under the address
/// sanitizer every frame is a plain allocation, so that use after free is seen.
namespace acquit::runtime::frame_pool {

inline constexpr std::size_t step = 64;
inline constexpr std::size_t largest = 4096;
/// A list keeps at most so many bytes; what comes back beyond that is given back to the heap.
/// Enough for 4,096 handlers of 512 bytes at once.
inline constexpr std::size_t cached_per_size = 2 * 1024 * 1024;

namespace detail {

struct free_frame {
    free_frame* next;
};
struct size_class {
    free_frame* first;
    std::size_t count;
};
// Trivial on purpose: a thread-local with a destructor costs a guard at each use. The cleaning at
// thread exit is registered by the slow path.
struct thread_state {
    size_class classes[largest / step + 1];
    std::uint64_t allocated;
    bool closed;
};
extern constinit thread_local thread_state state;

void* allocate_slow(std::size_t size);
void release_slow(void* frame, std::size_t size) noexcept;

} // namespace detail

/// Frames of this thread that had to be taken from the heap since it began. Stands still in a
/// steady state; the allocation tests look at it.
[[nodiscard]] std::uint64_t allocated_total() noexcept;

inline void* allocate(std::size_t size)
{
    if constexpr (!ACQUIT_PLAIN_FRAMES) {
        if (size <= largest) [[likely]] {
            auto& free = detail::state.classes[(size + step - 1) / step];
            if (free.first != nullptr) [[likely]] {
                auto* frame = free.first;
                free.first = frame->next;
                --free.count;
                return frame;
            }
        }
    }
    return detail::allocate_slow(size);
}

inline void release(void* frame, std::size_t size) noexcept
{
    if constexpr (!ACQUIT_PLAIN_FRAMES) {
        if (size <= largest) [[likely]] {
            const std::size_t index = (size + step - 1) / step;
            auto& free = detail::state.classes[index];
            if (free.count * index * step < cached_per_size && !detail::state.closed) [[likely]] {
                free.first = ::new (frame) detail::free_frame{free.first};
                ++free.count;
                return;
            }
        }
    }
    detail::release_slow(frame, size);
}

} // namespace acquit::runtime::frame_pool
