// Publishing against a real broker: confirms, returns, refusals.
#include "broker.h"

#include <acquit/amqp/publisher.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;

namespace {

/// "ok", "returned" or "nacked".
task<std::string> fate_of(amqp::channel& ch, amqp::outgoing message)
{
    try {
        co_await ch.publish_confirmed(message);
        co_return "ok";
    } catch (const publish_error& e) {
        co_return e.why() == publish_error::reason::returned ? "returned" : "nacked";
    }
}

} // namespace

TEST(confirms, a_message_without_a_route_is_returned_only_where_it_is_mandatory)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue, .mandatory = true}), "ok");
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue + ".missing"}), "ok");
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue + ".missing", .mandatory = true}),
                  "returned");
        EXPECT_EQ(ch.unconfirmed(), 0U);
    });
}

TEST(confirms, each_of_many_in_flight_learns_its_own_fate)
{
    place here;
    const auto queue = here.name();
    const auto slow = here.name(".quorum");
    constexpr std::size_t total = 600;
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        co_await make_queue(ch, slow, kind::quorum); // confirms later than the others: out of order
        co_await ch.confirm_select();
        std::map<std::string, std::size_t> fates;
        std::size_t wrong = 0;
        co_await with_scope([&](scope& tasks) -> task<> {
            for (std::size_t i = 0; i < total; ++i) {
                tasks.spawn([](amqp::channel& on, std::string fast, std::string late, std::size_t n,
                               auto& found, std::size_t& mistakes) -> task<> {
                    const std::string body = std::to_string(n);
                    const std::string key = n % 3 == 0 ? fast : n % 3 == 1 ? late : "missing";
                    const auto fate = co_await fate_of(on, {.routing_key = key,
                                                            .mandatory = true,
                                                            .properties = {.message_id = body},
                                                            .body = amqp::bytes_of(body)});
                    ++found[fate];
                    if ((fate == "returned") != (n % 3 == 2))
                        ++mistakes;
                }(ch, queue, slow, i, fates, wrong));
            }
            co_return;
        });
        EXPECT_EQ(wrong, 0U);
        EXPECT_EQ(fates["ok"], total / 3 * 2);
        EXPECT_EQ(fates["returned"], total / 3);
        EXPECT_EQ((co_await count(ch, queue)).message_count, total / 3);
        EXPECT_EQ((co_await count(ch, slow)).message_count, total / 3);
    });
}

TEST(confirms, a_full_queue_that_refuses_is_told_as_a_nack)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        wire::table arguments;
        arguments.set("x-max-length", 2).set("x-overflow", "reject-publish");
        co_await make_queue(ch, queue, kind::classic, arguments);
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue, .mandatory = true}), "ok");
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue, .mandatory = true}), "ok");
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue, .mandatory = true}), "nacked");
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 2U);
        EXPECT_EQ(co_await fate_of(ch, {.routing_key = queue, .mandatory = true}), "ok");
    });
}

TEST(confirms, may_be_awaited_for_all_at_once)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        co_await ch.confirm_select();
        std::size_t returned = 0;
        ch.on_return = [&](amqp::received m) {
            ++returned;
            EXPECT_EQ(m.reply_code, 312);
            EXPECT_EQ(m.reply_text, "NO_ROUTE");
            EXPECT_EQ(m.routing_key, "missing");
        };
        for (int i = 0; i < 5000; ++i) {
            co_await ch.publish({.routing_key = i % 100 == 0 ? std::string_view("missing") : queue,
                                 .mandatory = true,
                                 .body = amqp::bytes_of("x")});
        }
        EXPECT_EQ(co_await ch.wait_for_confirms(), 50U);
        EXPECT_EQ(returned, 50U);
        EXPECT_EQ(ch.unconfirmed(), 0U);
        EXPECT_EQ(co_await ch.wait_for_confirms(), 0U) << "told once";
        EXPECT_EQ((co_await count(ch, queue)).message_count, 4950U);
    });
}

TEST(returns, bring_the_message_back_whole)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        wire::table inner;
        inner.set("deep", true);
        wire::table headers;
        headers.set("z", 1).set("a", "text").set("inner", inner).set("f", 1.5);
        const wire::properties sent{.content_type = "application/octet-stream",
                                    .content_encoding = "identity",
                                    .headers = headers.view(),
                                    .delivery_mode = std::uint8_t{2},
                                    .priority = std::uint8_t{3},
                                    .correlation_id = "c",
                                    .reply_to = "r",
                                    .expiration = "60000",
                                    .message_id = "m",
                                    .timestamp = wire::timestamp{1700000000},
                                    .type = "t",
                                    .user_id = "guest",
                                    .app_id = "a"};
        std::optional<amqp::received> back;
        ch.on_return = [&](amqp::received m) { back = std::move(m); };
        const std::string body(300000, 'b'); // in several frames
        co_await ch.confirm_select();
        co_await ch.publish({.routing_key = "missing",
                             .mandatory = true,
                             .properties = sent,
                             .body = amqp::bytes_of(body)});
        EXPECT_EQ(co_await ch.wait_for_confirms(), 1U);
        require(back.has_value(), "the message back");
        EXPECT_TRUE(back->body_text() == body);
        // Returns are matched by content (amqp/confirms.h): the bytes may differ in the order of headers only.
        std::vector<std::byte> expected(wire::header_frame_size(sent));
        const auto size = wire::encode_header_frame(expected, 1, body.size(), sent);
        const std::vector<std::byte> properties(
            expected.begin() + 19, expected.begin() + static_cast<std::ptrdiff_t>(size) - 1);
        if (c.server_is_at_least(4, 0))
            EXPECT_EQ(back->raw_properties.size(), properties.size())
                << "4.x sorts the headers by name";
        else
            EXPECT_EQ(back->raw_properties, properties);
        EXPECT_EQ(back->properties().message_id, "m");
        EXPECT_EQ(back->properties().timestamp, wire::timestamp{1700000000});
        EXPECT_EQ(header_of(*back, "z"), 1);
    });
}

TEST(returns, are_told_to_the_publish_that_they_belong_to_though_the_broker_sorts_headers)
{
    place here;
    const auto exchange = here.name(".exchange");
    const auto queue = here.name();
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await ch.declare_exchange({.exchange = exchange, .type = "headers"});
        (void)co_await ch.declare_queue({.queue = queue});
        wire::table match;
        match.set("x-match", "all").set("colour", "red");
        co_await ch.bind_queue({.queue = queue, .exchange = exchange, .arguments = match.view()});
        co_await ch.confirm_select();
        std::map<std::string, std::string> fates;
        co_await with_scope([&](scope& tasks) -> task<> {
            // Exchange, key and body are the same: only the headers tell them apart, and route them.
            for (const std::string colour : {"red", "blue", "red", "green"}) {
                tasks.spawn([](amqp::channel& on, std::string to, std::string what, auto& found,
                               std::size_t n) -> task<> {
                    wire::table headers;
                    headers.set("z", static_cast<std::int32_t>(n))
                        .set("colour", what)
                        .set("a", "x");
                    found[what + std::to_string(n)] =
                        co_await fate_of(on, {.exchange = to,
                                              .mandatory = true,
                                              .properties = {.headers = headers.view()}});
                }(ch, exchange, colour, fates, fates.size() + tasks.size()));
            }
            co_return;
        });
        EXPECT_EQ(fates.size(), 4U);
        for (const auto& [what, fate] : fates)
            EXPECT_EQ(fate, what.starts_with("red") ? "ok" : "returned") << what;
    });
}

// P1
TEST(publisher, writes_persistent_messages_that_carry_what_they_were_given)
{
    place here;
    const auto queue = here.name();
    const auto exchange = here.name(".exchange");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue, .durable = true});
        co_await ch.declare_exchange({.exchange = exchange, .type = "direct"});
        co_await ch.bind_queue({.queue = queue, .exchange = exchange, .routing_key = "k"});
        amqp::publisher out(c, {.exchange = exchange});
        co_await out.open();
        wire::table inner;
        inner.set("deep", true);
        wire::array list;
        list.add(1).add("two");
        wire::table headers; // sorted by name, as 4.x gives them back
        headers.set("array", list)
            .set("bool", true)
            .set("bytes", wire::byte_view(amqp::bytes_of("b")))
            .set("decimal", wire::decimal{2, 314})
            .set("f32", 0.5F)
            .set("f64", 0.25)
            .set("i16", std::int16_t{-2})
            .set("i32", std::int32_t{-3})
            .set("i64", std::int64_t{-4})
            .set("i8", std::int8_t{-1})
            .set("table", inner)
            .set("text", "t")
            .set("time", wire::timestamp{1700000000})
            .set("u16", std::uint16_t{2})
            .set("u32", std::uint32_t{3})
            .set("u8", std::uint8_t{1})
            .set("void", wire::void_t{});
        co_await out.publish({.routing_key = "k",
                              .properties = {.headers = headers.view(), .priority = 3},
                              .ttl = 10min,
                              .body = amqp::bytes_of("by the exchange")});
        co_await out.publish({.routing_key = queue,
                              .exchange = "",
                              .properties = {.delivery_mode = 1},
                              .body = amqp::bytes_of("by the default exchange")});
        co_await out.close();
        const auto got = co_await take_all(ch, queue);
        require(got.size() == 2, "two messages");
        const auto first = got[0].properties();
        EXPECT_EQ(got[0].exchange, exchange);
        EXPECT_EQ(first.delivery_mode, 2);
        EXPECT_EQ(first.priority, 3);
        EXPECT_EQ(first.expiration, "600000");
        require(first.headers.has_value(), "headers");
        EXPECT_TRUE(std::ranges::equal(first.headers->raw(), headers.view().raw()));
        EXPECT_EQ(got[1].exchange, "");
        EXPECT_EQ(got[1].properties().delivery_mode, 1);
    });
}

TEST(publisher, lets_messages_expire_by_their_ttl)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        amqp::publisher out(c);
        co_await out.open();
        co_await out.publish({.routing_key = queue, .ttl = 1ms});
        co_await until_ready(ch, queue, 0);
        co_await out.close();
    });
}

// P2
TEST(publisher, never_has_more_unconfirmed_than_its_window)
{
    place here;
    const auto queue = here.name();
    constexpr std::size_t total = 20000;
    constexpr std::size_t window = 256;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        amqp::publisher out(c, {.window = window});
        co_await out.open();
        std::size_t most = 0;
        for (std::size_t i = 0; i < total; ++i) {
            (void)co_await out.send(
                {.routing_key = queue, .body = amqp::bytes_of(std::to_string(i))});
            most = std::max(most, out.channel().unconfirmed());
        }
        EXPECT_LE(most, window);
        EXPECT_GT(most, 1U) << "pipelined";
        co_await out.flush();
        EXPECT_EQ(out.channel().unconfirmed(), 0U);
        EXPECT_EQ(out.metrics().confirmed, total);
        co_await out.close();
        EXPECT_EQ((co_await count(ch, queue)).message_count, total);
    });
}

TEST(publisher, tells_each_style_its_own_messages_fate)
{
    place here;
    const auto fast = here.name();
    const auto slow = here.name(".quorum");
    constexpr std::size_t total = 900;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = fast});
        co_await make_queue(ch, slow, kind::quorum);
        amqp::publisher out(c, {.window = 100});
        co_await out.open();
        std::map<std::uint64_t, bool> lost; // number of the publish: it has no route
        std::map<std::uint64_t, std::size_t> told;
        std::vector<amqp::publish_ticket> tickets;
        std::size_t wrong = 0;
        std::size_t unheard = 0;
        for (std::size_t i = 0; i < total; ++i) {
            // Every style with every fate, all of them equal messages.
            const bool missing = i % 5 == 0;
            const amqp::publication message{.routing_key = missing      ? "missing"
                                                           : i % 2 == 0 ? std::string_view(fast)
                                                                        : std::string_view(slow),
                                            .body = amqp::bytes_of("same")};
            if (i % 3 == 0) {
                tickets.push_back(co_await out.send(message));
                lost[tickets.back().number()] = missing;
            } else if (i % 3 == 1) {
                const auto number =
                    co_await out.send(message, [&, missing](const amqp::publish_answer& a) {
                        ++told[a.number];
                        wrong += a.confirmed() == missing ? 1 : 0;
                    });
                lost[number] = missing;
            } else {
                (void)co_await out.send(message);
                unheard += missing ? 1 : 0;
            }
        }
        std::uint64_t failed = 0;
        try {
            co_await out.flush();
        } catch (const publish_error& e) {
            failed = e.failed();
            EXPECT_EQ(e.why(), publish_error::reason::returned);
            EXPECT_EQ(e.code(), 312);
        }
        EXPECT_EQ(failed, unheard);
        EXPECT_EQ(told.size(), total / 3);
        for (const auto& [number, times] : told)
            EXPECT_EQ(times, 1U) << number;
        for (auto& each : tickets)
            wrong += (co_await each.answered()).confirmed() == lost[each.number()] ? 1 : 0;
        EXPECT_EQ(wrong, 0U);
        co_await out.close();
    });
}

TEST(publisher, tells_a_refusal_and_a_missing_exchange_apart)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        wire::table arguments;
        arguments.set("x-max-length", 1).set("x-overflow", "reject-publish");
        co_await make_queue(ch, queue, kind::classic, arguments);
        amqp::publisher out(c);
        co_await out.open();
        co_await out.publish({.routing_key = queue});
        std::optional<publish_error> refused;
        try {
            co_await out.publish({.routing_key = queue});
        } catch (const publish_error& e) {
            refused = e;
        }
        EXPECT_TRUE(refused && refused->why() == publish_error::reason::nacked);

        std::optional<publish_error> lost;
        try {
            co_await out.publish({.routing_key = queue, .exchange = "no such exchange"});
        } catch (const publish_error& e) {
            lost = e;
        }
        require(lost.has_value(), "an error for the missing exchange");
        EXPECT_EQ(lost->why(), publish_error::reason::lost);
        EXPECT_EQ(lost->code(), 404);
        EXPECT_NE(lost->text().find("no exchange 'no such exchange'"), std::string::npos)
            << lost->text();
        std::optional<channel_error> unsent;
        try {
            co_await out.publish({.routing_key = queue});
        } catch (const channel_error& e) {
            unsent = e;
        }
        EXPECT_TRUE(unsent && unsent->code() == 404) << "the channel is over";
        co_await out.close();

        amqp::publisher next(c); // a new one counts anew, on the same connection
        co_await next.open();
        EXPECT_EQ((co_await take_all(ch, queue)).size(), 1U);
        auto ticket = co_await next.send({.routing_key = queue});
        EXPECT_EQ(ticket.number(), 1U);
        co_await ticket.confirmed();
        co_await next.close();
    });
}

// P3
TEST(publisher, fires_and_forgets)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        amqp::publisher out(c, {.confirms = false});
        co_await out.open();
        std::size_t returned = 0;
        out.channel().on_return = [&](const amqp::received&) { ++returned; };
        for (int i = 0; i < 1000; ++i)
            co_await out.publish(
                {.routing_key = i % 10 == 0 ? std::string_view("missing") : queue});
        co_await out.flush();
        EXPECT_EQ(returned, 100U);
        co_await until_ready(ch, queue, 900);
        co_await out.close();
    });
}

// Sent from where they lie, in frames of frame_max, beside small ones that are copied.
TEST(publisher, large_bodies_of_an_owner_arrive_whole_and_are_let_go_of)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        (void)co_await ch.declare_queue({.queue = queue});
        amqp::publisher out(c);
        co_await out.open();
        std::vector<std::weak_ptr<std::string>> owners;
        std::vector<std::size_t> sizes;
        for (std::size_t i = 0; i < 24; ++i) {
            const std::size_t size = i % 3 == 0 ? 100 + i : 16384 + i * 60000;
            auto body = std::make_shared<std::string>(size, static_cast<char>('a' + i));
            owners.push_back(body);
            sizes.push_back(size);
            (void)co_await out.send(
                {.routing_key = queue, .body = amqp::bytes_of(*body), .body_owner = body});
        }
        co_await out.flush();
        for (const auto& owner : owners)
            EXPECT_TRUE(owner.expired());
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const auto got = co_await ch.get(queue, true);
            EXPECT_TRUE(got.has_value());
            if (!got)
                co_return;
            EXPECT_TRUE(got->body_text() == std::string(sizes[i], static_cast<char>('a' + i))) << i;
        }
        co_await out.close();
    });
}
