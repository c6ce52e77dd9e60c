#include "../peer/host.h"

#include <acquit/amqp/confirms.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace acquit::testing {
namespace {

using amqp::channel;
using amqp::channel_error;
using amqp::confirm_tracker;
using amqp::connection;
using amqp::publish_error;
using amqp::publish_result;

struct ear final : amqp::confirm_listener {
    std::vector<publish_result> heard;
    std::uint16_t code = 0;
    void on_confirm(publish_result result, std::uint16_t return_code) noexcept override
    {
        heard.push_back(result);
        code = return_code;
    }
};

amqp::message_identity identity(std::string_view key, std::string_view body)
{
    return amqp::identify("", key, {}, amqp::bytes_of(body));
}

using results = std::vector<publish_result>;

// c91
TEST(confirm_tracker, expands_an_answer_for_several)
{
    confirm_tracker t;
    std::array<ear, 4> ears;
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(t.add(&ears[i], {}), i + 1);
    EXPECT_TRUE(t.confirm(3, true, true));
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(ears[i].heard, results{publish_result::confirmed});
    EXPECT_TRUE(ears[3].heard.empty());
    EXPECT_EQ(t.outstanding(), 1U);
    EXPECT_TRUE(t.confirm(0, true, false));
    EXPECT_EQ(ears[3].heard, results{publish_result::nacked});
    EXPECT_EQ(t.outstanding(), 0U);
}

TEST(confirm_tracker, refuses_tags_that_are_not_outstanding)
{
    confirm_tracker t;
    EXPECT_FALSE(t.confirm(1, false, true));
    EXPECT_FALSE(t.confirm(0, false, true));
    EXPECT_FALSE(t.confirm(0, true, true));
    ear one;
    ear two;
    (void)t.add(&one, {});
    (void)t.add(&two, {});
    EXPECT_TRUE(t.confirm(2, false, true));
    EXPECT_FALSE(t.confirm(2, false, true));
    EXPECT_FALSE(t.confirm(3, true, true));
    EXPECT_TRUE(t.confirm(1, false, true));
    EXPECT_FALSE(t.confirm(1, true, true));
    EXPECT_EQ(one.heard.size() + two.heard.size(), 2U);
}

// c94
TEST(confirm_tracker, tells_the_message_that_was_returned_and_no_other)
{
    confirm_tracker t;
    ear routed;
    ear lost;
    ear same_place;
    (void)t.add(&routed, identity("a", "x"));
    (void)t.add(&same_place, identity("b", "other"));
    (void)t.add(&lost, identity("b", "x"));
    EXPECT_TRUE(t.returned(identity("b", "x"), 312));
    EXPECT_TRUE(t.confirm(3, true, true));
    EXPECT_EQ(routed.heard, results{publish_result::confirmed});
    EXPECT_EQ(same_place.heard, results{publish_result::confirmed});
    EXPECT_EQ(lost.heard, results{publish_result::returned});
    EXPECT_EQ(lost.code, 312);
    EXPECT_FALSE(t.returned(identity("b", "x"), 312)) << "nothing is outstanding";
}

TEST(confirm_tracker, finds_a_returned_message_by_its_destination_when_its_bytes_changed)
{
    confirm_tracker t;
    ear one;
    (void)t.add(&one, identity("a", "x"));
    EXPECT_FALSE(t.returned(identity("elsewhere", "x"), 312));
    EXPECT_TRUE(t.returned(identity("a", "encoded anew"), 312));
    (void)t.confirm(1, false, true);
    EXPECT_EQ(one.heard, results{publish_result::returned});
}

// Two copies of one message, say: the older was refused, or is not answered at all.
TEST(confirm_tracker, takes_the_first_ack_among_equals_for_that_of_the_returned_one)
{
    {
        confirm_tracker t;
        ear refused;
        ear lost;
        (void)t.add(&refused, identity("a", "x"));
        (void)t.add(&lost, identity("a", "x"));
        EXPECT_TRUE(t.returned(identity("a", "x"), 312));
        EXPECT_TRUE(t.confirm(1, false, false));
        EXPECT_TRUE(t.confirm(2, false, true));
        EXPECT_EQ(refused.heard, results{publish_result::nacked});
        EXPECT_EQ(refused.code, 0);
        EXPECT_EQ(lost.heard, results{publish_result::returned});
        EXPECT_EQ(lost.code, 312);
    }
    {
        confirm_tracker t;
        ear late;
        ear lost;
        ear routed;
        (void)t.add(&late, identity("a", "x"));
        (void)t.add(&lost, identity("a", "x"));
        (void)t.add(&routed, identity("a", "y"));
        EXPECT_TRUE(t.returned(identity("a", "x"), 312));
        EXPECT_TRUE(t.confirm(3, false, true));
        EXPECT_TRUE(t.confirm(2, false, true));
        EXPECT_TRUE(t.confirm(1, false, true));
        EXPECT_EQ(late.heard, results{publish_result::confirmed});
        EXPECT_EQ(lost.heard, results{publish_result::returned});
        EXPECT_EQ(routed.heard, results{publish_result::confirmed});
    }
    {
        // Alone it is believed, whatever comes.
        confirm_tracker t;
        ear one;
        (void)t.add(&one, identity("a", "x"));
        EXPECT_TRUE(t.returned(identity("a", "x"), 312));
        EXPECT_TRUE(t.confirm(1, false, false));
        EXPECT_EQ(one.heard, results{publish_result::returned});
    }
}

// RabbitMQ 4.x returns headers sorted by name.
TEST(confirm_tracker, knows_a_returned_message_whatever_the_order_of_its_headers)
{
    const auto with = [](const wire::table& headers, std::string_view type = "t") {
        const wire::properties p{.headers = headers.view(), .type = type};
        std::vector<std::byte> frame(wire::header_frame_size(p));
        frame.resize(wire::encode_header_frame(frame, 1, 1, p));
        // Frame head, class, weight and body size before the properties; the frame's end behind.
        const auto properties = std::span(frame).subspan(19, frame.size() - 20);
        return amqp::identify("", "a", properties, amqp::bytes_of("x"));
    };
    const auto sent = with(wire::table{}.set("zone", "eu").set("attempt", 1).set("id", true));
    EXPECT_EQ(sent, with(wire::table{}.set("attempt", 1).set("id", true).set("zone", "eu")));
    EXPECT_EQ(sent, with(wire::table{}.set("id", true).set("zone", "eu").set("attempt", 1)));

    EXPECT_NE(sent, with(wire::table{}.set("zone", "us").set("attempt", 1).set("id", true)));
    EXPECT_NE(sent, with(wire::table{}.set("zone", "eu").set("attempt", 1)));
    EXPECT_NE(sent, with(wire::table{}.set("zone", 1).set("attempt", "eu").set("id", true)));
    EXPECT_NE(sent, with(wire::table{}.set("zone", "eu").set("attempt", 1).set("id", true), "u"));

    // Of two that differ in a header alone, the one that was returned is told, not the older.
    confirm_tracker t;
    ear routed;
    ear lost;
    (void)t.add(&routed, with(wire::table{}.set("b", 1).set("a", 1)));
    (void)t.add(&lost, with(wire::table{}.set("b", 2).set("a", 1)));
    EXPECT_TRUE(t.returned(with(wire::table{}.set("a", 1).set("b", 2)), 312));
    EXPECT_TRUE(t.confirm(2, true, true));
    EXPECT_EQ(routed.heard, results{publish_result::confirmed});
    EXPECT_EQ(lost.heard, results{publish_result::returned});
}

TEST(confirm_tracker, counts_failures_that_nobody_listens_to)
{
    confirm_tracker t;
    for (int i = 0; i < 4; ++i)
        (void)t.add(nullptr, identity("a", "x"));
    (void)t.returned(identity("a", "x"), 312);
    (void)t.confirm(1, false, true);
    (void)t.confirm(2, false, false);
    (void)t.confirm(3, false, true);
    EXPECT_EQ(t.take_failures(), 2U);
    EXPECT_EQ(t.take_failures(), 0U);
    t.fail_all();
    EXPECT_EQ(t.take_failures(), 1U);
    EXPECT_EQ(t.outstanding(), 0U);
}

TEST(confirm_tracker, does_not_call_who_was_forgotten)
{
    confirm_tracker t;
    ear gone;
    const auto tag = t.add(&gone, {});
    t.forget(tag);
    t.forget(99);
    t.fail_all();
    EXPECT_TRUE(gone.heard.empty());
}

// Against a model that keeps a map: every listener hears exactly once what the model says.
TEST(confirm_tracker, agrees_with_a_model_in_any_order_of_answers)
{
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        confirm_tracker t;
        std::deque<ear> ears;
        std::map<std::uint64_t, bool> open; // tag -> returned
        std::vector<publish_result> expected{publish_result::pending};
        std::map<std::uint64_t, std::string> keys;
        for (int step = 0; step < 300; ++step) {
            const auto dice = random() % 10;
            if (dice < 5) {
                ear& listener = ears.emplace_back();
                const auto tag = t.add(&listener, identity("k" + std::to_string(ears.size()), ""));
                ASSERT_EQ(tag, ears.size());
                open[tag] = false;
                expected.push_back(publish_result::pending);
            } else if (dice < 6 && !open.empty()) {
                auto which = open.begin();
                std::advance(which, random() % open.size());
                ASSERT_EQ(t.returned(identity("k" + std::to_string(which->first), ""), 312),
                          !which->second);
                which->second = true;
            } else {
                const std::uint64_t tag = 1 + random() % (ears.size() + 2);
                const bool multiple = random() % 3 == 0;
                const bool acked = random() % 4 != 0;
                const auto finish = [&](std::map<std::uint64_t, bool>::iterator which) {
                    expected[which->first] = which->second ? publish_result::returned
                                             : acked       ? publish_result::confirmed
                                                           : publish_result::nacked;
                    return open.erase(which);
                };
                bool valid = false;
                if (multiple) {
                    valid = tag <= ears.size() && !open.empty() && tag >= open.begin()->first;
                    for (auto each = open.begin();
                         valid && each != open.end() && each->first <= tag;)
                        each = finish(each);
                } else if (const auto which = open.find(tag); which != open.end()) {
                    valid = true;
                    finish(which);
                }
                ASSERT_EQ(t.confirm(tag, multiple, acked), valid) << "tag " << tag;
            }
            ASSERT_EQ(t.outstanding(), open.size());
        }
        for (std::size_t i = 0; i < ears.size(); ++i) {
            if (expected[i + 1] == publish_result::pending) {
                EXPECT_TRUE(ears[i].heard.empty());
            } else
                EXPECT_EQ(ears[i].heard, results{expected[i + 1]});
        }
    }
}

template <class F>
void with_broker(F body)
{
    host_options o;
    o.automatic = true;
    virtually(
        [&body](host& there) -> task<> {
            there.model["q"];
            const auto ended = co_await connected(
                there, [&](connection& c, peer& p) -> task<> { co_await body(there, c, p); });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        o);
}

// c94 under load: unroutable and routable ones mixed, all in flight together.
TEST(confirms, fail_the_publish_that_was_returned_among_many)
{
    with_broker([](host& there, connection& c, peer&) -> task<> {
        channel ch(c);
        co_await ch.open();
        co_await ch.confirm_select();
        std::vector<std::exception_ptr> failures(200);
        co_await runtime::with_scope([&](scope& s) -> task<> {
            for (std::size_t i = 0; i < failures.size(); ++i) {
                s.spawn([](channel& to, std::size_t n, std::exception_ptr& why) -> task<> {
                    const auto body = std::to_string(n);
                    why = co_await failure_of(
                        to.publish_confirmed({.routing_key = n % 3 == 0 ? "nowhere" : "q",
                                              .mandatory = true,
                                              .body = amqp::bytes_of(body)}));
                }(ch, i, failures[i]));
            }
            co_return;
        });
        for (std::size_t i = 0; i < failures.size(); ++i) {
            const auto e = as<publish_error>(failures[i]);
            EXPECT_EQ(e.has_value(), i % 3 == 0) << i << " " << text_of(failures[i]);
            if (e) {
                EXPECT_EQ(e->why(), publish_error::reason::returned);
            }
            if (e) {
                EXPECT_EQ(e->code(), 312);
            }
        }
        EXPECT_EQ(there.model["q"].ready.size(), 133U);
        co_await ch.close();
    });
}

// c93: a round trip of 20 ms is paid once, not per message.
TEST(confirms, are_pipelined)
{
    host_options o;
    o.automatic = true;
    o.stream.delay = 10ms;
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            (void)co_await connected(there, [](connection& c, peer&) -> task<> {
                channel ch(c);
                co_await ch.open();
                co_await ch.confirm_select();
                const auto began = runtime::loop::current().now();
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    for (int i = 0; i < 100; ++i)
                        s.spawn(ch.publish_confirmed({.routing_key = "q"}));
                    co_return;
                });
                EXPECT_LE(runtime::loop::current().now() - began, 40ms);
                co_await ch.close();
            });
        },
        o);
}

// c92: the broker counts from confirm.select on, so a publish before its answer has a number too.
TEST(confirms, count_publishes_made_before_the_broker_agreed)
{
    with_broker([](host& there, connection& c, peer&) -> task<> {
        channel ch(c);
        co_await ch.open();
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(ch.confirm_select());
            co_await runtime::sleep(0ns);
            for (int i = 0; i < 5; ++i)
                co_await ch.publish({.routing_key = "q"});
            co_await ch.publish_confirmed({.routing_key = "q"});
        });
        EXPECT_EQ(co_await ch.wait_for_confirms(), 0U);
        EXPECT_EQ(ch.unconfirmed(), 0U);
        EXPECT_EQ(there.model["q"].ready.size(), 6U);
        co_await ch.close();
    });
}

// c96, s11
TEST(confirms, are_counted_from_one_on_each_channel)
{
    with_broker([](host&, connection& c, peer&) -> task<> {
        for (int i = 0; i < 3; ++i) {
            channel ch(c);
            co_await ch.open();
            co_await ch.publish_confirmed({.routing_key = "q"});
            co_await ch.publish_confirmed({.routing_key = "q"});
            co_await ch.close();
        }
    });
}

TEST(confirms, tell_of_a_nack)
{
    virtually([](host& there) -> task<> {
        (void)co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            co_await ch.open();
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn([](peer& each) -> task<> {
                    (void)co_await each.expect<wire::confirm::select>();
                    each.say(1, wire::confirm::select_ok{});
                    (void)co_await each.expect<wire::basic::publish>();
                    each.say(1, wire::basic::nack{.delivery_tag = 1});
                }(p));
                const auto e = as<publish_error>(
                    co_await failure_of(ch.publish_confirmed({.routing_key = "q"})));
                EXPECT_TRUE(e);
                if (e) {
                    EXPECT_EQ(e->why(), publish_error::reason::nacked);
                }
            });
            co_await ch.close();
        });
    });
}

TEST(confirms, that_are_outstanding_fail_with_the_channel)
{
    virtually([](host& there) -> task<> {
        (void)co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            co_await ch.open();
            co_await runtime::with_scope([&](scope& s) -> task<> {
                std::exception_ptr one;
                std::exception_ptr all;
                s.spawn(ch.confirm_select());
                (void)co_await p.expect<wire::confirm::select>();
                p.say(1, wire::confirm::select_ok{});
                s.spawn([](channel& to, std::exception_ptr& why) -> task<> {
                    why = co_await failure_of(to.publish_confirmed({.routing_key = "q"}));
                }(ch, one));
                (void)co_await p.expect<wire::basic::publish>();
                s.spawn([](channel& to, std::exception_ptr& why) -> task<> {
                    why = co_await failure_of(to.wait_for_confirms());
                }(ch, all));
                co_await settle_down();
                p.close_channel(1, wire::reply_code::resource_error, "RESOURCE_ERROR");
                co_await settle_down();
                EXPECT_TRUE(as<channel_error>(one)) << text_of(one);
                EXPECT_TRUE(as<channel_error>(all)) << text_of(all);
            });
        });
    });
}

TEST(confirms_death, is_an_assertion_when_the_channel_goes_while_a_publish_waits)
{
    EXPECT_DEATH(virtually([](host& there) -> task<> {
                     (void)co_await connected(there, [](connection& c, peer& p) -> task<> {
                         auto ch = std::make_unique<channel>(c);
                         co_await ch->open();
                         co_await runtime::with_scope([&](scope& s) -> task<> {
                             s.spawn(ch->publish_confirmed({.routing_key = "q"}));
                             (void)co_await p.expect<wire::confirm::select>();
                             p.say(1, wire::confirm::select_ok{});
                             (void)co_await p.expect<wire::basic::publish>();
                             ch.reset();
                         });
                     });
                 }),
                 "destroyed while a publish waits for its confirm");
}

// c74: publishing from where a confirm arrives.
TEST(confirms, may_be_followed_by_the_next_publish_at_once)
{
    with_broker([](host& there, connection& c, peer&) -> task<> {
        channel ch(c);
        co_await ch.open();
        for (int i = 0; i < 50; ++i) {
            co_await ch.publish_confirmed({.routing_key = "q"});
            co_await ch.publish({.routing_key = "q"});
        }
        EXPECT_EQ(co_await ch.wait_for_confirms(), 0U);
        EXPECT_EQ(there.model["q"].ready.size(), 100U);
        co_await ch.close();
    });
}

} // namespace
} // namespace acquit::testing
