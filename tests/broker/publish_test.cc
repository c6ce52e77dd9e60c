// Publishing against a real broker: confirms, returns, refusals.
#include "broker.h"

#include <gtest/gtest.h>

#include <map>

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
