#include "../peer/host.h"

#include <gtest/gtest.h>

// What is left to others when a connection or a channel ends: who hears of it, and by which words.
namespace acquit::testing {
namespace {

using amqp::channel;
using amqp::channel_error;
using amqp::connection;
using amqp::connection_error;

/// Runs a verb at the side of the test and keeps what it throws.
void keep(scope& s, std::exception_ptr& into, task<std::exception_ptr> verb)
{
    s.spawn([](std::exception_ptr& failure, task<std::exception_ptr> each) -> task<> {
        failure = co_await std::move(each);
    }(into, std::move(verb)));
}

/// A channel in confirm mode whose connection died while its output stood above the bound, is given
/// to `body`.
template <class F>
void on_a_dead_connection_with_full_output(F body)
{
    host_options o;
    o.stream.capacity = 4096;
    virtually(
        [&body](host& there) -> task<> {
            auto options = there.client();
            options.output_bound = 5'000;
            (void)co_await connected(there, options, [&](connection& c, peer& p) -> task<> {
                channel ch(c);
                co_await ch.open();
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn(ch.confirm_select());
                    const auto asked = co_await p.expect<wire::confirm::select>();
                    p.say(asked.channel, wire::confirm::select_ok{});
                });
                p.stop_listening();
                const std::string text(1000, 'x');
                while (c.output().pending() < options.output_bound)
                    co_await ch.publish({.routing_key = "q", .body = amqp::bytes_of(text)});
                co_await settle_down();
                while (c.output().pending() < options.output_bound)
                    co_await ch.publish({.routing_key = "q", .body = amqp::bytes_of(text)});
                p.reset();
                co_await settle_down();
                EXPECT_TRUE(c.is_over());
                EXPECT_GE(c.output().pending(), options.output_bound);
                co_await body(ch);
            });
        },
        o);
}

TEST(connection_end, is_heard_by_a_publish_that_finds_the_output_full)
{
    on_a_dead_connection_with_full_output([](channel& ch) -> task<> {
        const auto failure = co_await failure_of(ch.publish({.routing_key = "q"}));
        EXPECT_TRUE(as<connection_error>(failure)) << text_of(failure);
    });
}

TEST(connection_end, is_heard_by_a_confirmed_publish_that_finds_the_output_full)
{
    on_a_dead_connection_with_full_output([](channel& ch) -> task<> {
        const auto failure = co_await failure_of(ch.publish_confirmed({.routing_key = "q"}));
        EXPECT_TRUE(as<connection_error>(failure)) << text_of(failure);
    });
}

// A node that is stopped says 320, and its socket may be reset before our close-ok is written.
TEST(connection_end, keeps_the_brokers_code_when_the_socket_is_reset_right_behind_it)
{
    constexpr std::string_view words = "CONNECTION_FORCED - broker forced connection closure";
    virtually([&](host& there) -> task<> {
        const auto failure = co_await connected(there, [&](connection& c, peer& p) -> task<> {
            channel ch(c);
            co_await ch.open();
            p.cut_after(wire::encoded_size(
                wire::connection::close{.reply_code = 320, .reply_text = words}));
            p.close(wire::reply_code::connection_forced, words);
            co_await settle_down();
            EXPECT_TRUE(c.is_over());
        });
        const auto ended = as<connection_error>(failure);
        EXPECT_TRUE(ended) << text_of(failure);
        if (ended) {
            EXPECT_EQ(ended->code(), 320) << ended->what();
            EXPECT_EQ(ended->text(), words);
        }
        EXPECT_EQ(there.latest().count<wire::connection::close_ok>(), 0U) << "it was too late";
    });
}

// Between the peer's close and the end of its socket.
TEST(connection_end, by_the_peer_ends_the_channels_before_the_socket_ends)
{
    virtually([](host& there) -> task<> {
        (void)co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            channel later(c);
            co_await ch.open();
            p.stop_listening();
            p.close(wire::reply_code::connection_forced, "CONNECTION_FORCED - bye");
            co_await settle_down();
            EXPECT_FALSE(c.is_over()) << "the peer has not ended its stream yet";
            EXPECT_FALSE(c.is_open());
            EXPECT_FALSE(ch.is_open());

            ch.ack(1);
            ch.reject(2, true);
            std::vector<std::exception_ptr> failures{ch.failure()};
            failures.push_back(co_await failure_of(ch.qos(1)));
            failures.push_back(co_await failure_of(ch.publish({.routing_key = "q"})));
            failures.push_back(co_await failure_of(ch.publish_confirmed({.routing_key = "q"})));
            for (const auto& failure : failures) {
                const auto why = as<connection_error>(failure);
                EXPECT_TRUE(why) << text_of(failure);
                if (why) {
                    EXPECT_EQ(why->code(), 320);
                }
            }
            const auto refused = co_await failure_of(later.open());
            EXPECT_TRUE(as<connection_error>(refused)) << text_of(refused);

            p.listen();
            co_await settle_down();
            EXPECT_TRUE(c.is_over());
            EXPECT_TRUE(p.heard().back().is<wire::connection::close_ok>());
            EXPECT_EQ(p.count<wire::basic::ack>() + p.count<wire::basic::reject>(), 0U);
        });
    });
}

TEST(connection_end, by_cancelling_its_scope_is_an_error_for_those_who_were_not_cancelled)
{
    virtually([](host& there) -> task<> {
        connection c(there.client());
        channel ch(c);
        std::exception_ptr failure;
        co_await runtime::with_scope([&](scope& others) -> task<> {
            co_await runtime::with_scope([&](scope& serving) -> task<> {
                serving.spawn(c.run());
                co_await c.opened();
                co_await ch.open();
                keep(others, failure, failure_of(ch.declare_queue({.queue = "q"})));
                (void)co_await there.latest().expect<wire::queue::declare>();
                serving.cancel();
            });
            EXPECT_TRUE(c.is_over());
        });
        EXPECT_TRUE(as<connection_error>(failure)) << text_of(failure);
        const auto later = co_await failure_of(ch.qos(1));
        EXPECT_TRUE(as<connection_error>(later)) << text_of(later);
        const auto opened = co_await failure_of(c.opened());
        EXPECT_TRUE(as<connection_error>(opened)) << text_of(opened);
    });
}

TEST(channel_end, while_it_opens_frees_its_number_again)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            {
                channel given_up(c);
                p.freeze();
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    s.spawn(given_up.open());
                    (void)co_await p.expect<wire::channel::open>();
                    s.cancel();
                });
                EXPECT_FALSE(given_up.is_open());
                EXPECT_EQ(given_up.number(), 1);
            }
            co_await settle_down();
            EXPECT_EQ(p.count<wire::channel::close>(), 1U);
            EXPECT_EQ(p.channel_of<wire::channel::close>(), 1);
            EXPECT_EQ(c.session().channels_in_use(), 1U) << "until close-ok";
            p.thaw();
            co_await settle_down();
            EXPECT_EQ(c.session().channels_in_use(), 0U);
            channel next(c);
            co_await next.open();
            EXPECT_EQ(next.number(), 1);
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

TEST(channel_end, may_be_where_the_channel_itself_is_destroyed)
{
    using happening = void (*)(peer&);
    const std::pair<const char*, happening> all[] = {
        {"channel closed",
         [](peer& p) { p.close_channel(1, wire::reply_code::not_found, "NOT_FOUND"); }},
        {"connection closed", [](peer& p) { p.close(wire::reply_code::connection_forced, "bye"); }},
        {"reset", [](peer& p) { p.reset(); }},
    };
    for (const auto& each_way : all) {
        SCOPED_TRACE(each_way.first);
        virtually([&each_way](host& there) -> task<> {
            (void)co_await connected(there, [&](connection& c, peer& p) -> task<> {
                auto ch = std::make_unique<channel>(c);
                co_await ch->open();
                int told = 0;
                ch->on_lost = [&](std::exception_ptr why) {
                    EXPECT_TRUE(why);
                    ch.reset();
                    ++told;
                };
                each_way.second(p);
                co_await settle_down();
                EXPECT_EQ(told, 1);
                EXPECT_FALSE(ch);
            });
        });
    }
}

TEST(channel_end, may_be_where_another_channel_is_destroyed)
{
    using happening = void (*)(peer&);
    const std::pair<const char*, happening> all[] = {
        {"channel closed",
         [](peer& p) { p.close_channel(2, wire::reply_code::not_found, "NOT_FOUND"); }},
        {"connection closed", [](peer& p) { p.close(wire::reply_code::connection_forced, "bye"); }},
        {"reset", [](peer& p) { p.reset(); }},
    };
    for (const auto& each_way : all) {
        SCOPED_TRACE(each_way.first);
        virtually([&each_way](host& there) -> task<> {
            (void)co_await connected(there, [&](connection& c, peer& p) -> task<> {
                auto first = std::make_unique<channel>(c);
                channel second(c);
                auto third = std::make_unique<channel>(c);
                co_await first->open();
                co_await second.open();
                co_await third->open();
                int told = 0;
                third->on_lost = [](std::exception_ptr) { ADD_FAILURE() << "it is gone"; };
                second.on_lost = [&](std::exception_ptr) {
                    first.reset();
                    third.reset();
                    ++told;
                };
                each_way.second(p);
                co_await settle_down();
                EXPECT_EQ(told, 1);
                EXPECT_FALSE(second.is_open());
                // Those that were destroyed on a connection that lives are closed on it.
                EXPECT_EQ(p.count<wire::channel::close>(), c.is_open() ? 2U : 0U);
            });
        });
    }
}

struct deaf_sink final : amqp::consumer_sink {
    void on_delivery(const amqp::content_event&, const runtime::segment_ref&) noexcept override {}
    void on_server_cancel() noexcept override {}
    void on_channel_lost(std::exception_ptr) noexcept override {}
};

TEST(channel_error, of_our_own_does_not_speak_of_the_broker)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            const auto check = [](const std::exception_ptr& failure, std::uint16_t code) {
                const auto e = as<channel_error>(failure);
                EXPECT_TRUE(e) << text_of(failure);
                if (!e)
                    return;
                EXPECT_FALSE(e->by_broker());
                EXPECT_EQ(e->code(), code);
                EXPECT_EQ(e->class_id() + e->method_id(), 0);
                EXPECT_EQ(text_of(failure).find("broker"), std::string::npos) << text_of(failure);
                EXPECT_NE(text_of(failure).find(e->text()), std::string::npos) << text_of(failure);
            };
            check(co_await failure_of(ch.qos(1)), 504);

            co_await ch.open();
            deaf_sink sink;
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn([](channel& each, deaf_sink& into) -> task<> {
                    (void)co_await each.consume({.queue = "q", .consumer_tag = "same"}, into);
                }(ch, sink));
                const auto asked = co_await p.expect<wire::basic::consume>();
                p.say(asked.channel, wire::basic::consume_ok{.consumer_tag = "same"});
            });
            check(co_await failure_of(ch.consume({.queue = "q", .consumer_tag = "same"}, sink)),
                  530);
            EXPECT_TRUE(ch.is_open()) << "refused before anything was sent";

            co_await ch.close();
            check(co_await failure_of(ch.qos(1)), 200);
            check(ch.failure(), 200);
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

TEST(channel_error, of_the_broker_says_so_and_names_the_method)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            co_await ch.open();
            std::exception_ptr failure;
            co_await runtime::with_scope([&](scope& s) -> task<> {
                keep(s, failure, failure_of(ch.declare_queue({.queue = "q", .passive = true})));
                (void)co_await p.expect<wire::queue::declare>();
                p.close_channel(1, wire::reply_code::not_found, "NOT_FOUND - no queue 'q'",
                                wire::id_of<wire::queue::declare>);
            });
            const auto e = as<channel_error>(failure);
            EXPECT_TRUE(e) << text_of(failure);
            if (!e)
                co_return;
            EXPECT_TRUE(e->by_broker());
            EXPECT_EQ(e->code(), 404);
            EXPECT_STREQ(e->what(), "channel 1 closed by the broker: NOT_FOUND - no queue 'q' "
                                    "(404), at queue.declare");
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

} // namespace
} // namespace acquit::testing
