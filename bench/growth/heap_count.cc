#include "heap_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace acquit::bench {

namespace {

constinit thread_local std::uint64_t allocations = 0;

void* counted(std::size_t size, std::size_t alignment)
{
    ++allocations;
    void* const memory =
        alignment <= alignof(std::max_align_t)
            ? std::malloc(size)
            : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

} // namespace

std::uint64_t heap_allocations() noexcept
{
    return allocations;
}

} // namespace acquit::bench

void* operator new(std::size_t size)
{
    return acquit::bench::counted(size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment)
{
    return acquit::bench::counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept
{
    std::free(memory);
}
