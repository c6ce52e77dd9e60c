#include "../peer/host.h"

#include <gtest/gtest.h>

// How a connection ends: by either side, in order or not, with anything still pending.
namespace acquit::testing {
namespace {

using amqp::channel;
using amqp::channel_error;
using amqp::connection;
using amqp::connection_error;

TEST(connection_close, writes_what_was_said_before_it)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer&) -> task<> {
            channel ch(c);
            co_await ch.open();
            ch.ack(1);
            ch.ack(2);
            co_await c.close();
        });
        EXPECT_FALSE(ended) << text_of(ended);
        auto& p = there.latest();
        EXPECT_EQ(p.count<wire::basic::ack>(), 2U);
        EXPECT_EQ(p.heard().back().id, wire::id_of<wire::connection::close>);
    });
}

TEST(connection_close, is_idempotent_and_may_be_asked_by_several)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer&) -> task<> {
            co_await runtime::with_scope([&](scope& s) -> task<> {
                for (int i = 0; i < 3; ++i)
                    s.spawn(c.close());
                co_return;
            });
            co_await c.close();
            EXPECT_TRUE(c.is_over());
        });
        EXPECT_FALSE(ended) << text_of(ended);
        EXPECT_EQ(there.latest().count<wire::connection::close>(), 1U);
    });
}

TEST(connection_close, by_the_broker_gives_its_code_and_words)
{
    virtually([](host& there) -> task<> {
        const auto ended =
            as<connection_error>(co_await connected(there, [](connection& c, peer& p) -> task<> {
                p.close(wire::reply_code::connection_forced,
                        "CONNECTION_FORCED - broker shuts down");
                co_await settle_down();
                EXPECT_TRUE(c.is_over());
            }));
        EXPECT_TRUE(ended);
        if (!ended)
            co_return;
        EXPECT_EQ(ended->code(), 320);
        EXPECT_EQ(ended->text(), "CONNECTION_FORCED - broker shuts down");
        EXPECT_EQ(there.latest().count<wire::connection::close_ok>(), 1U);
    });
}

TEST(connection_close, from_both_sides_at_once_ends_cleanly)
{
    virtually([](host& there) -> task<> {
        (void)co_await connected(there, [](connection& c, peer& p) -> task<> {
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn(c.close());
                p.close(wire::reply_code::connection_forced, "bye");
                co_return;
            });
            EXPECT_TRUE(c.is_over());
        });
        co_await settle_down();
        EXPECT_TRUE(there.latest().is_over());
    });
}

TEST(connection_close, does_not_wait_for_ever_for_a_peer_that_answers_nothing)
{
    virtually([](host& there) -> task<> {
        auto options = there.client();
        options.operation_timeout = 5s;
        options.session.heartbeat_s = 0;
        const auto began = runtime::loop::current().now();
        const auto ended = co_await connected(there, options, [](connection&, peer& p) -> task<> {
            p.freeze();
            co_return;
        });
        EXPECT_TRUE(as<connection_error>(ended)) << text_of(ended);
        EXPECT_GE(runtime::loop::current().now() - began, 5s);
        EXPECT_LE(runtime::loop::current().now() - began, 8s);
    });
}

TEST(connection_close, ends_in_time_when_the_peer_takes_no_bytes)
{
    host_options o;
    o.stream.capacity = 1024;
    virtually(
        [](host& there) -> task<> {
            auto options = there.client();
            options.operation_timeout = 5s;
            options.session.heartbeat_s = 0;
            const auto began = runtime::loop::current().now();
            (void)co_await connected(there, options, [](connection& c, peer& p) -> task<> {
                channel ch(c);
                co_await ch.open();
                p.stop_listening();
                for (std::uint64_t tag = 1; tag < 1000; ++tag)
                    ch.ack(tag);
                co_await settle_down();
                co_await c.close();
                EXPECT_TRUE(c.is_over());
            });
            EXPECT_LE(runtime::loop::current().now() - began, 8s);
            there.latest().hang_up();
        },
        o);
}

/// Three verbs and a confirmed publish pending on two channels while `happens` happens; the failures
/// of each, in this order: declare, qos, publish on channel 1, declare on channel 2.
template <class F>
task<std::vector<std::exception_ptr>> pending_when(connection& c, peer& p, F happens)
{
    channel one(c);
    channel two(c);
    co_await one.open();
    co_await two.open();
    std::vector<std::exception_ptr> failures(4);
    co_await runtime::with_scope([&](scope& s) -> task<> {
        const auto keep = [&](std::size_t i, task<std::exception_ptr> of) {
            s.spawn([](std::exception_ptr& into, task<std::exception_ptr> each) -> task<> {
                into = co_await std::move(each);
            }(failures[i], std::move(of)));
        };
        s.spawn(one.confirm_select());
        (void)co_await p.expect<wire::confirm::select>();
        p.say(1, wire::confirm::select_ok{});
        co_await settle_down();
        keep(2,
             failure_of(one.publish_confirmed({.routing_key = "q", .body = amqp::bytes_of("x")})));
        (void)co_await p.expect<wire::basic::publish>();
        keep(0, failure_of(one.declare_queue({.queue = "q"})));
        keep(1, failure_of(one.qos(5)));
        keep(3, failure_of(two.declare_queue({.queue = "q"})));
        (void)co_await p.expect<wire::queue::declare>();
        co_await settle_down();
        happens(p);
        co_await settle_down();
    });
    co_return failures;
}

// c12, c88
TEST(connection_close, ends_every_pending_operation_with_an_error)
{
    using happening = void (*)(peer&);
    const std::pair<const char*, happening> all[] = {
        {"reset", [](peer& p) { p.reset(); }},
        {"end of stream", [](peer& p) { p.hang_up(); }},
        {"closed by the broker",
         [](peer& p) { p.close(wire::reply_code::connection_forced, "bye"); }},
        {"garbage", [](peer& p) { p.raw(amqp::bytes_of("this is no frame of any kind")); }},
    };
    for (const auto& each_way : all) {
        SCOPED_TRACE(each_way.first);
        virtually([&each_way](host& there) -> task<> {
            (void)co_await connected(there, [&](connection& c, peer& p) -> task<> {
                const auto failures = co_await pending_when(c, p, each_way.second);
                for (const auto& each : failures)
                    EXPECT_TRUE(as<connection_error>(each)) << text_of(each);
                co_await settle_down();
                p.hang_up();
            });
        });
    }
}

// c51
TEST(connection_close, of_one_channel_reaches_all_that_is_pending_on_it_and_nothing_else)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [&](connection& c, peer& p) -> task<> {
            const auto failures = co_await pending_when(c, p, [](peer& each) {
                each.close_channel(1, wire::reply_code::not_found, "NOT_FOUND - no exchange 'e'",
                                   wire::id_of<wire::basic::publish>);
                each.say(2, wire::queue::declare_ok{.queue = "q"});
            });
            for (std::size_t i = 0; i < 3; ++i) {
                const auto e = as<channel_error>(failures[i]);
                EXPECT_TRUE(e) << i << text_of(failures[i]);
                if (!e)
                    continue;
                EXPECT_EQ(e->code(), 404);
                EXPECT_EQ(e->text(), "NOT_FOUND - no exchange 'e'");
                EXPECT_EQ(e->class_id(), 60);
                EXPECT_EQ(e->method_id(), 40);
            }
            EXPECT_FALSE(failures[3]) << text_of(failures[3]);
            EXPECT_TRUE(c.is_open());
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

// c70, c56: in whichever order things are let go.
TEST(connection_close, leaves_channels_that_outlive_it_inert)
{
    virtually([](host& there) -> task<> {
        auto c = std::make_unique<connection>(there.client());
        auto ch = std::make_unique<channel>(*c);
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(c->run());
            co_await c->opened();
            co_await ch->open();
            co_await c->close();
        });
        c.reset();
        EXPECT_FALSE(ch->is_open());
        ch->ack(1);
        EXPECT_TRUE(as<connection_error>(co_await failure_of(ch->qos(1))));
        co_await ch->close();
        ch.reset();
    });
}

// c71: a reset, and then the channel's end writes nothing and throws nothing.
TEST(connection_close, by_reset_is_survived_by_its_channels)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            co_await ch.open();
            p.reset();
            co_await settle_down();
            EXPECT_TRUE(c.is_over());
        });
        EXPECT_TRUE(as<connection_error>(ended));
    });
}

// C12: what nobody asked for.
TEST(connection_close, answers_an_unsolicited_reply_with_503)
{
    virtually([](host& there) -> task<> {
        const auto ended =
            as<connection_error>(co_await connected(there, [](connection& c, peer& p) -> task<> {
                channel ch(c);
                co_await ch.open();
                p.say(1, wire::queue::declare_ok{.queue = "q"});
                co_await settle_down();
                EXPECT_TRUE(c.is_over());
                EXPECT_FALSE(ch.is_open());
                EXPECT_EQ(p.session().close_info().code, wire::reply_code::command_invalid);
                EXPECT_TRUE(p.session().close_info().by_peer);
            }));
        EXPECT_TRUE(ended);
        if (ended) {
            EXPECT_NE(std::string(ended->what()).find("queue.declare-ok"), std::string::npos)
                << ended->what();
        }
    });
}

TEST(connection_close, answers_malformed_bytes_with_the_code_of_the_specification)
{
    virtually([](host& there) -> task<> {
        const auto ended =
            as<connection_error>(co_await connected(there, [](connection& c, peer& p) -> task<> {
                // A method frame whose end is not 0xCE.
                const auto bad =
                    std::to_array<unsigned char>({1, 0, 0, 0, 0, 0, 4, 0, 10, 0, 61, 0});
                p.raw(std::as_bytes(std::span(bad)));
                co_await settle_down();
                EXPECT_TRUE(c.is_over());
                EXPECT_EQ(p.session().close_info().code, wire::reply_code::frame_error);
            }));
        EXPECT_TRUE(ended);
    });
}

TEST(connection, says_while_the_broker_blocks_publishing_and_why)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            EXPECT_FALSE(c.is_blocked());
            p.block("low on memory");
            co_await settle_down();
            EXPECT_TRUE(c.is_blocked());
            EXPECT_EQ(c.blocked_reason(), "low on memory");
            p.unblock();
            co_await settle_down();
            EXPECT_FALSE(c.is_blocked());
            EXPECT_EQ(c.blocked_reason(), "");
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

TEST(connection, makes_publishers_wait_at_its_output_bound_but_never_settlements)
{
    host_options o;
    o.stream.capacity = 4096;
    virtually(
        [](host& there) -> task<> {
            auto options = there.client();
            options.output_bound = 20'000;
            const auto ended =
                co_await connected(there, options, [](connection& c, peer& p) -> task<> {
                    channel ch(c);
                    co_await ch.open();
                    p.stop_listening();
                    const std::string body(1000, 'x');
                    int published = 0;
                    co_await runtime::with_scope([&](scope& s) -> task<> {
                        s.spawn([](channel& to, const std::string& text, int& count) -> task<> {
                            for (; count < 100; ++count)
                                co_await to.publish(
                                    {.routing_key = "q", .body = amqp::bytes_of(text)});
                        }(ch, body, published));
                        co_await settle_down();
                        EXPECT_GE(published, 15);
                        EXPECT_LE(published, 30);
                        const auto full = c.output().pending();
                        for (std::uint64_t tag = 1; tag <= 100; ++tag)
                            ch.ack(tag);
                        EXPECT_EQ(c.output().pending(), full + 100 * 21);
                        p.listen();
                    });
                    EXPECT_EQ(published, 100);
                    co_await ch.close();
                    EXPECT_EQ(p.count<wire::basic::publish>(), 100U);
                    EXPECT_EQ(p.count<wire::basic::ack>(), 100U);
                });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        o);
}

TEST(connection, that_ends_frees_a_publisher_that_waits_for_room)
{
    host_options o;
    o.stream.capacity = 4096;
    virtually(
        [](host& there) -> task<> {
            auto options = there.client();
            options.output_bound = 5'000;
            (void)co_await connected(there, options, [](connection& c, peer& p) -> task<> {
                channel ch(c);
                co_await ch.open();
                p.stop_listening();
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    std::exception_ptr failure;
                    s.spawn([](channel& to, std::exception_ptr& why) -> task<> {
                        const std::string body(1000, 'x');
                        while (!why)
                            why = co_await failure_of(
                                to.publish({.routing_key = "q", .body = amqp::bytes_of(body)}));
                    }(ch, failure));
                    co_await settle_down();
                    EXPECT_FALSE(failure);
                    p.reset();
                    co_await settle_down();
                    EXPECT_TRUE(as<connection_error>(failure)) << text_of(failure);
                });
            });
        },
        o);
}

// c73
TEST(connection, with_a_million_publishes_in_its_output_is_let_go_without_recursion)
{
    host_options o;
    o.stream.capacity = 64;
    virtually(
        [](host& there) -> task<> {
            auto options = there.client();
            options.output_bound = std::size_t{1} << 30;
            (void)co_await connected(there, options, [](connection& c, peer& p) -> task<> {
                channel ch(c);
                co_await ch.open();
                p.stop_listening();
                for (int i = 0; i < 1'000'000; ++i)
                    co_await ch.publish({.routing_key = "q"});
                EXPECT_GT(c.output().pending(), 30'000'000U);
                p.reset();
            });
        },
        o);
}

} // namespace
} // namespace acquit::testing
