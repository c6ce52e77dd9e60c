#include "service_support.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/settle/delay_topology.h>

// What is said to the broker for a delay, frame by frame. Against real brokers: tests/broker.
namespace acquit::testing {
namespace {

using amqp::connection;

/// Every method of the topology in the order in which it was said, as text.
std::vector<std::string> said_for(const char* version, const settle::queue_description& origin,
                                  const std::string& name, const delay& waiting, bool declare,
                                  std::string* refusal = nullptr)
{
    std::vector<std::string> lines;
    virtually(
        [&](host& there) -> task<> {
            there.model.before = [&](peer&, const said& what) {
                if (what.is<wire::exchange::declare>()) {
                    const auto m = what.as<wire::exchange::declare>();
                    lines.push_back(std::string("exchange.declare ") + std::string(m.exchange) +
                                    " " + std::string(m.type) + (m.passive ? " passive" : "") +
                                    (m.durable ? " durable" : "") +
                                    (m.auto_delete ? " auto_delete" : "") + " " +
                                    wire::describe(m.arguments));
                } else if (what.is<wire::queue::bind>()) {
                    const auto m = what.as<wire::queue::bind>();
                    lines.push_back("queue.bind " + std::string(m.queue) + " to " +
                                    std::string(m.exchange) + " by " + std::string(m.routing_key));
                } else if (what.is<wire::queue::declare>()) {
                    const auto m = what.as<wire::queue::declare>();
                    lines.push_back(std::string("queue.declare ") + std::string(m.queue) +
                                    (m.passive ? " passive" : "") + (m.durable ? " durable" : "") +
                                    (m.exclusive ? " exclusive" : "") + " " +
                                    wire::describe(m.arguments));
                }
                return false;
            };
            const auto ended = co_await connected(there, [&](connection& c, peer&) -> task<> {
                auto failure = declare ? failure_of(declare_delay(c, origin, name, waiting))
                                       : failure_of(check_delay(c, origin, name, waiting));
                const auto why = co_await std::move(failure);
                if (refusal != nullptr)
                    *refusal = why ? text_of(why) : "";
                else
                    EXPECT_FALSE(why) << text_of(why);
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        automatic(version));
    return lines;
}

using lines = std::vector<std::string>;

// RabbitMQ's plugin: the type of the exchange, what it routes by, and the queue bound by its name (an
// exchange that is bound without a key routes nothing: s85).
TEST(delay_topology_D6, the_plugins_exchange_is_durable_direct_and_bound_by_the_queues_name)
{
    EXPECT_EQ(said_for("4.0.5", quorum_queue{"orders"}, "orders", delay::plugin_dme(), true),
              (lines{"exchange.declare orders.delay x-delayed-message durable "
                     "{x-delayed-type=S:\"direct\"}",
                     "queue.bind orders to orders.delay by orders"}));
    EXPECT_EQ(said_for("3.10.8", existing_queue{"q"}, "q", delay::plugin_dme("later"), true),
              (lines{"exchange.declare later x-delayed-message durable "
                     "{x-delayed-type=S:\"direct\"}",
                     "queue.bind q to later by q"}));
}

TEST(delay_topology_D6, the_exchange_of_a_queue_that_goes_goes_with_it)
{
    EXPECT_EQ(said_for("4.0.5", classic_queue{""}.exclusive().durable(false), "amq.gen-J",
                       delay::plugin_dme(), true),
              (lines{"exchange.declare gen-J.delay x-delayed-message auto_delete "
                     "{x-delayed-type=S:\"direct\"}",
                     "queue.bind amq.gen-J to gen-J.delay by amq.gen-J"}));
}

TEST(delay_topology_D6, a_check_asks_passively_and_makes_nothing)
{
    EXPECT_EQ(said_for("4.0.5", existing_queue{"q"}, "q", delay::plugin_dme(), false),
              (lines{"exchange.declare q.delay x-delayed-message passive {}"}));
}

TEST(delay_topology_D6, from_4_3_on_the_plugin_is_refused_without_asking)
{
    for (const bool declare : {true, false})
        for (const char* version : {"4.3.0", "4.3.6", "5.0.0"}) {
            std::string refusal;
            EXPECT_EQ(
                said_for(version, quorum_queue{"q"}, "q", delay::plugin_dme(), declare, &refusal),
                lines{});
            EXPECT_NE(refusal.find("does not exist for RabbitMQ " + std::string(version)),
                      std::string::npos)
                << refusal;
        }
}

TEST(delay_topology_D7, native_asks_nothing_and_is_refused_before_4_3)
{
    std::string refusal;
    EXPECT_EQ(said_for("4.2.9", quorum_queue{"q"}, "q", delay::native(1s, 2s), true, &refusal),
              lines{});
    EXPECT_NE(refusal.find("need RabbitMQ 4.3"), std::string::npos) << refusal;
    EXPECT_EQ(said_for("4.3.0", quorum_queue{"q"}, "q", delay::native(1s, 2s), true), lines{});
}

TEST(delay_topology_D9, waiting_queues_are_declared_with_all_that_they_need)
{
    EXPECT_EQ(said_for("4.0.5", classic_queue{"q"}, "q",
                       delay::hold(3).overflow_to(delay::buckets({1s})), true),
              (lines{"queue.declare q.retry.1000 durable {x-queue-type=S:\"quorum\", "
                     "x-dead-letter-exchange=S:\"\", x-dead-letter-routing-key=S:\"q\", "
                     "x-dead-letter-strategy=S:\"at-least-once\", "
                     "x-overflow=S:\"reject-publish\", x-message-ttl=l:1000}"}));
    EXPECT_EQ(said_for("4.0.5", classic_queue{""}.exclusive(), "amq.gen-J", delay::dlx_ttl(), true),
              (lines{"queue.declare gen-J.retry durable exclusive {x-queue-type=S:\"classic\", "
                     "x-dead-letter-exchange=S:\"\", "
                     "x-dead-letter-routing-key=S:\"amq.gen-J\"}"}));
}

TEST(delay_topology_D9, a_check_of_waiting_queues_is_passive_and_ends_at_the_first_that_is_missing)
{
    std::string refusal;
    EXPECT_EQ(
        said_for("4.0.5", existing_queue{"q"}, "q", delay::buckets({1s, 2s}), false, &refusal),
        (lines{"queue.declare q.retry.1000 passive {}"}));
    EXPECT_NE(refusal.find("q.retry.1000"), std::string::npos) << refusal;
}

TEST(service_start, refuses_a_waiting_queue_that_two_queues_share)
{
    virtually(
        [](host& there) -> task<> {
            for (const char* name : {"a", "b", "later"})
                there.model[name]; // the broker would have nothing against it
            service s(there.client());
            const auto handler = [](delivery&) -> outcome { return ack; };
            s.consume(classic_queue("a"), handler).delay(delay::dlx_ttl("later"));
            s.consume(classic_queue("b"), handler).delay(delay::dlx_ttl("later"));
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await runtime::sleep(1s);
                s.stop();
            });
            EXPECT_TRUE(as<start_error>(r.failure));
            EXPECT_NE(text_of(r.failure).find("later"), std::string::npos) << text_of(r.failure);
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
