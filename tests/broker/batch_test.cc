// Row S8, and the field cases of batches: s22, s23.
#include "broker.h"
#include "tap.h"

#include <acquit/amqp/wire/methods.h>

#include <gtest/gtest.h>

#include <set>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

TEST(S8_batch, is_settled_as_a_whole_in_few_frames)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        SCOPED_TRACE(k == kind::quorum ? "quorum" : "classic");
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 1000);
            tap line{runtime::loop::current()};
            co_await with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(line.run());
                service s{line.options()};
                std::multiset<std::size_t> seen;
                std::size_t largest = 0;
                s.consume(existing_queue{queue}.prefetch(200),
                          [&](std::span<delivery> all) -> task<outcome> {
                              co_await sleep(1ms);
                              largest = std::max(largest, all.size());
                              for (const auto& d : all)
                                  seen.insert(number_in(d.text()));
                              co_return ack;
                          })
                    .batch({.size = 50, .within = 1s})
                    .concurrency(2);
                const auto r = co_await while_serving(s, [&]() -> task<> {
                    co_await until(ch, "all", [&] { return seen.size() == 1000; });
                });
                EXPECT_EQ(largest, 50U);
                EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 1000U);
                EXPECT_EQ(r.queues.at(0).metrics.acked, 1000U);
                expect_adds_up(r);
                EXPECT_LE(line.times(wire::id_of<wire::basic::ack>), 100U)
                    << "batches were acked one by one";
                tasks.cancel();
            });
            EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
        });
    }
}

TEST(S8_batch, one_outcome_for_each_reaches_its_message)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        SCOPED_TRACE(k == kind::quorum ? "quorum" : "classic");
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 30);
            service s{service_options()};
            std::vector<std::size_t> acked;
            std::vector<std::size_t> dropped;
            std::size_t again = 0;
            s.consume(existing_queue{queue}.prefetch(30),
                      [&](std::span<delivery> all) -> std::vector<outcome> {
                          std::vector<outcome> decided;
                          for (const auto& d : all) {
                              const auto n = number_in(d.text());
                              if (n % 3 == 0 && !d.redelivered()) {
                                  decided.push_back(retry());
                              } else if (n % 3 == 1) {
                                  decided.push_back(drop);
                                  dropped.push_back(n);
                              } else {
                                  again += d.redelivered() ? 1 : 0;
                                  decided.push_back(ack);
                                  acked.push_back(n);
                              }
                          }
                          return decided;
                      })
                .batch({.size = 10, .within = 20ms});
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "all", [&] { return acked.size() + dropped.size() == 30; });
            });
            EXPECT_EQ(again, 10U);
            const auto& m = r.queues.at(0).metrics;
            EXPECT_EQ(m.acked, 20U);
            EXPECT_EQ(m.dropped, 10U);
            EXPECT_EQ(m.retried, 10U);
            expect_adds_up(r);
            EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
        });
    }
}

TEST(S8_batch, s23_that_never_fills_is_handled_when_its_time_is_over)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        service s{service_options()};
        std::size_t seen = 0;
        s.consume(existing_queue{queue}.prefetch(100), [&](std::span<delivery> all) {
             seen += all.size();
             return ack;
         }).batch({.size = 100, .within = 50ms});
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 99);
            co_await until(ch, "the batch", [&] { return seen == 99; });
            co_await publish(c, queue, 1);
            co_await until(ch, "the last", [&] { return seen == 100; });
        });
        EXPECT_EQ(r.queues.at(0).metrics.acked, 100U);
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 0U);
    });
}

TEST(S8_batch, s22_larger_than_the_prefetch_is_refused_before_anything_is_consumed)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        service s{service_options()};
        s.consume(existing_queue{queue}.prefetch(5), [](std::span<delivery>) {
             return ack;
         }).batch({.size = 10});
        std::string said;
        try {
            (void)co_await s.run();
        } catch (const start_error& refused) {
            said = refused.what();
        }
        EXPECT_NE(said.find("size 10"), std::string::npos) << said;
        EXPECT_NE(said.find("prefetch of 5"), std::string::npos) << said;
    });
}

TEST(S8_batch, half_full_in_a_drain_is_handled_or_given_back_by_policy)
{
    for (const auto policy : {drain_policy::finish_received, drain_policy::give_back}) {
        SCOPED_TRACE(policy == drain_policy::give_back ? "give back" : "finish");
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, kind::quorum);
            co_await publish(c, queue, 7);
            service s{service_options()};
            s.drain(policy);
            std::size_t seen = 0;
            s.consume(existing_queue{queue}.prefetch(20), [&](std::span<delivery> all) {
                 seen += all.size();
                 return ack;
             }).batch({.size = 20, .within = 1h});
            const auto r = co_await while_serving(s, [&]() -> task<> {
                co_await until(ch, "seven", [&] { return s[0].metrics().waiting == 7; });
            });
            const bool back = policy == drain_policy::give_back;
            EXPECT_EQ(seen, back ? 0U : 7U);
            EXPECT_EQ(r.given_back(), back ? 7U : 0U);
            EXPECT_TRUE(r.clean()) << r.text();
            expect_adds_up(r);
            co_await until_ready(ch, queue, back ? 7 : 0);
        });
    }
}
