#include "service_support.h"

#include <acquit/amqp/wire/methods.h>

#include <numeric>

// Batches: how they are closed, what their outcomes become, and what a drain does with them.
namespace acquit::testing {
namespace {

using settle::batch_options;

std::vector<std::string> bodies(std::span<delivery> all)
{
    std::vector<std::string> texts;
    for (const auto& d : all)
        texts.emplace_back(d.text());
    return texts;
}

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

/// What is logged at `error` while it lives.
class logged_errors {
public:
    logged_errors()
    {
        runtime::set_log_callback([this](const runtime::log_record& record) {
            if (record.level == runtime::log_level::error)
                texts.emplace_back(record.text);
        });
    }
    ~logged_errors()
    {
        runtime::set_log_callback([](const runtime::log_record&) {});
    }
    std::vector<std::string> texts;
};

std::vector<std::string> problems_with(batch_options options, std::uint16_t prefetch)
{
    service s("amqp://nowhere");
    auto& made =
        s.consume(existing_queue("q").prefetch(prefetch), [](std::span<delivery>) { return ack; });
    made.batch(options);
    return made.problems(false);
}

// S8
TEST(batch, a_handler_may_be_a_function_or_a_coroutine_and_decide_for_all_or_for_each)
{
    const auto run_with = [](auto handler) {
        virtually(
            [&](host& there) -> task<> {
                there.model.put("q", 12);
                service s(there.client());
                s.consume(existing_queue("q").prefetch(8), handler).batch({.size = 4});
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(1s);
                });
                expect_clean(r);
                EXPECT_EQ(there.model["q"].acked.size(), 12U);
            },
            automatic());
    };
    run_with([](std::span<delivery>) { return ack; });
    run_with([](std::span<delivery>) -> task<outcome> {
        co_await runtime::sleep(1ms);
        co_return ack;
    });
    run_with([](std::span<delivery> all) { return std::vector<outcome>(all.size(), ack); });
    run_with([](std::span<delivery> all) -> task<std::vector<outcome>> {
        co_await runtime::sleep(1ms);
        co_return std::vector<outcome>(all.size(), ack);
    });
}

TEST(batch, is_closed_by_its_size_and_settled_in_one_frame)
{
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(seed);
        auto o = automatic();
        o.shuffle_seed = seed;
        o.stream.chunk_seed = seed;
        virtually(
            [](host& there) -> task<> {
                there.model.put("q", 60);
                service s(there.client());
                sizes_of_batches seen;
                s.consume(existing_queue("q").prefetch(20), seen.handler())
                    .batch({.size = 20, .within = 1h});
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    co_await runtime::sleep(1s);
                });
                expect_clean(r);
                EXPECT_EQ(seen.sizes, (std::vector<std::size_t>{20, 20, 20}));
                EXPECT_EQ(there.model["q"].acked.size(), 60U);
                EXPECT_EQ(there.latest().count<wire::basic::ack>(), 3U);
            },
            o);
    }
}

// s23
TEST(batch, is_closed_by_time_from_the_arrival_of_its_first_delivery)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            std::vector<runtime::time_point> called;
            sizes_of_batches seen;
            s.consume(existing_queue("q").prefetch(100), [&](std::span<delivery> all) {
                 called.push_back(runtime::loop::current().now());
                 return seen.handler()(all);
             }).batch({.size = 10, .within = 50ms});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(10s); // the worker waits already
                const auto began = runtime::loop::current().now();
                there.model.put("q", 3);
                co_await runtime::sleep(30ms);
                there.model.put("q", 3);
                co_await runtime::sleep(10s);
                EXPECT_EQ(called.size(), 1U);
                EXPECT_EQ(called.at(0) - began, 50ms);
                EXPECT_EQ(seen.sizes, (std::vector<std::size_t>{6}));
                // And again, after one that was closed by its size on the way.
                const auto again = runtime::loop::current().now();
                there.model.put("q", 9);
                co_await runtime::sleep(40ms);
                there.model.put("q", 2);
                co_await runtime::sleep(10s);
                EXPECT_EQ(seen.sizes, (std::vector<std::size_t>{6, 10, 1}));
                EXPECT_EQ(called.at(1) - again, 40ms);
                EXPECT_EQ(called.at(2) - again, 90ms);
            });
            expect_clean(r);
        },
        automatic());
}

// The time runs while every worker is busy.
TEST(batch, whose_time_is_over_is_taken_at_once_by_the_worker_that_comes_back)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            std::vector<std::pair<std::size_t, runtime::time_point>> called;
            s.consume(existing_queue("q").prefetch(100),
                      [&](std::span<delivery> all) -> task<outcome> {
                          called.emplace_back(all.size(), runtime::loop::current().now());
                          co_await runtime::sleep(200ms);
                          co_return ack;
                      })
                .batch({.size = 4, .within = 50ms});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                const auto began = runtime::loop::current().now();
                there.model.put("q", 6);
                co_await runtime::sleep(160ms);
                there.model.put("q", 1);
                co_await runtime::sleep(10s);
                EXPECT_EQ(called.size(), 2U);
                EXPECT_EQ(called.at(0).first, 4U);
                EXPECT_EQ(called.at(1).first, 3U);
                EXPECT_EQ(called.at(1).second - began, 200ms);
            });
            expect_clean(r);
        },
        automatic());
}

// s22
TEST(batch, larger_than_the_prefetch_is_refused_with_both_numbers)
{
    const auto found = problems_with({.size = 10}, 5);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_NE(found[0].find("\"q\""), std::string::npos) << found[0];
    EXPECT_NE(found[0].find("size 10"), std::string::npos) << found[0];
    EXPECT_NE(found[0].find("prefetch of 5"), std::string::npos) << found[0];
    EXPECT_EQ(problems_with({.size = 10}, 10).size(), 0U);
}

TEST(batch, without_a_size_or_a_time_is_refused)
{
    EXPECT_EQ(problems_with({.size = 0}, 5).size(), 1U);
    EXPECT_EQ(problems_with({.within = 0ms}, 5).size(), 1U);
    EXPECT_EQ(problems_with({.within = -1ms}, 5).size(), 1U);
    EXPECT_EQ(problems_with({.within = 1h + 1ns}, 5).size(), 1U);
    EXPECT_EQ(problems_with({.within = 1h}, 5).size(), 0U);
    EXPECT_EQ(problems_with({.size = 0, .within = 0ms}, 5).size(), 2U);
}

TEST(batch, of_a_handler_for_single_deliveries_is_refused)
{
    service s("amqp://nowhere");
    auto& made = s.consume(existing_queue("q"), [](delivery&) { return ack; });
    made.batch({});
    EXPECT_EQ(made.problems(false).size(), 1U);
}

TEST(batch, holds_64_unless_said_otherwise_and_never_more_than_the_prefetch)
{
    EXPECT_EQ(batch_options{}.size_for(256), 64U);
    EXPECT_EQ(batch_options{}.size_for(10), 10U);
    EXPECT_EQ(batch_options{.size = 100}.size_for(256), 100U);
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            service s(there.client());
            sizes_of_batches seen;
            s.consume(existing_queue("q").prefetch(4), seen.handler());
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(seen.sizes, (std::vector<std::size_t>{4, 4, 2}));
        },
        automatic());
}

// S8
TEST(batch, outcomes_of_each_go_to_the_delivery_at_their_place)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 6);
            service s(there.client());
            bool first = true;
            s.consume(existing_queue("q").prefetch(6),
                      [&](std::span<delivery> all) -> std::vector<outcome> {
                          if (!std::exchange(first, false))
                              return std::vector<outcome>(all.size(), ack);
                          return {ack, drop, retry(), ack, drop, ack};
                      });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            const auto& q = there.model["q"];
            EXPECT_EQ(q.acked, (std::vector<std::string>{"0", "3", "5", "2"}));
            EXPECT_EQ(q.dropped, (std::vector<std::string>{"1", "4"}));
            EXPECT_EQ(q.requeued, 1U);
        },
        automatic());
}

TEST(batch, with_too_few_outcomes_is_retried_from_there_and_says_so)
{
    virtually(
        [](host& there) -> task<> {
            const logged_errors log;
            there.model.put("q", 5);
            service s(there.client());
            bool first = true;
            s.consume(existing_queue("q").prefetch(5),
                      [&](std::span<delivery> all) -> std::vector<outcome> {
                          return {std::exchange(first, false) ? 3 : all.size(), ack};
                      });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
            EXPECT_EQ(there.model["q"].requeued, 2U);
            EXPECT_EQ(log.texts.size(), 1U);
        },
        automatic());
}

TEST(batch, with_too_many_outcomes_ignores_the_rest_and_says_so)
{
    virtually(
        [](host& there) -> task<> {
            const logged_errors log;
            there.model.put("q", 5);
            service s(there.client());
            s.consume(existing_queue("q").prefetch(5),
                      [](std::span<delivery> all) -> task<std::vector<outcome>> {
                          std::vector<outcome> decided(all.size(), ack);
                          decided.push_back(drop);
                          co_return decided;
                      });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 5U);
            EXPECT_EQ(there.model["q"].dropped.size(), 0U);
            EXPECT_EQ(log.texts.size(), 1U);
        },
        automatic());
}

// S11
TEST(batch, whose_handler_throws_is_treated_by_the_policy_delivery_by_delivery)
{
    for (const auto policy : {on_failure::retry, on_failure::drop, on_failure::stop}) {
        SCOPED_TRACE(static_cast<int>(policy));
        virtually(
            [policy](host& there) -> task<> {
                const logged_errors log;
                there.model.put("q", 5);
                service s(there.client());
                bool first = true;
                s.consume(existing_queue("q").prefetch(5),
                          [&](std::span<delivery>) -> task<outcome> {
                              co_await runtime::sleep(1ms);
                              if (std::exchange(first, false))
                                  throw std::runtime_error("no database");
                              co_return ack;
                          })
                    .on_error(policy);
                ran r;
                co_await runtime::with_scope([&](scope& tasks) -> task<> {
                    tasks.spawn(run_into(s, r));
                    co_await s.started();
                    co_await runtime::sleep(1s);
                    EXPECT_EQ(r.over, policy == on_failure::stop);
                    s.stop();
                });
                EXPECT_TRUE(r.result);
                if (!r.result)
                    co_return;
                expect_adds_up(*r.result);
                const auto& m = r.result->queues.at(0).metrics;
                const auto& q = there.model["q"];
                EXPECT_EQ(m.failed, 5U);
                EXPECT_EQ(m.retried, policy == on_failure::retry ? 5U : 0U);
                EXPECT_EQ(q.acked.size(), policy == on_failure::retry ? 5U : 0U);
                EXPECT_EQ(q.dropped.size(), policy == on_failure::drop ? 5U : 0U);
                EXPECT_EQ(m.abandoned, policy == on_failure::stop ? 5U : 0U);
                EXPECT_EQ(r.result->error != nullptr, policy == on_failure::stop);
                EXPECT_EQ(log.texts.size(), 1U) << "one failure is told once";
            },
            automatic());
    }
}

TEST(batch, never_holds_a_delivery_whose_body_was_dropped)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 2);
            there.model.put_body("q", std::string(2000, 'x'));
            there.model.put("q", 2, "later ");
            auto options = there.client();
            options.session.limits.body_size_max = 1000;
            service s(options);
            std::vector<std::string> seen;
            s.consume(existing_queue("q").prefetch(5), [&](std::span<delivery> all) {
                 for (auto& text : bodies(all))
                     seen.push_back(std::move(text));
                 return ack;
             }).batch({.size = 4, .within = 1h});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(seen, (std::vector<std::string>{"0", "1", "later 0", "later 1"}));
            EXPECT_EQ(there.model["q"].dropped.size(), 1U);
        },
        automatic());
}

TEST(batch, shows_each_message_as_it_came)
{
    auto o = automatic();
    o.stream.capacity = 300'000;
    o.stream.chunk_seed = 7;
    virtually(
        [](host& there) -> task<> {
            // Several receive segments per batch, and bodies of several frames.
            std::vector<std::string> sent;
            for (std::size_t i = 0; i < 60; ++i) {
                sent.emplace_back(i % 7 == 6 ? 200'000 + i : 20'000 + i,
                                  static_cast<char>('a' + i % 26));
                there.model.put_body("q", sent.back());
            }
            service s(there.client());
            std::vector<std::string> seen;
            s.consume(existing_queue("q").prefetch(60),
                      [&](std::span<delivery> all) -> task<outcome> {
                          co_await runtime::sleep(10ms);
                          for (auto& d : all) {
                              EXPECT_EQ(d.routing_key(), "q");
                              EXPECT_EQ(d.attempt(), 1U);
                              seen.emplace_back(d.text());
                          }
                          co_return ack;
                      })
                .batch({.size = 20});
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(5s);
            });
            expect_clean(r);
            EXPECT_TRUE(seen == sent);
        },
        o);
}

TEST(batch, concurrency_is_how_many_run_at_once_even_beyond_the_prefetch)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 40);
            service s(there.client());
            std::size_t running = 0;
            std::size_t running_max = 0;
            std::size_t handled = 0;
            s.consume(existing_queue("q").prefetch(10),
                      [&](std::span<delivery> all) -> task<outcome> {
                          running_max = std::max(running_max, ++running);
                          co_await runtime::sleep(1s);
                          --running;
                          handled += all.size();
                          co_return ack;
                      })
                .batch({.size = 6, .within = 10ms}) // 3 x 6 > 10
                .concurrency(3);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(60s);
                EXPECT_EQ(handled, 40U);
            });
            expect_clean(r);
            EXPECT_EQ(running_max, 2U) << "six, and four by time: the window holds no more";
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
