// The publisher in virtual time: its styles, its window, and what it writes.
#include "publisher_support.h"

#include <acquit/amqp/wire/table.h>
#include <acquit/runtime/timeout.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace acquit::testing {
namespace {

TEST(publisher, writes_persistent_mandatory_messages_where_nothing_else_is_said)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        co_await out.publish({.routing_key = "q", .body = bytes_of("a")});
        co_await out.publish({.routing_key = "q",
                              .mandatory = false,
                              .properties = {.delivery_mode = std::uint8_t{1}},
                              .body = bytes_of("b")});
        const auto sent = publishes_in(p);
        EXPECT_EQ(sent.size(), 2U);
        EXPECT_TRUE(sent[0]->mandatory);
        EXPECT_EQ(properties_of(*sent[0]).delivery_mode, 2);
        EXPECT_EQ(sent[0]->exchange, "");
        EXPECT_FALSE(sent[1]->mandatory);
        EXPECT_EQ(properties_of(*sent[1]).delivery_mode, 1);
        EXPECT_EQ(there.model["q"].ready.size(), 2U);
        co_await out.close();
    });
}

TEST(publisher, writes_what_its_options_say)
{
    with_publisher({.exchange = "shop", .mandatory = false, .persistent = false},
                   [](host&, connection&, peer& p, publisher& out) -> task<> {
                       co_await out.publish({.routing_key = "q"});
                       co_await out.publish({.routing_key = "q", .exchange = ""});
                       const auto sent = publishes_in(p);
                       EXPECT_EQ(sent.size(), 2U);
                       EXPECT_EQ(sent[0]->exchange, "shop");
                       EXPECT_FALSE(sent[0]->mandatory);
                       EXPECT_FALSE(properties_of(*sent[0]).delivery_mode);
                       EXPECT_EQ(sent[1]->exchange, "");
                       co_await out.close();
                   });
}

// P1
TEST(publisher, takes_all_properties_and_headers_of_every_type)
{
    with_publisher({}, [](host&, connection&, peer& p, publisher& out) -> task<> {
        wire::table inner;
        inner.set("deep", true);
        wire::array list;
        list.add(1).add("two");
        wire::table headers;
        headers.set("bool", true)
            .set("i8", std::int8_t{-1})
            .set("u8", std::uint8_t{1})
            .set("i16", std::int16_t{-2})
            .set("u16", std::uint16_t{2})
            .set("i32", std::int32_t{-3})
            .set("u32", std::uint32_t{3})
            .set("i64", std::int64_t{-4})
            .set("f32", 0.5F)
            .set("f64", 0.25)
            .set("decimal", wire::decimal{2, 314})
            .set("text", "t")
            .set("bytes", wire::byte_view(bytes_of("b")))
            .set("array", list)
            .set("time", wire::timestamp{1700000000})
            .set("table", inner)
            .set("void", wire::void_t{});
        co_await out.publish({.routing_key = "q",
                              .properties = {.content_type = "text/plain",
                                             .content_encoding = "identity",
                                             .headers = headers.view(),
                                             .priority = std::uint8_t{7},
                                             .correlation_id = "c",
                                             .reply_to = "r",
                                             .expiration = "1",
                                             .message_id = "m",
                                             .timestamp = wire::timestamp{1700000000},
                                             .type = "t",
                                             .user_id = "guest",
                                             .app_id = "a"},
                              .ttl = 90s,
                              .body = bytes_of("x")});
        const auto sent = publishes_in(p);
        EXPECT_EQ(sent.size(), 1U);
        const auto got = properties_of(*sent[0]);
        EXPECT_EQ(got.content_type, "text/plain");
        EXPECT_EQ(got.content_encoding, "identity");
        EXPECT_EQ(got.priority, 7);
        EXPECT_EQ(got.correlation_id, "c");
        EXPECT_EQ(got.reply_to, "r");
        EXPECT_EQ(got.expiration, "90000") << "the ttl goes before";
        EXPECT_EQ(got.message_id, "m");
        EXPECT_EQ(got.timestamp, wire::timestamp{1700000000});
        EXPECT_EQ(got.type, "t");
        EXPECT_EQ(got.user_id, "guest");
        EXPECT_EQ(got.app_id, "a");
        EXPECT_TRUE(got.headers.has_value());
        EXPECT_TRUE(std::ranges::equal(got.headers->raw(), headers.view().raw()));
        co_await out.close();
    });
}

TEST(publisher, refuses_a_message_that_cannot_be_written_and_goes_on)
{
    with_publisher({}, [](host& there, connection&, peer&, publisher& out) -> task<> {
        const std::string long_text(256, 'x');
        const std::string large(200000, 'x');
        wire::table headers;
        headers.set("large", large);
        const auto key =
            as<channel_error>(co_await failure_of(out.publish({.routing_key = long_text})));
        EXPECT_TRUE(key && !key->by_broker());
        const auto property = as<channel_error>(co_await failure_of(
            out.publish({.routing_key = "q", .properties = {.type = long_text}})));
        EXPECT_TRUE(property && !property->by_broker());
        const auto header = as<channel_error>(co_await failure_of(
            out.publish({.routing_key = "q", .properties = {.headers = headers.view()}})));
        EXPECT_TRUE(header && header->code() == 311);
        co_await out.publish({.routing_key = "q"});
        EXPECT_EQ(out.metrics().published, 1U);
        EXPECT_EQ(out.metrics().unanswered, 0U);
        EXPECT_EQ(there.model["q"].ready.size(), 1U);
        co_await out.close();
    });
}

TEST(publisher, tells_a_publish_why_it_failed)
{
    with_publisher({}, [](host& there, connection&, peer&, publisher& out) -> task<> {
        const auto returned = as<publish_error>(
            co_await failure_of(out.publish({.routing_key = "nowhere", .exchange = "e"})));
        EXPECT_TRUE(returned);
        if (returned) {
            EXPECT_EQ(returned->why(), reason::returned);
            EXPECT_EQ(returned->code(), 312);
            EXPECT_STREQ(returned->what(),
                         "message to exchange \"e\", key \"nowhere\" returned: NO_ROUTE (312)");
        }
        there.model.on_publish = [](const said&) { return fate{fate::kind::nacked}; };
        const auto nacked =
            as<publish_error>(co_await failure_of(out.publish({.routing_key = "q"})));
        EXPECT_TRUE(nacked && nacked->why() == reason::nacked && nacked->code() == 0);
        EXPECT_EQ(out.metrics().returned, 1U);
        EXPECT_EQ(out.metrics().nacked, 1U);
        co_await out.close(); // both were told: nothing is left to say
    });
}

TEST(publisher, reports_the_first_failure_and_their_number_with_a_flush)
{
    with_publisher({}, [](host&, connection&, peer&, publisher& out) -> task<> {
        for (int i = 1; i <= 30; ++i)
            co_await out.send({.routing_key = i % 10 == 7 ? "nowhere" : "q"});
        const auto failed = as<publish_error>(co_await failure_of(out.flush()));
        EXPECT_TRUE(failed);
        if (failed) {
            EXPECT_EQ(failed->failed(), 3U);
            EXPECT_STREQ(failed->what(), "3 publishes failed, the first: publish 7 returned: "
                                         "NO_ROUTE (312)");
        }
        EXPECT_EQ(out.metrics().confirmed, 27U);
        co_await out.flush(); // told once
        co_await out.send({.routing_key = "nowhere"});
        const auto one = as<publish_error>(co_await failure_of(out.close()));
        EXPECT_TRUE(one && one->failed() == 1U) << "closing tells it too";
        co_await out.close();
        EXPECT_FALSE(out.channel().is_open());
    });
}

TEST(publisher, flushes_what_was_sent_before_and_not_what_comes_later)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        co_await out.send({.routing_key = "q"});
        co_await out.send({.routing_key = "q"});
        bool flushed = false;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](publisher& from, bool& done) -> task<> {
                co_await from.flush();
                done = true;
            }(out, flushed));
            co_await settle_down();
            co_await out.send({.routing_key = "q"});
            answers.ack(p, 2);
            co_await settle_down();
            EXPECT_FALSE(flushed);
            answers.ack(p, 1);
            co_await settle_down();
            EXPECT_TRUE(flushed);
            answers.ack(p, 3);
        });
        co_await out.flush();
    });
}

// c91, c93
TEST(publisher, gives_a_ticket_its_own_answer_in_any_order_and_for_several_at_once)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        std::vector<publish_ticket> tickets; // grows: they are moved while they wait
        for (int i = 0; i < 6; ++i)
            tickets.push_back(co_await out.send({.routing_key = "q"}));
        for (std::size_t i = 0; i < tickets.size(); ++i)
            EXPECT_EQ(tickets[i].number(), i + 1);
        co_await settle_down();
        answers.ack(p, 5);
        answers.nack(p, 4);
        answers.ack(p, 3, true);
        co_await settle_down();
        for (const std::size_t i : {0U, 1U, 2U, 4U}) {
            EXPECT_NE(tickets[i].answer(), nullptr) << i;
            co_await tickets[i].confirmed();
        }
        EXPECT_EQ(tickets[5].answer(), nullptr);
        std::optional<publish_error> nacked;
        try {
            co_await tickets[3].confirmed();
        } catch (const publish_error& e) {
            nacked = e;
        }
        EXPECT_TRUE(nacked && nacked->why() == reason::nacked);
        EXPECT_STREQ(nacked ? nacked->what() : "", "publish 4 refused by the broker (basic.nack)");
        answers.ack(p, 6);
        co_await tickets[5].confirmed();
        co_await out.flush(); // the holder of the ticket was told
    });
}

TEST(publisher, tells_of_a_dropped_ticket_with_a_flush)
{
    with_publisher({}, [](host&, connection&, peer&, publisher& out) -> task<> {
        {
            const auto dropped = co_await out.send({.routing_key = "nowhere"});
            EXPECT_EQ(dropped.number(), 1U);
        }
        auto kept = co_await out.send({.routing_key = "nowhere"});
        const auto failed = as<publish_error>(co_await failure_of(out.flush()));
        EXPECT_TRUE(failed && failed->failed() == 1U);
        EXPECT_TRUE(kept.answer() != nullptr && !kept.answer()->confirmed());
    });
}

TEST(publisher, lets_a_ticket_be_awaited_again_after_a_cancelled_wait)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        auto ticket = co_await out.send({.routing_key = "q"});
        const auto late = co_await failure_of(runtime::with_timeout(
            1s, [](publish_ticket& t) -> task<> { co_await t.confirmed(); }(ticket)));
        EXPECT_TRUE(as<runtime::timed_out>(late)) << text_of(late);
        answers.ack(p, 1);
        co_await ticket.confirmed();
        EXPECT_EQ(out.metrics().confirmed, 1U);
    });
}

TEST(publisher, calls_back_once_for_each_message)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        std::map<std::uint64_t, std::vector<bool>> told;
        const auto note = [&](const publish_answer& a) { told[a.number].push_back(a.confirmed()); };
        for (std::uint64_t i = 1; i <= 4; ++i) {
            EXPECT_EQ(co_await out.send({.routing_key = "q"}, note), i);
        }
        EXPECT_TRUE(told.empty());
        co_await settle_down();
        answers.nack(p, 2);
        answers.ack(p, 4, true);
        answers.ack(p, 4);  // a broker that repeats itself
        answers.nack(p, 1); // is not believed
        co_await settle_down();
        const std::map<std::uint64_t, std::vector<bool>> expected{
            {1, {true}}, {2, {false}}, {3, {true}}, {4, {true}}};
        EXPECT_EQ(told, expected);
        co_await out.flush();
    });
}

// c74
TEST(publisher, may_be_used_from_a_callback_by_a_task)
{
    with_publisher({.window = 2}, [](host& there, connection&, peer&, publisher& out) -> task<> {
        int rounds = 0;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            struct relay {
                publisher& out;
                scope& tasks;
                int& rounds;
                task<> go()
                {
                    co_await out.send({.routing_key = "q"}, [this](const publish_answer& a) {
                        EXPECT_TRUE(a.confirmed());
                        if (++rounds < 50)
                            tasks.spawn(go());
                    });
                }
            } chain{out, s, rounds};
            co_await chain.go();
            while (rounds < 50)
                co_await settle_down();
        });
        EXPECT_EQ(there.model["q"].ready.size(), 50U);
        co_await out.close();
    });
}

TEST(publisher, holds_back_what_is_beyond_its_window)
{
    with_publisher({.window = 4}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        std::size_t sent = 0;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](publisher& to, std::size_t& n) -> task<> {
                for (int i = 0; i < 10; ++i) {
                    co_await to.send({.routing_key = "q"});
                    ++n;
                }
            }(out, sent));
            co_await settle_down();
            EXPECT_EQ(sent, 4U);
            EXPECT_EQ(answers.published, 4U);
            answers.ack(p, 3); // whichever: what counts is how many are open
            co_await settle_down();
            EXPECT_EQ(sent, 5U);
            answers.ack(p, 4, true);
            co_await settle_down();
            EXPECT_EQ(sent, 8U);
            EXPECT_EQ(out.metrics().unanswered, 4U);
            answers.nack(p, 8, true);
            co_await settle_down();
            EXPECT_EQ(sent, 10U);
            answers.ack(p, 10, true);
        });
        const auto failed = as<publish_error>(co_await failure_of(out.flush()));
        EXPECT_TRUE(failed && failed->failed() == 4U);
    });
}

TEST(publisher, writes_in_the_order_of_the_calls_when_many_wait)
{
    with_publisher({.window = 3}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        there.model.on_publish = [](const said& what) {
            return fate{.delay = std::chrono::milliseconds(1 + what.body.size() % 3)};
        };
        co_await runtime::with_scope([&](scope& s) -> task<> {
            for (std::size_t i = 0; i < 100; ++i) {
                s.spawn([](publisher& to, std::size_t n) -> task<> {
                    const auto body = std::string(n % 7, '.') + std::to_string(n);
                    if (n % 2 == 0)
                        co_await to.publish({.routing_key = "q", .body = bytes_of(body)});
                    else
                        co_await to.send({.routing_key = "q", .body = bytes_of(body)});
                }(out, i));
            }
            co_return;
        });
        co_await out.flush();
        const auto sent = publishes_in(p);
        EXPECT_EQ(sent.size(), 100U);
        for (std::size_t i = 0; i < sent.size(); ++i)
            EXPECT_EQ(sent[i]->body, std::string(i % 7, '.') + std::to_string(i));
        co_await out.close();
    });
}

TEST(publisher, lets_nobody_overtake_a_call_that_waits_for_room)
{
    with_publisher({.window = 1}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        (void)co_await out.send({.routing_key = "q"});
        // Who waits in `flush` hears of the answer before who waits for its room.
        std::uint64_t last = 1;
        for (int round = 0; round < 3; ++round) {
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn(out.publish({.routing_key = "q", .body = bytes_of("first")}));
                s.spawn([](publisher& to) -> task<> {
                    co_await to.flush();
                    co_await to.publish({.routing_key = "q", .body = bytes_of("second")});
                }(out));
                co_await settle_down();
                for (const auto* expected : {"first", "second"}) {
                    answers.ack(p, last++);
                    co_await settle_down();
                    EXPECT_EQ(publishes_in(p).back()->body, expected);
                }
                answers.ack(p, last);
            });
            (void)co_await out.send({.routing_key = "q"});
            ++last;
        }
        answers.ack(p, last);
        co_await out.close();
    });
}

// c81
TEST(publisher, waits_while_the_output_is_full)
{
    host_options o;
    o.automatic = true;
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            auto options = there.client();
            options.output_bound = 10000;
            (void)co_await connected(there, options, [&](connection& c, peer& p) -> task<> {
                publisher out(c);
                co_await out.open();
                p.stop_listening();
                const std::string body(4000, 'x');
                std::size_t sent = 0;
                std::exception_ptr ended;
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn(keep_failure(
                        [](publisher& to, std::string_view text, std::size_t& n) -> task<> {
                            for (; n < 500; ++n)
                                co_await to.send({.routing_key = "q", .body = bytes_of(text)});
                        }(out, body, sent),
                        ended));
                    co_await settle_down();
                    const auto before = sent;
                    EXPECT_LT(before, 500U);
                    EXPECT_LE(c.output().pending(), 10000U + 4200U);
                    co_await runtime::sleep(5s);
                    EXPECT_EQ(sent, before);
                    p.listen();
                });
                EXPECT_FALSE(ended) << text_of(ended);
                EXPECT_EQ(sent, 500U);
                co_await out.close();
                EXPECT_EQ(there.model["q"].ready.size(), 500U);
            });
        },
        o);
}

// c94
TEST(publisher, fails_one_of_equal_messages_when_one_comes_back)
{
    with_publisher({}, [](host& there, connection&, peer&, publisher& out) -> task<> {
        std::size_t n = 0;
        there.model.on_publish = [&](const said&) {
            return fate{++n % 3 == 0 ? fate::kind::returned : fate::kind::accepted};
        };
        std::vector<publish_ticket> tickets;
        for (int i = 0; i < 9; ++i)
            tickets.push_back(co_await out.send({.routing_key = "q", .body = bytes_of("same")}));
        co_await out.flush();
        std::size_t failed = 0;
        for (const auto& each : tickets) {
            if (!each.answer()->confirmed()) {
                ++failed;
                EXPECT_EQ(each.answer()->code, 312);
            }
        }
        EXPECT_EQ(failed, 3U);
        co_await out.close();
    });
}

TEST(publisher, shows_the_whole_of_a_returned_message_to_who_asks)
{
    with_publisher({}, [](host&, connection&, peer&, publisher& out) -> task<> {
        std::vector<std::string> back;
        out.channel().on_return = [&](const amqp::received& m) {
            back.push_back(m.routing_key + ": " + std::string(m.body_text()));
        };
        (void)co_await failure_of(
            out.publish({.routing_key = "nowhere", .body = bytes_of("hello")}));
        EXPECT_EQ(back, std::vector<std::string>{"nowhere: hello"});
        co_await out.close();
    });
}

// P3
TEST(publisher, fires_and_forgets_without_confirms)
{
    with_publisher({.confirms = false},
                   [](host& there, connection&, peer& p, publisher& out) -> task<> {
                       std::size_t returned = 0;
                       out.channel().on_return = [&](const amqp::received&) { ++returned; };
                       for (int i = 0; i < 2000; ++i)
                           co_await out.publish({.routing_key = i % 2 == 0 ? "q" : "nowhere"});
                       const auto nothing = co_await out.send({.routing_key = "q"});
                       EXPECT_EQ(nothing.number(), 0U);
                       EXPECT_EQ(nothing.answer(), nullptr);
                       co_await out.flush();
                       EXPECT_EQ(there.model["q"].ready.size(), 1001U);
                       EXPECT_EQ(returned, 1000U);
                       EXPECT_EQ(p.count<wire::confirm::select>(), 0U);
                       EXPECT_EQ(out.metrics().published, 2001U);
                       EXPECT_EQ(properties_of(*publishes_in(p)[0]).delivery_mode, 2);
                       co_await out.close();
                   });
}

TEST(publisher, learns_from_a_flush_without_confirms_that_its_channel_was_closed)
{
    with_publisher(
        {.confirms = false}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
            there.model.before = [](peer& each, const said& what) {
                if (!what.is<wire::basic::publish>())
                    return false;
                each.close_channel(what.channel, wire::reply_code::not_found, "gone", what.id);
                return true;
            };
            co_await out.send({.routing_key = "q", .exchange = "missing"});
            const auto e = as<channel_error>(co_await failure_of(out.flush()));
            EXPECT_TRUE(e && e->code() == 404);
            EXPECT_EQ(p.count<wire::basic::publish>(), 1U);
        });
}

// c96, s11
TEST(publisher, counts_from_one_with_each_channel)
{
    with_publisher({}, [](host&, connection& c, peer&, publisher& out) -> task<> {
        auto first = co_await out.send({.routing_key = "q"});
        EXPECT_EQ(first.number(), 1U);
        publisher other(c);
        co_await other.open();
        for (std::uint64_t i = 1; i <= 3; ++i) {
            auto each = co_await other.send({.routing_key = "q"});
            EXPECT_EQ(each.number(), i);
            co_await each.confirmed();
        }
        co_await first.confirmed();
        co_await other.close();
    });
}

// c77
TEST(publisher, waits_for_its_answers_before_it_closes)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        auto ticket = co_await out.send({.routing_key = "q"});
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(out.close());
            co_await settle_down();
            EXPECT_EQ(p.count<wire::channel::close>(), 0U);
            answers.ack(p, 1);
        });
        EXPECT_EQ(p.count<wire::channel::close>(), 1U);
        co_await ticket.confirmed();
    });
}

} // namespace
} // namespace acquit::testing
