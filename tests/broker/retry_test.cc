// Rows R1 to R8 and "copies are never lost": retries with a limit on real queues.
#include "broker.h"

#include <acquit/amqp/wire/properties.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/log.h>
#include <acquit/settle/attempt.h>
#include <acquit/settle/copy_message.h>

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

namespace {

/// What the records of copies say, as text.
std::string text_header(const amqp::received& m, std::string_view name)
{
    const auto properties = m.properties();
    if (!properties.headers)
        return {};
    const auto value = properties.headers->find(name);
    const auto text = value ? value->as_string() : std::nullopt;
    return std::string(text.value_or("<no text>"));
}

/// By name, since RabbitMQ 4.x may sort them: each value with its type, byte for byte.
std::map<std::string, std::vector<std::byte>> fields_of(wire::table_view table)
{
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& [name, value] : table)
        all.emplace(name, std::vector<std::byte>(value.raw().begin(), value.raw().end()));
    return all;
}

std::vector<std::string> bodies_of(const std::vector<amqp::received>& messages)
{
    std::vector<std::string> all;
    for (const auto& m : messages)
        all.emplace_back(m.body_text());
    return all;
}

/// Ends the consuming log, whatever happens.
struct quiet {
    ~quiet() { runtime::set_log_callback({}); }
};

} // namespace

// s61, s85: never more deliveries than were allowed, and one dead letter at the end.
TEST(R3_limit, a_classic_queue_gives_exactly_n_deliveries_and_one_dead_letter)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::map<std::string, std::vector<std::uint32_t>> attempts;
        s.consume(classic_queue{queue},
                  [&](delivery& d) -> outcome {
                      attempts[std::string(d.text())].push_back(d.attempt());
                      return retry();
                  })
            .max_attempts(4)
            .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 20);
            co_await until_ready(ch, dead, 20);
        });
        EXPECT_EQ(attempts.size(), 20U);
        for (const auto& [body, each] : attempts)
            EXPECT_EQ(each, (std::vector<std::uint32_t>{1, 2, 3, 4})) << body;
        const auto letters = co_await take_all(ch, dead);
        EXPECT_EQ(letters.size(), 20U);
        for (const auto& letter : letters) {
            EXPECT_EQ(text_header(letter, "x-ruststream-retry-count"), "4");
            EXPECT_EQ(text_header(letter, settle::original_exchange_header), "");
            EXPECT_EQ(text_header(letter, settle::original_routing_key_header), queue);
        }
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.dead_lettered, 20U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.copies_confirmed, 80U);
        EXPECT_TRUE(r.clean()) << r.text();
        expect_adds_up(r);
    });
}

TEST(R2_retry, a_copy_goes_to_the_back_of_the_queue_with_its_count_raised)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await publish(c, queue, 3);
        service s{service_options()};
        std::vector<std::string> order;
        std::vector<std::uint32_t> counts;
        runtime::event done;
        s.consume(classic_queue{queue}.prefetch(1), [&](delivery& d) -> outcome {
             order.emplace_back(d.text());
             counts.push_back(settle::copies_counted(d.headers()));
             if (order.size() == 4)
                 done.set();
             return order.size() == 1 ? retry() : ack;
         }).max_attempts(2);
        const auto r = co_await while_serving(s, [&]() -> task<> { co_await done.wait(); });
        EXPECT_EQ(order, (std::vector<std::string>{"0", "1", "2", "0"}));
        EXPECT_EQ(counts, (std::vector<std::uint32_t>{0, 0, 0, 1}));
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        expect_adds_up(r);
    });
}

TEST(R2_retry, a_dead_letter_exchange_of_the_queues_own_sees_each_rejected_original)
{
    place here;
    const auto queue = here.name();
    const auto seen = here.name(".seen");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, seen, kind::classic);
        service s{service_options()};
        s.declare_topology(true);
        runtime::event done;
        s.consume(classic_queue{queue}.dead_letter_exchange("").dead_letter_routing_key(seen),
                  [&](delivery& d) -> outcome {
                      if (d.attempt() == 3)
                          done.set();
                      return d.attempt() == 3 ? ack : retry();
                  })
            .max_attempts(3);
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await done.wait();
        });
        co_await until_ready(ch, seen, 2);
    });
}

TEST(R3_limit, without_a_dead_letter_queue_the_delivery_is_rejected_and_nothing_published)
{
    place here;
    const auto queue = here.name();
    const auto rejected = here.name(".rejected");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, rejected, kind::classic);
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{queue}.dead_letter_exchange("").dead_letter_routing_key(rejected),
                  [](delivery&) -> outcome { return retry(); })
            .max_attempts(1);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await until_ready(ch, rejected, 1);
        });
        EXPECT_EQ(r.queues.at(0).metrics.retries.copies_confirmed, 0U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.dead_lettered, 1U);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
    });
}

TEST(R1_header, the_counting_header_has_the_name_that_was_asked_for)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::vector<std::uint32_t> attempts;
        s.consume(classic_queue{queue},
                  [&](delivery& d) -> outcome {
                      attempts.push_back(d.attempt());
                      return retry();
                  })
            .max_attempts(2)
            .dead_letter(dead)
            .counter_header("x-tried");
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await until_ready(ch, dead, 1);
        });
        EXPECT_EQ(attempts, (std::vector<std::uint32_t>{1, 2}));
        const auto letters = co_await take_all(ch, dead);
        EXPECT_EQ(text_header(letters.at(0), "x-tried"), "2");
        EXPECT_EQ(text_header(letters.at(0), settle::default_counter_header), "<no text>");
    });
}

TEST(R1_header, a_count_that_another_service_wrote_is_continued)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::vector<std::uint32_t> attempts;
        s.consume(classic_queue{queue},
                  [&](delivery& d) -> outcome {
                      attempts.push_back(d.attempt());
                      return retry();
                  })
            .max_attempts(5)
            .dead_letter(dead);
        co_await while_serving(s, [&]() -> task<> {
            wire::table headers;
            headers.set("x-ruststream-retry-count", "3");
            co_await ch.publish_confirmed(
                {.routing_key = queue, .properties = {.headers = headers.view()}});
            co_await until_ready(ch, dead, 1);
        });
        EXPECT_EQ(attempts, (std::vector<std::uint32_t>{4, 5}));
    });
}

TEST(R4_quorum, the_broker_counts_and_dead_letters_after_exactly_n_deliveries)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::map<std::string, std::vector<std::uint32_t>> attempts;
        s.consume(quorum_queue{queue},
                  [&](delivery& d) -> outcome {
                      attempts[std::string(d.text())].push_back(d.attempt());
                      return retry();
                  })
            .max_attempts(3)
            .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 10);
            co_await until_ready(ch, dead, 10);
        });
        EXPECT_EQ(attempts.size(), 10U);
        for (const auto& [body, each] : attempts)
            EXPECT_EQ(each, (std::vector<std::uint32_t>{1, 2, 3})) << body;
        EXPECT_EQ(r.queues.at(0).metrics.retries.copies_confirmed, 0U);
        expect_adds_up(r);
    });
}

// s62, s63, s74, s75, s81, s87: a copy is the message, but for what the broker sets anew.
TEST(copies, arrive_with_every_property_and_header_as_received)
{
    place here;
    const auto queue = here.name();
    const auto exchange = here.name(".x");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        s.exchange(topic_exchange{exchange});

        wire::table inner;
        inner.set("deep", std::int8_t{-3}).set("text", "x");
        wire::array list;
        list.add(1).add("two").add(inner);
        wire::table headers;
        headers.set("bool", true)
            .set("int8", std::int8_t{-8})
            .set("int16", std::int16_t{-1600})
            .set("int32", std::int32_t{-320000})
            .set("int64", std::int64_t{-6400000000})
            .set("float", 1.5F)
            .set("double", 2.25)
            .set("decimal", wire::decimal{2, 314})
            .set("text", "some text")
            .set("empty", "")
            .set("time", wire::timestamp{1700000000})
            .set("void", wire::void_t{})
            .set("bytes", amqp::bytes_of("\0\1\2"))
            .set("table", inner)
            .set("array", list)
            .set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .set("CC", wire::array{})
            .set("x-delay", 5)
            .set("x-delivery-count", std::int64_t{7});
        wire::properties sent{.content_type = "application/json",
                              .content_encoding = "identity",
                              .headers = headers.view(),
                              .delivery_mode = std::uint8_t{2},
                              .priority = std::uint8_t{4},
                              .correlation_id = "correlation",
                              .reply_to = "reply",
                              .expiration = "600000",
                              .message_id = "message",
                              .timestamp = wire::timestamp{1700000001},
                              .type = "type",
                              .user_id = "guest",
                              .app_id = "app",
                              .cluster_id = "cluster"};
        std::string body;
        for (int i = 0; i < 300'000; ++i)
            body.push_back(static_cast<char>(i * 31 % 256));

        std::map<std::string, std::vector<std::byte>> before;
        std::map<std::string, std::vector<std::byte>> after;
        wire::properties first;
        std::vector<std::byte> first_raw;
        runtime::event done;
        s.consume(classic_queue{queue}.bind(exchange, "a.#"), [&](delivery& d) -> outcome {
             EXPECT_TRUE(d.text() == body);
             if (d.attempt() == 1) {
                 before = fields_of(d.headers());
                 first_raw.assign(d.raw_properties().begin(), d.raw_properties().end());
                 return retry();
             }
             after = fields_of(d.headers());
             (void)wire::properties_view(first_raw).decode(first).ok();
             const auto now = d.properties();
             EXPECT_EQ(now.content_type, first.content_type);
             EXPECT_EQ(now.content_encoding, first.content_encoding);
             EXPECT_EQ(now.delivery_mode, first.delivery_mode);
             EXPECT_EQ(now.priority, first.priority);
             EXPECT_EQ(now.correlation_id, first.correlation_id);
             EXPECT_EQ(now.reply_to, first.reply_to);
             EXPECT_EQ(now.message_id, first.message_id);
             EXPECT_EQ(now.timestamp, first.timestamp);
             EXPECT_EQ(now.type, first.type);
             EXPECT_EQ(now.app_id, first.app_id);
             EXPECT_EQ(now.cluster_id, first.cluster_id);
             EXPECT_FALSE(now.user_id.has_value());
             EXPECT_FALSE(now.expiration.has_value());
             EXPECT_EQ(d.exchange(), "");
             EXPECT_EQ(d.routing_key(), queue);
             done.set();
             return ack;
         }).max_attempts(2);
        co_await while_serving(s, [&]() -> task<> {
            co_await ch.publish_confirmed({.exchange = exchange,
                                           .routing_key = "a.b",
                                           .mandatory = true,
                                           .properties = sent,
                                           .body = amqp::bytes_of(body)});
            co_await done.wait();
        });
        for (const char* anew : {"CC", "x-delay", "x-delivery-count"}) {
            EXPECT_FALSE(after.contains(anew)) << anew;
            before.erase(anew);
        }
        const auto text = [](std::string_view value) {
            wire::table one;
            one.set("v", value);
            return fields_of(one).at("v");
        };
        before["x-ruststream-retry-count"] = text("1");
        before["x-acquit-exchange"] = text(exchange);
        before["x-acquit-routing-key"] = text("a.b");
        EXPECT_EQ(after, before);
        co_await ch.delete_exchange({.exchange = exchange});
    });
}

TEST(copies, one_that_no_queue_would_have_leaves_the_original_on_the_broker)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::size_t calls = 0;
        auto& sub =
            s.consume(classic_queue{queue}, [&](delivery&) -> outcome { return ++calls, retry(); })
                .max_attempts(1)
                .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await ch.delete_queue({.queue = dead});
            co_await publish(c, queue, 5);
            co_await until(ch, "copies that were returned",
                           [&] { return sub.metrics().retries.copies_failed >= 10; });
            // Given back, handled again, and refused again, with growing pauses: still there.
            EXPECT_EQ(sub.metrics().retries.copies_confirmed, 0U);
            co_await make_queue(ch, dead, kind::classic);
            co_await until_ready(ch, dead, 5);
        });
        EXPECT_GE(calls, 10U);
        const auto letters = co_await take_all(ch, dead);
        EXPECT_EQ(letters.size(), 5U);
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(copies, one_that_the_broker_refuses_leaves_the_original_on_the_broker)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        wire::table full;
        full.set("x-max-length", std::int64_t{1}).set("x-overflow", "reject-publish");
        co_await make_queue(ch, dead, kind::classic, full);
        co_await publish(c, dead, 1);
        service s{service_options()};
        s.declare_topology(true);
        auto& sub = s.consume(classic_queue{queue}, [](delivery&) -> outcome { return retry(); })
                        .max_attempts(1)
                        .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await until(ch, "copies that were nacked",
                           [&] { return sub.metrics().retries.copies_failed >= 3; });
            EXPECT_EQ((co_await take_all(ch, dead)).size(), 1U); // the one that was in the way
            co_await until_ready(ch, dead, 1);
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(P8_own_connection, blocked_copies_wait_while_consuming_goes_on)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await publish(c, queue, 200);
        struct memory_alarm {
            memory_alarm() { (void)broker_ctl("set_vm_memory_high_watermark 0.00001"); }
            ~memory_alarm() { clear(); }
            void clear()
            {
                if (std::exchange(on, false))
                    (void)broker_ctl("set_vm_memory_high_watermark 0.4");
            }
            bool on = true;
        } alarm;
        service s{service_options()};
        s.declare_topology(true);
        std::size_t acked = 0;
        auto& sub = s.consume(classic_queue{queue}.prefetch(20),
                              [&](delivery& d) -> outcome {
                                  if (number_in(d.text()) % 40 == 0)
                                      return retry();
                                  ++acked;
                                  return ack;
                              })
                        .max_attempts(1)
                        .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await until(ch, "the others", [&] { return acked == 195; });
            // The alarm acts on the connection that has published; nothing of it is confirmed.
            EXPECT_EQ(sub.metrics().retries.copies_open, 5U);
            EXPECT_EQ(sub.metrics().retries.copies_confirmed, 0U);
            alarm.clear();
            co_await until_ready(ch, dead, 5);
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        EXPECT_EQ(r.queues.at(0).metrics.retries.copies_failed, 0U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(copies, unconfirmed_ones_free_their_slot_at_once_and_still_arrive)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::size_t calls = 0;
        s.consume(classic_queue{queue}.prefetch(4),
                  [&](delivery&) -> outcome { return ++calls, retry(); })
            .max_attempts(3)
            .dead_letter(dead)
            .copies(copies::unconfirmed);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 100);
            co_await until_ready(ch, dead, 100);
        });
        EXPECT_EQ(calls, 300U);
        EXPECT_TRUE(r.clean()) << r.text();
        expect_adds_up(r);
        const auto letters = co_await take_all(ch, dead);
        const auto bodies = bodies_of(letters);
        EXPECT_EQ(std::set<std::string>(bodies.begin(), bodies.end()).size(), 100U);
    });
}

TEST(R8_log, one_line_at_the_start_says_limit_destination_and_who_counts)
{
    place here;
    const auto classic = here.name();
    const auto quorum = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection&, amqp::channel&) -> task<> {
        std::vector<std::string> lines;
        runtime::set_log_callback([&lines](const runtime::log_record& record) {
            std::string line(record.text);
            for (const auto& field : record.fields)
                line += " " + std::string(field.name) + "=" + std::string(field.value);
            if (record.text == "consuming")
                lines.push_back(line);
        });
        const quiet at_the_end;
        service s{service_options()};
        s.declare_topology(true);
        s.consume(classic_queue{classic}, [](delivery&) { return ack; })
            .max_attempts(3)
            .dead_letter(dead);
        s.consume(quorum_queue{quorum}, [](delivery&) { return ack; })
            .max_attempts(4)
            .dead_letter(dead);
        co_await while_serving(s, []() -> task<> { co_return; });
        EXPECT_EQ(lines.size(), 2U);
        EXPECT_NE(lines.at(0).find("3 deliveries, counted by the header x-ruststream-retry-count"),
                  std::string::npos)
            << lines.at(0);
        EXPECT_NE(lines.at(0).find("to " + dead), std::string::npos) << lines.at(0);
        EXPECT_NE(lines.at(1).find("4 deliveries, counted by the broker"), std::string::npos)
            << lines.at(1);
    });
}
