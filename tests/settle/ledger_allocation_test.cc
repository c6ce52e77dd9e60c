// A program of its own: it replaces the allocation functions of the whole program to count their calls.
#include <acquit/settle/ledger.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>

namespace {
std::size_t allocations = 0;
}

void* operator new(std::size_t size)
{
    ++allocations;
    if (void* memory = std::malloc(size == 0 ? 1 : size))
        return memory;
    throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept
{
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace acquit::settle {
namespace {

TEST(ledger_L6, settling_and_flushing_never_allocate)
{
    constexpr std::uint64_t window = 256;
    ledger book{window};
    std::array<std::byte, window * 21> out{};
    std::size_t in_delivered = 0;
    std::size_t in_the_rest = 0;
    std::uint64_t tag = 0;
    for (int round = 0; round < 50; ++round) {
        const std::size_t before = allocations;
        const std::uint64_t first = tag + 1;
        // Two stay open for ever, and become stragglers.
        while (book.outstanding() < window)
            ASSERT_TRUE(book.delivered(++tag));
        const std::size_t settling = allocations;
        in_delivered += settling - before;
        for (std::uint64_t each = tag; each >= first; --each) {
            if (each > 2) {
                const auto how = each % 5 == 0 ? disposition::reject : disposition::ack;
                ASSERT_EQ(book.settle(each, how), settled::done);
            }
        }
        ASSERT_TRUE(book.flush(out, 1).complete);
        in_the_rest += allocations - settling;
    }
    const std::size_t before = allocations;
    ASSERT_EQ(book.settle(2, disposition::requeue), settled::done);
    ASSERT_TRUE(book.flush(out, 1).complete);
    ASSERT_EQ(book.give_back(out, 1, 1, 1).settled, 1u);
    book.reset();
    in_the_rest += allocations - before;

    EXPECT_EQ(in_the_rest, 0u);
    EXPECT_LE(in_delivered, 1u); // the list of stragglers, once
    EXPECT_GT(allocations, 0u);  // the counter counts
}

} // namespace
} // namespace acquit::settle
