// Every order in which up to six deliveries can be decided, with every combination of decisions, and
// flushes in between: at every set of places for up to five deliveries, at each single place for six.
#include "ledger_harness.h"

#include <acquit/settle/ledger.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace acquit::settle::testing {
namespace {

// The harness of the other tests, without its allocations: there are millions of rounds.
//
// Rounds follow each other on one channel, so that the window lies at every place of a word and of the ring.
class small_window {
public:
    small_window() : book_{8}, server_{test_channel} {}

    // Decides `order.size()` deliveries; the first `old` of them become stragglers beforehand. Answers what
    // went wrong, or nullptr.
    const char* run(std::span<const std::uint8_t> order, std::uint32_t decisions,
                    std::uint32_t flush_after, std::size_t old)
    {
        if (++rounds_ % 10'000 == 0) {
            book_.reset();
            server_.reset();
        }
        n_ = order.size();
        states_.fill(state::open);
        for (std::size_t i = 0; i < n_; ++i) {
            if (i == old && old != 0)
                if (const char* wrong = let_much_go_by())
                    return wrong;
            tags_[i] = server_.deliver();
            if (!book_.delivered(tags_[i]))
                return "a delivery was refused";
        }
        if (old == n_)
            if (const char* wrong = let_much_go_by())
                return wrong;
        std::array<disposition, 6> chosen{};
        for (std::size_t i = 0; i < n_; ++i, decisions /= 3)
            chosen[i] = all_dispositions[decisions % 3];
        for (std::size_t i = 0; i < n_; ++i) {
            const std::uint8_t which = order[i];
            if (book_.settle(tags_[which], chosen[which]) != settled::done)
                return "a settlement was refused";
            states_[which] = chosen[which] == disposition::ack ? state::acked : state::refused;
            if (flush_after >> i & 1)
                if (const char* wrong = flush())
                    return wrong;
        }
        if (const char* wrong = flush())
            return wrong;
        if (!server_.unacked().empty() || book_.outstanding() != 0)
            return "something is still outstanding";
        for (std::size_t i = 0; i < n_; ++i)
            if (server_.fate_of(tags_[i]) != fate_after(chosen[i]))
                return "a delivery met another fate than was decided";
        return nullptr;
    }

    const std::string& error() const { return server_.error(); }

private:
    enum class state : std::uint8_t { open, acked, refused, told };

    // More than the ring holds.
    const char* let_much_go_by()
    {
        std::array<std::byte, 8 * 21> out;
        for (int i = 0; i < 9; ++i) {
            for (int k = 0; k < 8; ++k) {
                const std::uint64_t tag = server_.deliver();
                if (!book_.delivered(tag) || book_.settle(tag, disposition::ack) != settled::done)
                    return "a passing delivery was refused";
            }
            const flush_result result = book_.flush(out, test_channel);
            if (!server_.receive(std::span{out}.first(result.bytes)))
                return "the server closes the channel";
        }
        return book_.capacity() == 64 ? nullptr : "the ring has grown";
    }

    const char* flush()
    {
        unsigned fewest = 0;
        bool gap = false;
        bool acks_below = false;
        for (std::size_t i = 0; i < n_; ++i) {
            gap = gap || states_[i] == state::open;
            if (states_[i] == state::acked && !gap)
                acks_below = true;
            else if (states_[i] == state::acked || states_[i] == state::refused)
                ++fewest;
        }
        fewest += acks_below;
        std::array<std::byte, 6 * 21> out;
        server_.forget_received();
        const flush_result result = book_.flush(out, test_channel);
        if (!server_.receive(std::span{out}.first(result.bytes)))
            return "the server closes the channel";
        if (!result.complete || book_.unflushed() != 0)
            return "something was not told";
        if (result.frames != fewest)
            return "not the fewest frames";
        if (!std::ranges::is_sorted(server_.tags_received()))
            return "tags do not ascend";
        for (std::size_t i = 0; i < n_; ++i) {
            const bool told = server_.fate_of(tags_[i]) != fate::unacked;
            if (told != (states_[i] != state::open))
                return "told what was not decided";
            if (told)
                states_[i] = state::told;
        }
        return nullptr;
    }

    ledger book_;
    server_model server_;
    std::size_t n_ = 0;
    std::uint64_t rounds_ = 0;
    std::array<std::uint64_t, 6> tags_{};
    std::array<state, 6> states_{};
};

std::uint32_t power_of_3(std::size_t n)
{
    return n == 0 ? 1 : 3 * power_of_3(n - 1);
}

void all_orders_and_decisions(std::size_t n, std::span<const std::uint32_t> flushes,
                              std::size_t old = 0)
{
    small_window window;
    std::array<std::uint8_t, 6> all{};
    const std::span<std::uint8_t> order = std::span{all}.first(n);
    std::iota(order.begin(), order.end(), std::uint8_t{0});
    do {
        for (std::uint32_t decisions = 0; decisions < power_of_3(n); ++decisions)
            for (const std::uint32_t flush_after : flushes) {
                const char* wrong = window.run(order, decisions, flush_after, old);
                ASSERT_EQ(wrong, nullptr)
                    << "order " << ::testing::PrintToString(std::vector(order.begin(), order.end()))
                    << ", decisions " << decisions << " (base 3), flush after " << flush_after
                    << " (bits), old " << old << ": " << window.error();
            }
    } while (std::ranges::next_permutation(order).found);
}

// Every set of places but the last one, where there is always a flush.
std::vector<std::uint32_t> all_sets_of_places(std::size_t n)
{
    std::vector<std::uint32_t> flushes(std::size_t{1} << (n - 1));
    std::iota(flushes.begin(), flushes.end(), 0u);
    return flushes;
}

TEST(ledger_exhaustive, up_to_five_deliveries_with_flushes_at_every_set_of_places)
{
    for (std::size_t n = 1; n <= 5; ++n)
        all_orders_and_decisions(n, all_sets_of_places(n));
}

TEST(ledger_exhaustive, six_deliveries_with_a_flush_at_each_place)
{
    all_orders_and_decisions(6, std::array<std::uint32_t, 6>{0, 1, 2, 4, 8, 16});
}

TEST(ledger_exhaustive, up_to_four_deliveries_of_which_the_oldest_stayed_far_behind)
{
    for (std::size_t n = 1; n <= 4; ++n)
        for (std::size_t old = 1; old <= n; ++old)
            all_orders_and_decisions(n, all_sets_of_places(n), old);
}

} // namespace
} // namespace acquit::settle::testing
