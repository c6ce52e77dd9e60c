// Rows X1, X2 and Q1 to Q6: what a service declares or checks, in which order, and how it refuses.
#include "broker.h"
#include "tap.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>

#include <gtest/gtest.h>

#include <algorithm>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

namespace {

/// What a start fails with.
task<std::string> refusal_of(service& s)
{
    try {
        (void)co_await s.run();
    } catch (const error& e) {
        co_return e.what();
    }
    co_return "(it started)";
}

void expect_says(const std::string& text, std::initializer_list<std::string_view> parts)
{
    for (const auto part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

outcome never_called(delivery&)
{
    ADD_FAILURE() << "nothing was to be delivered";
    return ack;
}

} // namespace

TEST(X1_start, declares_exchanges_queue_bindings_and_dead_letter_queue_before_it_consumes)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    const auto shop = here.name(".shop");
    const auto all = here.name(".all");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            service s{line.options()};
            s.declare_topology(true);
            s.exchange(topic_exchange{shop});
            s.exchange(fanout_exchange{all}.bind_to(shop, "order.#"));
            s.exchange(exchange{"amq.topic", "topic"}); // the broker's own: never declared
            std::string seen;
            runtime::event one;
            s.consume(quorum_queue{queue}.bind(all, "").prefetch(7),
                      [&](delivery& d) {
                          seen = d.exchange();
                          seen += "/";
                          seen += d.routing_key();
                          one.set();
                          return ack;
                      })
                .max_attempts(3)
                .dead_letter(dead);
            (void)co_await while_serving(s, [&]() -> task<> {
                co_await ch.publish_confirmed(
                    {.exchange = shop, .routing_key = "order.new", .mandatory = true});
                co_await one.wait();
            });
            EXPECT_EQ(seen, shop + "/order.new");

            const auto sent = line.methods(0);
            const auto at = [&](wire::method_id id, std::size_t nth = 0) {
                for (std::size_t i = 0; i < sent.size(); ++i) {
                    if (sent[i].id == id && nth-- == 0)
                        return i;
                }
                ADD_FAILURE() << "a method was not sent";
                return sent.size();
            };
            EXPECT_EQ(line.times(wire::id_of<wire::exchange::declare>), 2U);
            EXPECT_LT(at(wire::id_of<wire::exchange::declare>, 1),
                      at(wire::id_of<wire::exchange::bind>));
            EXPECT_LT(at(wire::id_of<wire::exchange::bind>), at(wire::id_of<wire::queue::declare>));
            EXPECT_LT(at(wire::id_of<wire::queue::declare>, 1), at(wire::id_of<wire::queue::bind>));
            EXPECT_LT(at(wire::id_of<wire::queue::bind>), at(wire::id_of<wire::basic::qos>));
            EXPECT_LT(at(wire::id_of<wire::basic::qos>), at(wire::id_of<wire::basic::consume>));
            tasks.cancel();
        });
        EXPECT_TRUE(co_await queue_exists(c, dead));
        // R4, Q1: the broker has the arguments that it should; a declare of the same is a no-op.
        wire::table same;
        same.set("x-queue-type", "quorum")
            .set("x-delivery-limit", 2)
            .set("x-dead-letter-exchange", "")
            .set("x-dead-letter-routing-key", dead);
        (void)co_await ch.declare_queue(
            {.queue = queue, .durable = true, .arguments = same.view()});
        co_await make_queue(ch, dead, kind::classic);
    });
}

TEST(X1_start, a_missing_queue_is_named_with_what_to_do)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        service s{service_options()};
        s.consume(queue, never_called);
        expect_says(co_await refusal_of(s), {queue, "404", "NOT_FOUND", "declare_topology(true)"});
        EXPECT_FALSE(co_await queue_exists(c, queue)) << "X2: nothing is created unasked";
    });
}

TEST(X1_start, a_failing_second_subscription_unwinds_the_first)
{
    place here;
    const auto queue = here.name();
    const auto missing = here.name(".missing");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        co_await publish(c, queue, 20);
        service s{service_options()};
        std::uint64_t acked = 0;
        s.consume(existing_queue{queue}.prefetch(5), [&](delivery&) {
            ++acked;
            return ack;
        });
        s.consume(missing, never_called);
        expect_says(co_await refusal_of(s), {missing, "404"});
        co_await until_ready(ch, queue, 20 - acked);
        co_await until_unconsumed(ch, queue);
    });
}

TEST(X1_start, a_conflict_with_an_existing_queue_shows_the_arguments)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        wire::table more;
        more.set("x-max-length", 10);
        co_await make_queue(ch, queue, kind::classic, more);
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{queue}.max_length(20), never_called);
        expect_says(co_await refusal_of(s),
                    {queue, "406", "PRECONDITION_FAILED", "x-max-length", "20", "10"});
        service other_type{service_options()};
        other_type.declare_topology(true);
        other_type.consume(quorum_queue{queue}, never_called);
        expect_says(co_await refusal_of(other_type), {queue, "406", "quorum"});
    });
}

TEST(X1_start, a_missing_exchange_of_a_binding_is_named)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel&) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{queue}.bind("nobody.declared.this", "k"), never_called);
        expect_says(co_await refusal_of(s), {queue, "nobody.declared.this", "404"});
    });
}

TEST(X1_start, a_refused_login_says_so)
{
    place here;
    here.run([&](amqp::connection&, amqp::channel&) -> task<> {
        auto options = service_options();
        options.session.password = "wrong-secret";
        service s{options};
        s.consume("any", never_called);
        const auto text = co_await refusal_of(s);
        expect_says(text, {"403", "ACCESS_REFUSED", "Login was refused"});
        EXPECT_EQ(text.find("wrong-secret"), std::string::npos);
    });
}

TEST(X1_start, a_missing_vhost_says_so)
{
    place here;
    here.run([&](amqp::connection&, amqp::channel&) -> task<> {
        auto options = service_options();
        options.session.vhost = "nope";
        service s{options};
        s.consume("any", never_called);
        expect_says(co_await refusal_of(s), {"530", "NOT_ALLOWED", "nope"});
    });
}

TEST(X1_start, nobody_listening_fails_after_the_start_deadline)
{
    place here;
    here.run([&](amqp::connection&, amqp::channel&) -> task<> {
        auto options = service_options();
        {
            auto taken = runtime::listener::tcp(runtime::loop::current(), "127.0.0.1", 0);
            options.hosts = {{.host = "127.0.0.1", .port = taken.port()}};
        }
        service s{options};
        s.start_deadline(50ms);
        s.reconnect_backoff(backoff::fixed(5ms));
        s.consume("any", never_called);
        expect_says(co_await refusal_of(s), {"127.0.0.1", "refused"});
    });
}

TEST(X2_topology, without_leave_nothing_is_created)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    const auto shop = here.name(".shop");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        tap line{runtime::loop::current()};
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(line.run());
            {
                service s{line.options()};
                s.exchange(topic_exchange{shop});
                s.consume(classic_queue{queue}.bind(shop, "#"), never_called);
                expect_says(co_await refusal_of(s), {queue, "404"});
            }
            co_await make_queue(ch, queue, kind::classic);
            {
                service s{line.options()};
                s.consume(classic_queue{queue}, never_called);
                const auto r = co_await while_serving(s, []() -> task<> { co_return; });
                EXPECT_TRUE(r.clean());
            }
            EXPECT_EQ(line.times(wire::id_of<wire::exchange::declare>), 0U);
            EXPECT_EQ(line.times(wire::id_of<wire::queue::bind>), 0U);
            tasks.cancel();
        });
        EXPECT_FALSE(co_await queue_exists(c, dead));
        amqp::channel spare(c);
        co_await spare.open();
        try {
            co_await spare.declare_exchange({.exchange = shop, .type = "topic", .passive = true});
            ADD_FAILURE() << "the exchange was created";
        } catch (const channel_error& missing) {
            EXPECT_EQ(missing.code(), 404);
        }
    });
}

TEST(Q2_steps, become_the_arguments_that_the_broker_holds)
{
    place here;
    const auto classic = here.name(".classic");
    const auto quorum = here.name(".quorum");
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{classic}
                      .dead_letter_exchange("")
                      .dead_letter_routing_key("elsewhere")
                      .message_ttl(60s)
                      .expires(1h)
                      .max_length(1000)
                      .max_length_bytes(1000000)
                      .overflow(settle::overflow_policy::reject_publish)
                      .single_active_consumer()
                      .max_priority(5)
                      .consumer_priority(3)
                      .argument("x-own", "value"),
                  never_called);
        s.consume(quorum_queue{quorum}
                      .delivery_limit(7)
                      .initial_group_size(1)
                      .dead_letter_exchange("")
                      .dead_letter_routing_key("elsewhere")
                      .at_least_once_dead_lettering(),
                  never_called);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            wire::table arguments;
            arguments.set("x-queue-type", "classic")
                .set("x-dead-letter-exchange", "")
                .set("x-dead-letter-routing-key", "elsewhere")
                .set("x-message-ttl", 60000)
                .set("x-expires", 3600000)
                .set("x-max-length", 1000)
                .set("x-max-length-bytes", 1000000)
                .set("x-overflow", "reject-publish")
                .set("x-single-active-consumer", true)
                .set("x-max-priority", 5);
            const auto seen = co_await ch.declare_queue(
                {.queue = classic, .durable = true, .arguments = arguments.view()});
            EXPECT_EQ(seen.consumer_count, 1U);
            wire::table others;
            others.set("x-queue-type", "quorum")
                .set("x-delivery-limit", 7)
                .set("x-quorum-initial-group-size", 1)
                .set("x-dead-letter-exchange", "")
                .set("x-dead-letter-routing-key", "elsewhere")
                .set("x-dead-letter-strategy", "at-least-once")
                .set("x-overflow", "reject-publish");
            (void)co_await ch.declare_queue(
                {.queue = quorum, .durable = true, .arguments = others.view()});
        });
        EXPECT_TRUE(r.clean());
    });
    // The one look from the outside.
    const auto listed = broker_ctl("-q list_queues name type durable arguments");
    const auto at = listed.find(classic);
    ASSERT_NE(at, std::string::npos) << listed;
    const auto line = listed.substr(at, listed.find('\n', at) - at);
    EXPECT_NE(line.find("x-own"), std::string::npos) << line;
    EXPECT_NE(line.find("classic"), std::string::npos) << line;
}

TEST(Q3_exchanges, of_every_type_route_as_they_are_described)
{
    place here;
    const auto queue = here.name();
    const auto unrouted = here.name(".unrouted");
    const auto direct = here.name(".direct");
    const auto headers = here.name(".headers");
    const auto lost = here.name(".lost");
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        s.exchange(fanout_exchange{lost}.internal());
        s.exchange(direct_exchange{direct}.alternate(lost));
        s.exchange(headers_exchange{headers});
        std::vector<std::string> got;
        std::vector<std::string> stray;
        wire::table match;
        match.set("x-match", "all").set("colour", "red");
        s.consume(classic_queue{queue}.bind(direct, "a").bind(headers, "", match),
                  [&](delivery& d) {
                      got.emplace_back(d.text());
                      return ack;
                  });
        s.consume(classic_queue{unrouted}.bind(lost, ""), [&](delivery& d) {
            stray.emplace_back(d.text());
            return ack;
        });
        (void)co_await while_serving(s, [&]() -> task<> {
            wire::table red;
            red.set("colour", "red");
            wire::table blue;
            blue.set("colour", "blue");
            const auto send = [&](const std::string& to, const char* key, const char* text,
                                  const wire::table& with) {
                return ch.publish_confirmed({.exchange = to,
                                             .routing_key = key,
                                             .properties = {.headers = with.view()},
                                             .body = amqp::bytes_of(text)});
            };
            co_await send(direct, "a", "direct", red);
            co_await send(direct, "b", "alternate", red);
            co_await send(headers, "", "red", red);
            co_await send(headers, "", "blue", blue);
            co_await until(ch, "three messages",
                           [&] { return got.size() == 2 && stray.size() == 1; });
        });
        EXPECT_EQ(got, (std::vector<std::string>{"direct", "red"}));
        EXPECT_EQ(stray, (std::vector<std::string>{"alternate"}));
    });
}

TEST(Q5_prefetch, is_what_the_broker_sends_at_most)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await publish(c, queue, 300);
        service s{service_options()};
        runtime::event finish;
        s.consume(queue, [&](delivery&) -> task<outcome> { // 256 unless told
            co_await finish.wait();
            co_return ack;
        });
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await until_ready(ch, queue, 44);
            co_await until(ch, "a full window", [&] { return s[0].metrics().received >= 256; });
            EXPECT_EQ(s[0].metrics().received, 256U);
            s.stop();
            co_await until_draining(ch, s);
            finish.set();
        });
        EXPECT_EQ(r.received(), 256U);
    });
}

TEST(Q6_names, a_queue_without_a_name_is_named_by_the_server)
{
    place here;
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::string text;
        runtime::event one;
        s.consume(classic_queue{""}.exclusive().durable(false).bind("amq.fanout", ""),
                  [&](delivery& d) {
                      text = d.text();
                      one.set();
                      return ack;
                  });
        (void)co_await while_serving(s, [&]() -> task<> {
            co_await ch.publish_confirmed(
                {.exchange = "amq.fanout", .mandatory = true, .body = amqp::bytes_of("news")});
            co_await one.wait();
        });
        EXPECT_EQ(text, "news");
    });
}
