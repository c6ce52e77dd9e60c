#include "service_support.h"

#include <acquit/amqp/wire/methods.h>

#include <numeric>

// Batches: what a drain, a lost channel and the end of a service do with them.
namespace acquit::testing {
namespace {

/// Sizes of the batches that a handler was called with.
struct sizes_of_batches {
    std::vector<std::size_t> sizes;
    auto handler()
    {
        return [this](std::span<delivery> all) {
            sizes.push_back(all.size());
            return ack;
        };
    }
    [[nodiscard]] std::size_t sum() const
    {
        return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    }
};

// X3
TEST(batch, that_is_half_full_is_handled_at_once_by_a_drain)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 7);
            service s(there.client());
            sizes_of_batches seen;
            s.consume(existing_queue("q").prefetch(20), seen.handler())
                .batch({.size = 20, .within = 1h});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                EXPECT_EQ(s[0].metrics().waiting, 7U);
                EXPECT_EQ(seen.sizes.size(), 0U);
            });
            expect_clean(r);
            EXPECT_EQ(seen.sizes, (std::vector<std::size_t>{7}));
            EXPECT_EQ(there.model["q"].acked.size(), 7U);
            if (r.result) {
                EXPECT_LT(r.result->drain_time, 1s);
            }
        },
        automatic());
}

TEST(batch, backlog_of_several_is_handled_to_the_last_by_a_drain)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 17);
            service s(there.client());
            sizes_of_batches seen;
            s.consume(existing_queue("q").prefetch(20),
                      [&](std::span<delivery> all) -> task<outcome> {
                          co_await runtime::sleep(1s);
                          co_return seen.handler()(all);
                      })
                .batch({.size = 5, .within = 1h});
            const auto r = co_await serving(s, [&]() -> task<> { co_await s.started(); });
            expect_clean(r);
            EXPECT_EQ(seen.sum(), 17U);
            EXPECT_EQ(seen.sizes.size(), 4U);
        },
        automatic());
}

// X5
TEST(batch, that_is_half_full_is_given_back_where_that_is_the_policy)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 17);
            service s(there.client());
            s.drain(drain_policy::give_back);
            sizes_of_batches seen;
            s.consume(existing_queue("q").prefetch(20),
                      [&](std::span<delivery> all) -> task<outcome> {
                          co_await runtime::sleep(1s);
                          co_return seen.handler()(all);
                      })
                .batch({.size = 5, .within = 1h});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(3500ms);
                EXPECT_EQ(s[0].metrics().waiting, 2U);
            });
            expect_clean(r);
            EXPECT_EQ(seen.sizes, (std::vector<std::size_t>{5, 5, 5}));
            EXPECT_EQ(there.model["q"].given_back, 2U);
            EXPECT_EQ(there.model["q"].ready.size(), 2U);
        },
        automatic());
}

TEST(batch, in_hand_when_its_channel_goes_is_stale_and_comes_again)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 12);
            service s(there.client());
            std::vector<bool> redelivered;
            s.consume(existing_queue("q").prefetch(8),
                      [&](std::span<delivery> all) -> task<outcome> {
                          for (auto& d : all)
                              redelivered.push_back(d.redelivered());
                          co_await runtime::sleep(1s);
                          co_return ack;
                      })
                .batch({.size = 6});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(500ms);
                auto& p = there.latest();
                p.close_channel(p.channel_of<wire::basic::consume>(),
                                wire::reply_code::internal_error, "INTERNAL_ERROR");
                co_await runtime::sleep(20s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 12U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
            if (r.result) {
                const auto& m = r.result->queues.at(0).metrics;
                EXPECT_EQ(m.stale, 6U);
                EXPECT_EQ(m.dropped_unhandled, 2U);
            }
        },
        automatic());
}

TEST(batch, whose_handler_is_cut_short_is_abandoned)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 12);
            service s(there.client());
            s.drain_deadline(1s);
            s.consume(existing_queue("q").prefetch(8), [&](std::span<delivery>) -> task<outcome> {
                 co_await runtime::sleep(1h);
                 co_return ack;
             }).batch({.size = 6, .within = 1h});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(500ms);
            });
            EXPECT_TRUE(r.result);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            expect_adds_up(*r.result);
            EXPECT_EQ(r.result->queues.at(0).metrics.abandoned, 8U);
            EXPECT_EQ(there.model["q"].lost_unsettled, 8U);
        },
        automatic());
}

TEST(batch, leaves_no_timer_behind_when_its_service_ends)
{
    std::unique_ptr<service> s;
    virtually(
        [&](host& there) -> task<> {
            there.model["q"];
            s = std::make_unique<service>(there.client());
            s->consume(existing_queue("q").prefetch(8), [](std::span<delivery>) -> outcome {
                 return ack;
             }).batch({.size = 2, .within = 1h});
            const auto r = co_await serving(*s, [&]() -> task<> {
                co_await s->started();
                there.model.put("q", 2);
                co_await settle_down();
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 2U);
        },
        automatic());
    s.reset();
}

} // namespace
} // namespace acquit::testing
