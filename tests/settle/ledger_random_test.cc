// Big windows, driven at random: growth, old deliveries that stay open, holes, short spans, give-back.
#include "ledger_harness.h"

#include <acquit/settle/ledger.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace acquit::settle::testing {
namespace {

std::uint64_t seed_of_this_run()
{
    if (const char* given = std::getenv("ACQUIT_TEST_SEED"))
        return std::strtoull(given, nullptr, 10);
    return std::random_device{}();
}

class random_channel {
public:
    random_channel(std::uint64_t seed, std::uint32_t prefetch, std::uint32_t hint)
        : random_{seed}, prefetch_{prefetch}, hint_{hint}, h_{hint}
    {
    }

    void step()
    {
        switch (below(16)) {
        case 0:
        case 1:
        case 2:
            deliver_some();
            break;
        case 3:
            for (std::uint64_t i = below(4); i > 0; --i)
                h_.skip();
            break;
        case 4:
            h_.flush(below(6));
            break;
        case 5:
        case 6:
            h_.flush();
            break;
        case 7:
            settle_in_order();
            break;
        case 8:
            if (below(4) == 0)
                give_back_some();
            break;
        case 9:
            if (below(64) == 0)
                h_.reset();
            break;
        default:
            settle_any();
        }
        most_ = std::max<std::uint64_t>(most_, h_.book.outstanding());
        // The bound that the class promises: places per outstanding delivery.
        ASSERT_LE(h_.book.capacity(), std::max<std::uint64_t>({64, 8 * std::bit_ceil(most_),
                                                               4 * std::bit_ceil(hint_)}));
    }

    void finish() { h_.finish(); }

private:
    std::uint64_t below(std::uint64_t n)
    {
        return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random_);
    }
    disposition any() { return below(4) != 0 ? disposition::ack : all_dispositions[below(3)]; }
    void deliver_some()
    {
        const std::uint64_t room =
            prefetch_ - std::min<std::uint64_t>(prefetch_, h_.book.outstanding());
        h_.deliver(static_cast<int>(std::min(room, below(prefetch_ / 4 + 1))));
    }
    // The three oldest are held most of the time.
    std::size_t held() { return below(256) == 0 ? 0 : std::min<std::size_t>(3, h_.open.size()); }
    void settle_in_order()
    {
        const std::size_t from = held();
        const auto tags =
            std::vector(h_.open.begin() + static_cast<std::ptrdiff_t>(from), h_.open.end());
        const std::size_t count = std::min<std::size_t>(tags.size(), below(64));
        for (std::size_t i = 0; i < count; ++i)
            h_.settle(tags[i], below(16) == 0 ? any() : disposition::ack);
    }
    void settle_any()
    {
        for (std::uint64_t i = below(12); i > 0; --i) {
            const std::size_t from = held();
            if (h_.open.size() > from)
                h_.settle(h_.open[from + below(h_.open.size() - from)], any());
        }
    }
    // The newest ones as a drain does, or any range: then decided ones and old ones lie in it.
    void give_back_some()
    {
        if (h_.open.empty())
            return;
        std::uint64_t first = h_.open[below(h_.open.size())];
        std::uint64_t last = h_.book.next_tag() - below(2);
        if (below(2) == 0) {
            first = below(2) == 0 ? first : h_.open.front();
            last = std::max(first, h_.open[below(h_.open.size())]);
        }
        h_.give_back(first, last, below(2) == 0 ? SIZE_MAX : below(4));
    }

    std::mt19937_64 random_;
    std::uint64_t prefetch_;
    std::uint32_t hint_;
    std::uint64_t most_ = 0;
    ledger_harness h_;
};

TEST(ledger_random, agrees_with_the_server_whatever_happens)
{
    const std::uint64_t seed = seed_of_this_run();
    SCOPED_TRACE("ACQUIT_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random{seed};
    for (const std::uint32_t prefetch : {1u, 2u, 7u, 64u, 300u, 1000u, 4096u}) {
        const std::uint32_t hint = random() % 2 == 0 ? prefetch : 1;
        random_channel channel{random(), prefetch, hint};
        for (int i = 0; i < 6000 && !::testing::Test::HasFailure(); ++i)
            channel.step();
        channel.finish();
        ASSERT_FALSE(::testing::Test::HasFailure()) << "prefetch " << prefetch << ", hint " << hint;
    }
}

TEST(field_case_s24, random_completion_order_at_every_prefetch_settles_each_delivery_once)
{
    const std::uint64_t seed = seed_of_this_run();
    SCOPED_TRACE("ACQUIT_TEST_SEED=" + std::to_string(seed));
    std::mt19937_64 random{seed};
    for (int prefetch = 1; prefetch <= 40; ++prefetch) {
        ledger_harness h{static_cast<std::uint32_t>(prefetch)};
        for (int round = 0; round < 4; ++round) {
            h.deliver(prefetch);
            auto order = h.open;
            std::ranges::shuffle(order, random);
            for (const std::uint64_t tag : order) {
                h.settle(tag, disposition::ack);
                if (random() % 8 == 0)
                    h.flush();
            }
            h.flush();
        }
        h.finish();
    }
}

} // namespace
} // namespace acquit::settle::testing
