// Rows D4 to D7 and D9 below the service: what is declared for limits and delays, what is
// checked, and what a refusal says.
#include "topology_support.h"

#include <acquit/settle/delay_topology.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/topology.h>

#include <gtest/gtest.h>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;
using settle::check_delay;
using settle::declare_delay;
using settle::declare_queue;
using settle::queue_kind;
using settle::retry_limit;

namespace {

using steady = std::chrono::steady_clock;

task<amqp::received> next_of(amqp::channel& ch, std::string_view queue)
{
    const auto deadline = steady::now() + std::chrono::seconds(30);
    for (;;) {
        if (auto m = co_await ch.get(queue, true))
            co_return std::move(*m);
        require(steady::now() < deadline, std::string(queue) + " stayed empty");
    }
}

/// As a copy is sent to its waiting queue, and how long until it is back.
task<std::chrono::nanoseconds> through(amqp::channel& ch, const std::string& waiting,
                                       const std::string& back, const char* expiration)
{
    const auto sent = steady::now();
    amqp::outgoing copy{.routing_key = waiting, .mandatory = true};
    copy.properties.delivery_mode = 2;
    if (expiration != nullptr)
        copy.properties.expiration = expiration;
    copy.body = amqp::bytes_of(waiting);
    co_await ch.publish_confirmed(copy);
    const auto m = co_await next_of(ch, back);
    require(m.body_text() == waiting, "another message came back");
    require(m.exchange.empty() && m.routing_key == back, "not by the default exchange");
    co_return steady::now() - sent;
}

task<bool> exchange_exists(amqp::connection& c, std::string exchange)
{
    amqp::channel spare(c);
    co_await spare.open();
    try {
        co_await spare.declare_exchange({.exchange = exchange, .type = "direct", .passive = true});
    } catch (const channel_error& missing) {
        require(missing.code() == 404, missing.what());
        co_return false;
    }
    co_await spare.close();
    co_return true;
}

} // namespace

// -- D4, D5: waiting queues

TEST(D4_waiting_queue, of_each_origin_and_type_leads_back_to_its_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await ch.confirm_select();
        const std::vector<delay> ways{delay::dlx_ttl(),
                                      delay::dlx_ttl().waiting_in(queue_kind::classic),
                                      delay::dlx_ttl().waiting_in(queue_kind::quorum)};
        for (const auto& way : ways) {
            const auto classic = here.name(".c");
            const auto quorum = here.name(".q");
            const auto named = here.name(".n");
            co_await make_queue(ch, named, kind::classic);
            std::vector<settle::queue_description> origins{
                classic_queue{classic}, quorum_queue{quorum}, existing_queue{named}};
            for (const auto& origin : origins) {
                const auto name = co_await declare_queue(c, origin, {});
                co_await declare_delay(c, origin, name, way);
                co_await declare_delay(c, origin, name, way); // a restart: no conflict
                const auto waited = co_await through(ch, name + ".retry", name, "50");
                EXPECT_GE(waited, 50ms) << name;
                co_await check_delay(c, origin, name, way);
                co_await remove(ch, name + ".retry");
            }
        }
    });
}

TEST(D4_waiting_queue, is_a_quorum_queue_that_confirms_what_it_hands_back)
{
    place here;
    const auto queue = here.name();
    const auto waiting = here.name(".later");
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        const settle::queue_description origin = classic_queue{queue};
        (void)co_await declare_queue(c, origin, {});
        co_await declare_delay(c, origin, queue, delay::dlx_ttl(waiting));
        const auto line = listed(waiting);
        expect_says(line, {"quorum", "x-dead-letter-strategy", "at-least-once", "x-overflow",
                           "reject-publish", "x-dead-letter-exchange", "x-dead-letter-routing-key",
                           queue});
        EXPECT_EQ(line.find("x-expires"), std::string::npos) << line;
        EXPECT_EQ(line.find("x-message-ttl"), std::string::npos) << line;
    });
}

TEST(D5_buckets, each_step_leads_back_after_its_time)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await ch.confirm_select();
        const settle::queue_description origin = quorum_queue{queue};
        (void)co_await declare_queue(c, origin, {});
        const auto way = delay::hold(3).overflow_to(delay::buckets({20ms, 70ms}));
        co_await declare_delay(c, origin, queue, way);
        co_await check_delay(c, origin, queue, way);
        const auto shorter = co_await through(ch, queue + ".retry.20", queue, nullptr);
        EXPECT_GE(shorter, 20ms);
        const auto longer = co_await through(ch, queue + ".retry.70", queue, nullptr);
        EXPECT_GE(longer, 70ms);
        expect_says(listed(queue + ".retry.70"), {"quorum", "x-message-ttl", "70"});
        co_await remove(ch, queue + ".retry.20");
        co_await remove(ch, queue + ".retry.70");
    });
}

TEST(D4_waiting_queue, of_a_queue_that_the_server_named_goes_with_the_connection)
{
    place here;
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await ch.confirm_select();
        std::string waiting;
        amqp::connection other(broker_options());
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(other.run());
            co_await other.opened();
            amqp::channel theirs(other);
            co_await theirs.open();
            const settle::queue_description origin = classic_queue{""}.exclusive();
            const auto name = co_await declare_queue(other, origin, {});
            co_await declare_delay(other, origin, name, delay::dlx_ttl());
            waiting = delay::dlx_ttl().target(name);
            expect_says(listed(waiting), {"classic", waiting});
            // Copies are published on another connection than the consumer's.
            co_await ch.publish_confirmed({.routing_key = waiting,
                                           .mandatory = true,
                                           .properties = {.expiration = "1"},
                                           .body = amqp::bytes_of("back")});
            const auto back = co_await next_of(theirs, name);
            EXPECT_EQ(back.body_text(), "back");
            co_await other.close();
        });
        co_await until(ch, "the end of the exclusive queues",
                       [&] { return listed(waiting).empty(); });
    });
}

// -- D9: what is missing

TEST(D9_check, a_missing_waiting_queue_is_named_with_what_to_do_and_is_not_made)
{
    place here;
    const auto queue = here.name();
    const auto waiting = here.name(".later");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        const settle::queue_description origin = existing_queue{queue};
        const auto said =
            co_await refusal_of(check_delay(c, origin, queue, delay::dlx_ttl(waiting)));
        expect_says(said, {waiting, queue, "delay::dlx_ttl", "404", "declare_topology(true)",
                           "x-dead-letter-routing-key"});
        const bool made = co_await queue_exists(c, waiting);
        EXPECT_FALSE(made);
        co_await make_queue(ch, waiting, kind::classic); // made by whomever
        co_await check_delay(c, origin, queue, delay::dlx_ttl(waiting));
    });
}

TEST(D9_check, each_bucket_is_looked_for)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await make_queue(ch, queue + ".retry.1000", kind::classic);
        co_await make_queue(ch, queue + ".retry.3000", kind::classic);
        const settle::queue_description origin = existing_queue{queue};
        const auto way = delay::hold(5).overflow_to(delay::buckets({1s, 2s, 3s}));
        const auto said = co_await refusal_of(check_delay(c, origin, queue, way));
        expect_says(said, {queue + ".retry.2000", "delay::buckets", "x-message-ttl=l:2000"});
        co_await remove(ch, queue + ".retry.1000");
        co_await remove(ch, queue + ".retry.3000");
    });
}

TEST(D9_check, modes_without_a_target_need_none)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        for (const auto& way : {delay::none(), delay::hold(3)}) {
            co_await check_delay(c, quorum_queue{queue}, queue, way);
            co_await declare_delay(c, quorum_queue{queue}, queue, way);
        }
        const bool made = co_await queue_exists(c, queue + ".retry");
        EXPECT_FALSE(made);
    });
}

TEST(D9_declare, a_waiting_queue_that_leads_elsewhere_is_a_conflict)
{
    place here;
    const auto queue = brief("");
    const auto other = brief(".other");
    const auto waiting = brief(".later");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const settle::queue_description first = classic_queue{queue};
        co_await declare_delay(c, first, queue, delay::dlx_ttl(waiting));
        const settle::queue_description second = classic_queue{other};
        const auto said =
            co_await refusal_of(declare_delay(c, second, other, delay::dlx_ttl(waiting)));
        expect_says(said,
                    {waiting, "406",
                     "x-dead-letter-routing-key is " + queue + " there and " + other + " here"});
        co_await remove(ch, waiting);
    });
}

// -- D6: the plugin, which Debian's packages do not have

TEST(D6_plugin, without_it_the_refusal_says_what_to_install_or_to_use_instead)
{
    place here;
    const auto queue = here.name();
    const auto exchange = here.name(".delay");
    std::string said;
    bool closed = false;
    bool at_4_3 = false;
    runtime::loop events;
    // Not on the connection of `here`: RabbitMQ 3.10 closes it.
    events.run(runtime::with_timeout(patience, [&]() -> task<> {
        amqp::connection c(broker_options());
        try {
            co_await with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(c.run());
                co_await c.opened();
                at_4_3 = c.server_is_at_least(4, 3);
                const settle::queue_description origin = classic_queue{queue};
                (void)co_await declare_queue(c, origin, {});
                said = co_await refusal_of(
                    declare_delay(c, origin, queue, delay::plugin_dme(exchange)));
                co_await c.close();
            });
        } catch (const connection_error& gone) {
            closed = true;
            EXPECT_EQ(gone.code(), 503);
        }
    }()));
    expect_says(said, {queue, "delay::plugin_dme", "rabbitmq_delayed_message_exchange",
                       "delay::dlx_ttl()", "delay::buckets()"});
    expect_says(said, {at_4_3 ? "does not exist for RabbitMQ 4.3" : "install"});
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        EXPECT_EQ(closed, !c.server_is_at_least(4, 0));
        const bool made = co_await exchange_exists(c, exchange);
        EXPECT_FALSE(made);
    });
}

TEST(D6_plugin, a_missing_exchange_is_named_with_what_to_do)
{
    place here;
    const auto queue = here.name();
    const auto exchange = here.name(".delay");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        const auto way = delay::plugin_dme(exchange);
        const auto said = co_await refusal_of(check_delay(c, existing_queue{queue}, queue, way));
        if (c.server_is_at_least(4, 3)) {
            expect_says(said, {"does not exist for RabbitMQ 4.3", "delay::native()"});
            co_return;
        }
        expect_says(said, {exchange, queue, "404", "declare_topology(true)", "x-delayed-type"});
        co_await ch.declare_exchange({.exchange = exchange, .type = "direct"});
        co_await check_delay(c, existing_queue{queue}, queue, way);
    });
}

// -- D7

TEST(D7_native, is_refused_by_name_where_the_server_would_ignore_it)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const settle::queue_description origin = quorum_queue{queue};
        const auto way = delay::native(300ms, 700ms);
        if (!c.server_is_at_least(4, 3)) {
            const auto of_queue = co_await refusal_of(declare_queue(c, origin, {}, way));
            expect_says(of_queue,
                        {queue.substr(0, 60), "delay::native", "4.3", "delay::dlx_ttl()"});
            const auto of_delay = co_await refusal_of(declare_delay(c, origin, queue, way));
            expect_says(of_delay, {queue, "delay::native", "4.3"});
            const bool made = co_await queue_exists(c, queue);
            EXPECT_FALSE(made) << "refused before anything is declared";
            co_return;
        }
        (void)co_await declare_queue(c, origin, {}, way);
        co_await declare_delay(c, origin, queue, way);
        expect_says(listed(queue), {"x-delayed-retry-type", "failed", "x-delayed-retry-min", "300",
                                    "x-delayed-retry-max", "700"});
        co_await publish(c, queue, 1);
        const auto first = co_await ch.get(queue);
        require(first.has_value(), "a message that was confirmed");
        const auto failed = steady::now();
        ch.reject(first->delivery_tag, true);
        (void)co_await next_of(ch, queue);
        EXPECT_GE(steady::now() - failed, 300ms);
    });
}

// -- Q4: both sides of a conflict
