// Rows S1 to S3, S6, S7, S9 and S11: what becomes of a message by what its handler decides.
#include "broker.h"
#include "tap.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <set>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

namespace {

using numbers = std::multiset<std::size_t>;

numbers up_to(std::size_t n)
{
    numbers all;
    for (std::size_t i = 0; i < n; ++i)
        all.insert(i);
    return all;
}

template <class F>
void for_each_kind(F test)
{
    for (const kind k : {kind::classic, kind::quorum}) {
        SCOPED_TRACE(k == kind::quorum ? "quorum" : "classic");
        test(k);
    }
}

} // namespace

TEST(S1_ack, the_broker_forgets_an_acked_message)
{
    for_each_kind([](kind k) {
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 10);
            service s{service_options()};
            numbers handled;
            runtime::event all;
            s.consume(queue, [&](delivery& d) {
                handled.insert(number_in(d.text()));
                if (handled.size() == 10)
                    all.set();
                return ack;
            });
            const auto r = co_await while_serving(s, [&]() -> task<> { co_await all.wait(); });
            EXPECT_EQ(handled, up_to(10));
            EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
            EXPECT_EQ(r.queues.at(0).metrics.acked, 10U);
            EXPECT_EQ(r.queues.at(0).metrics.settlement.settled, 10U);
            EXPECT_TRUE(r.clean()) << r.text();
            expect_adds_up(r);
        });
    });
}

TEST(S1_ack, a_coroutine_that_suspends_acks_as_well_as_a_plain_function)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 100);
        service s{service_options()};
        numbers handled;
        runtime::event all;
        s.consume(queue, [&](delivery& d) -> task<outcome> {
             const auto n = number_in(d.text());
             co_await sleep(std::chrono::microseconds(n % 7 * 100));
             EXPECT_EQ(number_in(d.text()), n)
                 << "the body changed while the handler was suspended";
             handled.insert(n);
             if (handled.size() == 100)
                 all.set();
             co_return ack;
         }).concurrency(16);
        const auto r = co_await while_serving(s, [&]() -> task<> { co_await all.wait(); });
        EXPECT_EQ(handled, up_to(100));
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        expect_adds_up(r);
    });
}

TEST(S2_drop, a_dropped_message_goes_to_the_dead_letter_exchange_of_its_queue)
{
    for_each_kind([](kind k) {
        place here;
        const auto queue = here.name();
        const auto dead = here.name(".dead");
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, dead, kind::classic);
            wire::table more;
            more.set("x-dead-letter-exchange", "").set("x-dead-letter-routing-key", dead);
            co_await make_queue(ch, queue, k, more);
            co_await publish(c, queue, 5);
            service s{service_options()};
            s.consume(queue, [](delivery& d) { return number_in(d.text()) % 2 == 0 ? drop : ack; });
            const auto r =
                co_await while_serving(s, [&]() -> task<> { return until_ready(ch, dead, 3); });
            numbers arrived;
            for (const auto& m : co_await take_all(ch, dead))
                arrived.insert(number_in(m.body_text()));
            EXPECT_EQ(arrived, (numbers{0, 2, 4}));
            EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
            EXPECT_EQ(r.queues.at(0).metrics.dropped, 3U);
            expect_adds_up(r);
        });
    });
}

TEST(S2_drop, without_a_dead_letter_exchange_a_dropped_message_is_gone)
{
    for_each_kind([](kind k) {
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 4);
            service s{service_options()};
            std::size_t calls = 0;
            runtime::event all;
            s.consume(queue, [&](delivery&) {
                if (++calls == 4)
                    all.set();
                return drop;
            });
            const auto r = co_await while_serving(s, [&]() -> task<> { co_await all.wait(); });
            EXPECT_EQ(calls, 4U);
            EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
            expect_adds_up(r);
        });
    });
}

TEST(S3_retry, a_classic_queue_delivers_again_and_counts_nothing)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await publish(c, queue, 1);
        service s{service_options()};
        std::vector<bool> redelivered;
        runtime::event done;
        s.consume(queue, [&](delivery& d) -> outcome {
            redelivered.push_back(d.redelivered());
            EXPECT_FALSE(header_of(d, "x-delivery-count"));
            EXPECT_EQ(d.attempt(), 1U) << "nobody counts on a classic queue without a limit";
            if (redelivered.size() < 4)
                return retry();
            done.set();
            return ack;
        });
        const auto r = co_await while_serving(s, [&]() -> task<> { co_await done.wait(); });
        EXPECT_EQ(redelivered, (std::vector<bool>{false, true, true, true}));
        EXPECT_EQ(r.queues.at(0).metrics.retried, 3U);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        expect_adds_up(r);
    });
}

TEST(S3_retry, a_quorum_queue_counts_each_return)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 1);
        service s{service_options()};
        std::vector<std::int64_t> counts;
        std::vector<std::uint32_t> attempts;
        runtime::event done;
        s.consume(queue, [&](delivery& d) -> outcome {
            counts.push_back(header_of(d, "x-delivery-count").value_or(0));
            attempts.push_back(d.attempt());
            if (counts.size() < 4)
                return retry();
            done.set();
            return ack;
        });
        (void)co_await while_serving(s, [&]() -> task<> { co_await done.wait(); });
        EXPECT_EQ(counts, (std::vector<std::int64_t>{0, 1, 2, 3}));
        EXPECT_EQ(attempts, (std::vector<std::uint32_t>{1, 2, 3, 4}));
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
}

TEST(S3_retry, a_limit_on_a_quorum_queue_is_kept_by_the_broker)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::size_t calls = 0;
        s.consume(quorum_queue{queue},
                  [&](delivery& d) -> outcome {
                      EXPECT_EQ(d.attempt(), ++calls);
                      return retry();
                  })
            .max_attempts(3)
            .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(ch.owner(), queue, 1);
            co_await until_ready(ch, dead, 1);
        });
        EXPECT_EQ(calls, 3U);
        expect_adds_up(r);
    });
}

TEST(S5_retry_after, without_a_declared_delay_a_message_comes_back_at_once_and_is_counted)
{
    for_each_kind([](kind k) {
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 1);
            service s{service_options()};
            runtime::event done;
            s.consume(queue, [&](delivery& d) -> outcome {
                if (!d.redelivered())
                    return retry_after(1h);
                done.set();
                return ack;
            });
            const auto r = co_await while_serving(s, [&]() -> task<> { co_await done.wait(); });
            EXPECT_EQ(r.queues.at(0).metrics.retries.delays_dropped, 1U);
            expect_adds_up(r);
        });
    });
}

TEST(S6_frames, no_outcome_is_ever_sent_as_a_nack)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 50);
        tap wire_tap{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(wire_tap.run());
            service s{wire_tap.options()};
            std::size_t decided = 0;
            runtime::event all;
            s.consume(queue, [&](delivery& d) -> task<outcome> {
                 co_await sleep(0ns);
                 if (!d.redelivered()) {
                     switch (number_in(d.text()) % 4) {
                     case 0:
                         co_return retry();
                     case 1:
                         co_return retry_after(1s);
                     case 2:
                         throw std::runtime_error("on purpose");
                     default:
                         break;
                     }
                 }
                 if (++decided == 50)
                     all.set();
                 co_return number_in(d.text()) % 2 == 0 ? drop : ack;
             }).concurrency(8);
            const auto r = co_await while_serving(s, [&]() -> task<> { co_await all.wait(); });
            EXPECT_EQ(r.queues.at(0).metrics.failed, 12U);
            expect_adds_up(r);
            EXPECT_EQ(wire_tap.times(wire::id_of<wire::basic::nack>), 0U);
            // 38 of 50 came back first, and 25 were dropped: a reject settles one delivery.
            EXPECT_EQ(wire_tap.times(wire::id_of<wire::basic::reject>), 38U + 25U);
            EXPECT_GT(wire_tap.times(wire::id_of<wire::basic::ack>), 0U);
            tasks.cancel();
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
}

TEST(S7_give_back, only_a_drain_nacks_and_only_what_no_handler_saw)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 40);
        tap wire_tap{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(wire_tap.run());
            service s{wire_tap.options()};
            s.drain(drain_policy::give_back);
            numbers begun;
            runtime::event go_on;
            s.consume(existing_queue{queue}.prefetch(20), [&](delivery& d) -> task<outcome> {
                 begun.insert(number_in(d.text()));
                 co_await go_on.wait();
                 co_return ack;
             }).concurrency(2);
            std::optional<report> r;
            tasks.spawn(detail::into(s.run(), r));
            co_await s.started();
            co_await until(ch, "twenty deliveries", [&] { return s[0].metrics().received == 20; });
            EXPECT_EQ(wire_tap.times(wire::id_of<wire::basic::nack>), 0U);
            s.stop();
            co_await until_ready(ch, queue, 38);
            EXPECT_GT(wire_tap.times(wire::id_of<wire::basic::nack>), 0U);
            EXPECT_EQ(begun, (numbers{0, 1})) << "a drain that gives back begins nothing new";
            go_on.set();
            co_await until(ch, "the report", [&] { return r.has_value(); });
            EXPECT_EQ(r->given_back(), 18U);
            EXPECT_EQ(r->queues.at(0).metrics.acked, 2U);
            expect_adds_up(*r);
            for (const auto& nack : wire_tap.methods(0)) {
                if (nack.id == wire::id_of<wire::basic::nack>)
                    EXPECT_TRUE(nack.flag) << "requeue";
            }
            tasks.cancel();
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 38U);
        const bool counts_nacks = !c.server_is_at_least(4, 3);
        numbers left;
        for (const auto& m : co_await take_all(ch, queue)) {
            const auto n = number_in(m.body_text());
            left.insert(n);
            EXPECT_EQ(header_of(m, "x-delivery-count").value_or(0), counts_nacks && n < 20 ? 1 : 0)
                << "message " << n;
        }
        auto expected = up_to(40);
        expected.erase(0);
        expected.erase(1);
        EXPECT_EQ(left, expected);
    });
}

TEST(S9_no_ack, a_handler_without_an_outcome_consumes_without_writing_anything)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        tap wire_tap{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(wire_tap.run());
            for (const bool coroutine : {false, true}) {
                SCOPED_TRACE(coroutine);
                service s{wire_tap.options()};
                numbers seen;
                runtime::event all;
                const auto note = [&](std::string_view text) {
                    seen.insert(number_in(text));
                    if (seen.size() == 50)
                        all.set();
                };
                if (coroutine) {
                    s.consume(queue, [&](message& m) -> task<> {
                         co_await sleep(0ns);
                         note(m.text());
                     }).concurrency(4);
                } else {
                    s.consume(queue, [&](message& m) { note(m.text()); });
                }
                const std::size_t connection = wire_tap.connections();
                const auto r = co_await while_serving(s, [&]() -> task<> {
                    const auto before = wire_tap.bytes();
                    co_await publish(c, queue, 50);
                    co_await all.wait();
                    co_await ch.barrier();
                    EXPECT_EQ(wire_tap.bytes(), before);
                });
                EXPECT_EQ(seen, up_to(50));
                bool consumed = false;
                for (const auto& m : wire_tap.methods(connection)) {
                    if (m.id != wire::id_of<wire::basic::consume>)
                        continue;
                    consumed = true;
                    EXPECT_TRUE(m.flag) << "no_ack";
                }
                EXPECT_TRUE(consumed);
                expect_adds_up(r);
            }
            EXPECT_EQ(wire_tap.times(wire::id_of<wire::basic::ack>), 0U);
            EXPECT_EQ(wire_tap.times(wire::id_of<wire::basic::reject>), 0U);
            EXPECT_EQ(wire_tap.times(wire::id_of<wire::basic::nack>), 0U);
            tasks.cancel();
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
}

TEST(S11_throwing_handler, is_a_retry_unless_said_otherwise)
{
    for (const bool coroutine : {false, true}) {
        SCOPED_TRACE(coroutine);
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, kind::quorum);
            co_await publish(c, queue, 1);
            service s{service_options()};
            std::size_t calls = 0;
            runtime::event done;
            const auto decide = [&]() -> outcome {
                if (++calls < 3)
                    throw std::runtime_error("on purpose");
                done.set();
                return ack;
            };
            if (coroutine)
                s.consume(queue, [&](delivery&) -> task<outcome> { co_return decide(); });
            else
                s.consume(queue, [&](delivery&) -> outcome { return decide(); });
            const auto r = co_await while_serving(s, [&]() -> task<> { co_await done.wait(); });
            EXPECT_EQ(calls, 3U);
            EXPECT_EQ(r.queues.at(0).metrics.failed, 2U);
            EXPECT_EQ(r.queues.at(0).metrics.retried, 2U);
            EXPECT_TRUE(r.clean()) << r.text();
            expect_adds_up(r);
        });
    }
}

TEST(S11_throwing_handler, may_be_a_drop)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, dead, kind::classic);
        wire::table more;
        more.set("x-dead-letter-exchange", "").set("x-dead-letter-routing-key", dead);
        co_await make_queue(ch, queue, kind::classic, more);
        co_await publish(c, queue, 3);
        service s{service_options()};
        s.consume(queue, [](delivery& d) -> task<outcome> {
             if (number_in(d.text()) == 1)
                 throw 1; // not even an exception
             co_return ack;
         }).on_error(on_failure::drop);
        const auto r =
            co_await while_serving(s, [&]() -> task<> { return until_ready(ch, dead, 1); });
        EXPECT_EQ(r.queues.at(0).metrics.failed, 1U);
        EXPECT_EQ(r.queues.at(0).metrics.dropped, 1U);
        EXPECT_TRUE(r.clean()) << r.text();
        expect_adds_up(r);
    });
}

TEST(S11_throwing_handler, may_stop_the_service_and_leave_its_delivery_to_the_broker)
{
    for_each_kind([](kind k) {
        place here;
        const auto queue = here.name();
        here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
            co_await make_queue(ch, queue, k);
            co_await publish(c, queue, 5);
            service s{service_options()};
            s.consume(queue, [](delivery& d) -> task<outcome> {
                 co_await sleep(0ns);
                 if (number_in(d.text()) == 2)
                     throw std::runtime_error("no more of this");
                 co_return ack;
             }).on_error(on_failure::stop);
            const auto r = co_await s.run(); // ends by itself
            EXPECT_FALSE(r.clean());
            try {
                require(r.error != nullptr, "an error in the report");
                std::rethrow_exception(r.error);
            } catch (const std::runtime_error& e) {
                EXPECT_STREQ(e.what(), "no more of this");
            }
            EXPECT_EQ(r.queues.at(0).metrics.abandoned, 1U);
            expect_adds_up(r);
            const auto left = co_await take_all(ch, queue);
            require(left.size() == 1, "one message left in the queue");
            EXPECT_EQ(number_in(left[0].body_text()), 2U);
            EXPECT_TRUE(left[0].redelivered);
        });
    });
}

TEST(settling, twenty_thousand_messages_each_end_exactly_once)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    const auto seed = std::random_device{}();
    std::cout << "seed " << seed << '\n';
    constexpr std::size_t total = 20000;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, dead, kind::classic);
        wire::table more;
        more.set("x-dead-letter-exchange", "").set("x-dead-letter-routing-key", dead);
        co_await make_queue(ch, queue, kind::quorum, more);
        co_await publish(c, queue, total);

        std::mt19937 random(seed);
        std::vector<char> ended(total, 0); // 'a' acked, 'd' dropped
        std::size_t open = total;
        std::uint64_t retries = 0;
        runtime::event all;
        service s{service_options()};
        s.consume(existing_queue{queue}.prefetch(500), [&](delivery& d) -> task<outcome> {
             const auto n = number_in(d.text());
             const auto dice = random() % 100;
             if (dice % 3 != 0)
                 co_await sleep(std::chrono::microseconds(dice % 5 * 100));
             EXPECT_EQ(ended.at(n), 0) << "message " << n << " was delivered after its end";
             if (dice < 15) {
                 ++retries;
                 co_return retry();
             }
             ended[n] = dice < 30 ? 'd' : 'a';
             if (--open == 0)
                 all.set();
             co_return dice < 30 ? drop : ack;
         }).concurrency(64);
        const auto r = co_await while_serving(s, [&]() -> task<> { co_await all.wait(); });
        EXPECT_TRUE(r.clean()) << r.text();
        expect_adds_up(r);
        const auto& m = r.queues.at(0).metrics;
        EXPECT_EQ(m.acked + m.dropped, total);
        EXPECT_EQ(m.retried, retries);
        EXPECT_EQ(m.settlement.settled, total + retries);
        EXPECT_EQ(m.stale, 0U);

        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        co_await until_ready(ch, dead, m.dropped);
        for (const auto& letter : co_await take_all(ch, dead)) {
            auto& how = ended.at(number_in(letter.body_text()));
            EXPECT_EQ(how, 'd') << letter.body_text();
            how = 'x'; // a second letter of the same message fails
        }
        EXPECT_EQ(std::count(ended.begin(), ended.end(), 'd'), 0);
    });
}
