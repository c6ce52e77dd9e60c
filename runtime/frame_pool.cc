#include <acquit/runtime/frame_pool.h>

namespace acquit::runtime::frame_pool {

namespace detail {

constinit thread_local thread_state state{};

namespace {

struct thread_end {
    ~thread_end()
    {
        state.closed = true;
        for (std::size_t index = 0; index <= largest / step; ++index) {
            auto& free = state.classes[index];
            while (free.first != nullptr) {
                auto* frame = free.first;
                free.first = frame->next;
                ::operator delete(frame, index * step);
            }
            free.count = 0;
        }
    }
};
thread_local thread_end cleaning;

std::size_t rounded(std::size_t size) noexcept
{
    return size <= largest ? (size + step - 1) / step * step : size;
}

} // namespace

void* allocate_slow(std::size_t size)
{
    (void)&cleaning; // registers the destructor on this thread
    ++state.allocated;
    return ::operator new(rounded(size));
}

void release_slow(void* frame, std::size_t size) noexcept
{
    ::operator delete(frame, rounded(size));
}

} // namespace detail

std::uint64_t allocated_total() noexcept
{
    return detail::state.allocated;
}

} // namespace acquit::runtime::frame_pool
