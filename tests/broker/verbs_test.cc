// The verbs of amqp::channel against a real broker: topology, consuming, getting, errors.
#include "broker.h"

#include <acquit/runtime/event.h>

#include <gtest/gtest.h>

#include <memory>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

namespace {

/// The channel error that the verb ends with.
task<channel_error> error_of(task<> verb)
{
    try {
        co_await std::move(verb);
    } catch (const channel_error& e) {
        co_return e;
    }
    throw std::runtime_error("the verb went well");
}

task<> nothing_of(task<amqp::queue_declared> verb)
{
    (void)co_await std::move(verb);
}

struct notes final : amqp::consumer_sink {
    void on_delivery(const amqp::content_event& content,
                     const runtime::segment_ref&) noexcept override
    {
        tags.push_back(content.delivery_tag);
        redelivered.push_back(content.redelivered);
        consumer_tag = content.consumer_tag;
    }
    void on_server_cancel() noexcept override {}
    void on_channel_lost(std::exception_ptr) noexcept override { ++lost; }
    std::vector<std::uint64_t> tags;
    std::vector<bool> redelivered;
    std::string consumer_tag;
    int lost = 0;
};

} // namespace

TEST(verbs, queues_are_declared_checked_purged_and_deleted)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const auto made = co_await ch.declare_queue({.queue = queue, .durable = true});
        EXPECT_EQ(made.name, queue);
        EXPECT_EQ(made.message_count, 0U);
        EXPECT_EQ(made.consumer_count, 0U);
        const auto named = co_await ch.declare_queue({.exclusive = true, .auto_delete = true});
        EXPECT_TRUE(named.name.starts_with("amq.gen-")) << named.name;

        co_await publish(c, queue, 7);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 7U);
        EXPECT_EQ(co_await ch.purge_queue(queue), 7U);
        co_await publish(c, queue, 3);
        const auto refused =
            co_await error_of([](amqp::connection& on, const std::string& q) -> task<> {
                amqp::channel spare(on);
                co_await spare.open();
                (void)co_await spare.delete_queue({.queue = q, .if_empty = true});
            }(c, queue));
        EXPECT_EQ(refused.code(), 406);
        EXPECT_EQ(co_await ch.delete_queue({.queue = queue}), 3U);
        EXPECT_FALSE(co_await queue_exists(c, queue));
        EXPECT_EQ(co_await ch.delete_queue({.queue = queue}), 0U) << "RabbitMQ: idempotent";
    });
}

TEST(verbs, exchanges_are_bound_to_queues_and_to_each_other_and_unbound_again)
{
    place here;
    const auto first = here.name(".first");
    const auto second = here.name(".second");
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await ch.declare_exchange({.exchange = first, .type = "topic"});
        co_await ch.declare_exchange({.exchange = second, .type = "fanout"});
        co_await ch.declare_exchange({.exchange = first, .type = "topic", .passive = true});
        (void)co_await ch.declare_queue({.queue = queue});
        co_await ch.bind_exchange({.destination = second, .source = first, .routing_key = "a.*"});
        co_await ch.bind_queue({.queue = queue, .exchange = second});
        const amqp::outgoing message{.exchange = first, .routing_key = "a.b", .mandatory = true};
        co_await ch.publish_confirmed(message);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 1U);

        const auto expect_returned = [&]() -> task<> {
            try {
                co_await ch.publish_confirmed(message);
                ADD_FAILURE() << "a message without a route was not returned";
            } catch (const publish_error& e) {
                EXPECT_EQ(e.code(), 312);
            }
        };
        co_await ch.unbind_exchange({.destination = second, .source = first, .routing_key = "a.*"});
        co_await expect_returned();
        co_await ch.bind_exchange({.destination = second, .source = first, .routing_key = "a.*"});
        co_await ch.unbind_queue({.queue = queue, .exchange = second});
        co_await expect_returned();
        co_await ch.delete_exchange({.exchange = second});
        co_await expect_returned();
        EXPECT_EQ((co_await count(ch, queue)).message_count, 1U);
        const auto missing = co_await error_of(
            ch.declare_exchange({.exchange = second, .type = "fanout", .passive = true}));
        EXPECT_EQ(missing.code(), 404);
        EXPECT_EQ(missing.class_id(), 40);
        EXPECT_EQ(missing.method_id(), 10);
    });
}

TEST(verbs, get_brings_a_message_or_none_and_several_may_be_under_way)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        EXPECT_FALSE((co_await ch.get(queue)).has_value());
        wire::table headers;
        headers.set("answer", 42);
        co_await ch.publish_confirmed({.routing_key = queue,
                                       .properties = {.content_type = "text/plain",
                                                      .headers = headers.view(),
                                                      .correlation_id = "c1",
                                                      .message_id = "m1"},
                                       .body = amqp::bytes_of(std::string_view("a\0b", 3))});
        co_await publish(c, queue, 3);
        auto m = co_await ch.get(queue);
        require(m.has_value(), "a message");
        EXPECT_EQ(m->body_text(), std::string_view("a\0b", 3));
        EXPECT_EQ(m->exchange, "");
        EXPECT_EQ(m->routing_key, queue);
        EXPECT_EQ(m->message_count, 3U);
        EXPECT_FALSE(m->redelivered);
        EXPECT_EQ(m->properties().content_type, "text/plain");
        EXPECT_EQ(m->properties().correlation_id, "c1");
        EXPECT_EQ(header_of(*m, "answer"), 42);
        ch.ack(m->delivery_tag);

        std::vector<std::optional<amqp::received>> got(5);
        co_await with_scope([&](scope& tasks) -> task<> {
            for (auto& each : got) {
                tasks.spawn([](amqp::channel& on, const std::string& q,
                               std::optional<amqp::received>& into) -> task<> {
                    into = co_await on.get(q);
                }(ch, queue, each));
            }
            co_return;
        });
        for (std::size_t i = 0; i < 3; ++i) {
            require(got[i].has_value(), "a message for each of the first three");
            EXPECT_EQ(number_in(got[i]->body_text()), i);
        }
        EXPECT_FALSE(got[3].has_value());
        EXPECT_FALSE(got[4].has_value());
        ch.ack(0, true);
        co_await ch.barrier();
    });
}

TEST(verbs, a_body_of_any_size_arrives_as_it_was_sent)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        const std::size_t payload = c.session().tuned().frame_size_max - 8; // c34
        for (const std::size_t size :
             {std::size_t{0}, std::size_t{1}, payload - 1, payload, payload + 1, 2 * payload,
              3 * payload + 17, std::size_t{1} << 20}) {
            std::string body(size, '\0');
            for (std::size_t i = 0; i < size; ++i)
                body[i] = static_cast<char>(i * 31 + i / 256);
            co_await ch.publish_confirmed({.routing_key = queue, .body = amqp::bytes_of(body)});
            const auto m = co_await ch.get(queue, true);
            require(m.has_value(), "the message");
            EXPECT_TRUE(m->body_text() == body) << size << " bytes";
        }
    });
}

TEST(verbs, a_consumer_gets_at_most_its_prefetch_until_it_settles)
{
    place here;
    const auto queue = here.name();
    notes seen;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        co_await publish(c, queue, 10);
        co_await ch.qos(4);
        const auto tag = co_await ch.consume({.queue = queue, .consumer_tag = "my own"}, seen);
        EXPECT_EQ(tag, "my own");
        co_await until(ch, "four deliveries", [&] { return seen.tags.size() >= 4; });
        co_await ch.barrier();
        EXPECT_EQ(seen.tags, (std::vector<std::uint64_t>{1, 2, 3, 4}));
        EXPECT_EQ(seen.consumer_tag, "my own");
        ch.ack(2, true);
        co_await until(ch, "two more", [&] { return seen.tags.size() >= 6; });
        co_await ch.cancel(tag);
        ch.reject(3, true);
        ch.nack(6, true, false); // 4 to 6
        co_await ch.barrier();
        EXPECT_EQ(seen.tags.size(), 6U) << "cancelled: nothing comes any more";
        co_await until_ready(ch, queue, 5); // 3 and the four that were never sent
        EXPECT_TRUE((co_await ch.get(queue, true))->redelivered);
    });
    EXPECT_EQ(seen.lost, 0) << "it was cancelled before its channel closed";
}

TEST(verbs, c60_recover_redelivers_under_new_tags)
{
    place here;
    const auto queue = here.name();
    notes seen;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        co_await publish(c, queue, 3);
        const auto tag = co_await ch.consume({.queue = queue}, seen);
        co_await until(ch, "three deliveries", [&] { return seen.tags.size() == 3; });
        co_await ch.recover();
        co_await until(ch, "three more", [&] { return seen.tags.size() == 6; });
        EXPECT_EQ(seen.tags, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
        EXPECT_EQ(seen.redelivered, (std::vector<bool>{false, false, false, true, true, true}));
        for (const std::uint64_t t : {4U, 5U, 6U})
            ch.ack(t);
        co_await ch.cancel(tag);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
}

TEST(verbs, transactions_take_effect_at_commit_and_not_at_rollback)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        co_await publish(c, queue, 1);
        amqp::channel tx(c);
        co_await tx.open();
        co_await tx.tx_select();
        const auto held = co_await tx.get(queue);
        require(held.has_value(), "a message");
        co_await tx.publish({.routing_key = queue, .body = amqp::bytes_of("1")});
        co_await tx.publish({.routing_key = queue, .body = amqp::bytes_of("2")});
        co_await tx.barrier();
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U) << "not committed";
        co_await tx.tx_rollback();
        co_await tx.publish({.routing_key = queue, .body = amqp::bytes_of("3")});
        tx.ack(held->delivery_tag);
        co_await tx.tx_commit();
        co_await tx.close();
        const auto left = co_await take_all(ch, queue);
        require(left.size() == 1, "one message");
        EXPECT_EQ(left[0].body_text(), "3");
    });
}

TEST(channel_errors, c51_reach_every_verb_that_is_pending_and_those_that_come_later)
{
    place here;
    const auto queue = here.name();
    notes seen;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        amqp::channel broken(c);
        co_await broken.open();
        (void)co_await broken.consume({.queue = queue}, seen);
        std::vector<std::string> texts;
        const auto note = [&](task<> verb) -> task<> {
            const auto e = co_await error_of(std::move(verb));
            EXPECT_EQ(e.code(), 404);
            EXPECT_EQ(e.class_id(), 60);
            EXPECT_EQ(e.method_id(), 40);
            texts.push_back(e.text());
        };
        co_await broken.confirm_select();
        co_await broken.publish({.exchange = "nobody.declared.this", .routing_key = "k"});
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(note(broken.qos(1)));
            tasks.spawn(note(nothing_of(broken.declare_queue({.queue = queue}))));
            tasks.spawn(note(broken.barrier()));
            tasks.spawn(note(broken.publish_confirmed({.routing_key = queue})));
            co_return;
        });
        co_await note(broken.publish({.routing_key = queue}));
        co_await note(broken.qos(1));
        EXPECT_EQ(texts.size(), 6U);
        for (const auto& text : texts)
            EXPECT_EQ(text, "NOT_FOUND - no exchange 'nobody.declared.this' in vhost '/'");
        EXPECT_FALSE(broken.is_open());
        EXPECT_NE(broken.failure(), nullptr);
        EXPECT_EQ(seen.lost, 1);
        broken.ack(1); // writes nothing: the connection lives on
        co_await broken.close();
        co_await broken.close();
        co_await ch.barrier();
        EXPECT_TRUE(c.is_open());
        amqp::channel next(c);
        co_await next.open();
        EXPECT_EQ(next.number(), broken.number()) << "the number is free again";
        co_await next.close();
    });
}

TEST(channel_errors, an_unknown_delivery_tag_costs_its_channel_only)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        amqp::channel broken(c);
        co_await broken.open();
        broken.ack(999);
        const auto e = co_await error_of(broken.barrier());
        EXPECT_EQ(e.code(), 406);
        EXPECT_EQ(e.text(), "PRECONDITION_FAILED - unknown delivery tag 999");
        EXPECT_EQ(e.class_id(), 60);
        EXPECT_EQ(e.method_id(), 80);
        co_await ch.barrier();
    });
}

TEST(channel_errors, a_consumer_tag_in_use_is_refused_here_and_does_not_cost_the_connection)
{
    place here;
    const auto queue = here.name();
    notes seen;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        (void)co_await ch.consume({.queue = queue, .consumer_tag = "t"}, seen);
        try {
            (void)co_await ch.consume({.queue = queue, .consumer_tag = "t"}, seen);
            ADD_FAILURE() << "a tag was used twice";
        } catch (const channel_error& e) {
            EXPECT_EQ(e.code(), 530);
        }
        co_await ch.cancel("t");
        co_await ch.cancel("t");
        EXPECT_TRUE(c.is_open());
    });
}

TEST(channels, many_are_open_at_once_and_close_in_any_order)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        std::vector<std::unique_ptr<amqp::channel>> open;
        for (int i = 0; i < 100; ++i) {
            open.push_back(std::make_unique<amqp::channel>(c));
            co_await open.back()->open();
        }
        for (std::size_t i = 0; i < open.size(); i += 2)
            co_await open[i]->close();
        for (std::size_t i = 1; i < open.size(); i += 4)
            open[i].reset(); // without a goodbye
        co_await ch.barrier();
        amqp::channel next(c);
        co_await next.open();
        co_await next.close();
    });
}

TEST(connection, may_outlive_the_loop_that_it_ran_on)
{
    amqp::connection broker(broker_options());
    {
        runtime::loop events;
        events.run([](amqp::connection& c) -> task<> {
            co_await with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(c.run());
                co_await c.opened();
                co_await c.close();
            });
        }(broker));
    }
    EXPECT_TRUE(broker.is_over());
}
