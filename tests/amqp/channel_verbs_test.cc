#include "../peer/host.h"

#include <gtest/gtest.h>

// What a channel's verbs do when the answer comes, comes late, or does not come.
namespace acquit::testing {
namespace {

using amqp::channel;
using amqp::channel_error;
using amqp::connection;

struct quiet_sink final : amqp::consumer_sink {
    std::vector<std::string> bodies;
    int cancels = 0;
    std::exception_ptr lost;
    void on_delivery(const amqp::content_event& content,
                     const runtime::segment_ref&) noexcept override
    {
        bodies.emplace_back(reinterpret_cast<const char*>(content.body.data()),
                            content.body.size());
    }
    void on_server_cancel() noexcept override { ++cancels; }
    void on_channel_lost(std::exception_ptr why) noexcept override { lost = std::move(why); }
};

template <class F>
void with_channel(F body, host_options options = {})
{
    virtually(
        [&body](host& there) -> task<> {
            const auto ended = co_await connected(there, [&](connection& c, peer& p) -> task<> {
                channel ch(c);
                co_await ch.open();
                (void)co_await p.expect<wire::channel::open>();
                co_await body(ch, p);
                co_await ch.close();
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        std::move(options));
}

/// Runs a verb beside the test's script and keeps how it failed.
struct running {
    std::exception_ptr failure;
    bool over = false;
};
template <class T>
task<> into(running& r, task<T> verb)
{
    r.failure = co_await failure_of(std::move(verb));
    r.over = true;
}

// C11, c88
TEST(channel_verb, ends_at_its_deadline_and_its_late_answer_is_skipped)
{
    virtually([](host& there) -> task<> {
        auto options = there.client();
        options.operation_timeout = 5s;
        const auto ended = co_await connected(there, options, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            co_await ch.open();
            co_await runtime::with_scope([&](scope& s) -> task<> {
                running first;
                s.spawn(into(first, ch.declare_queue({.queue = "first"})));
                co_await runtime::sleep(4999ms);
                EXPECT_FALSE(first.over);
                co_await runtime::sleep(2ms);
                EXPECT_TRUE(first.over);
                EXPECT_TRUE(as<runtime::timed_out>(first.failure)) << text_of(first.failure);
                EXPECT_NE(text_of(first.failure).find("queue.declare on channel 1"),
                          std::string::npos);

                std::string second;
                s.spawn([](channel& each, std::string& name) -> task<> {
                    name = (co_await each.declare_queue({.queue = "second"})).name;
                }(ch, second));
                co_await settle_down();
                p.say(1, wire::queue::declare_ok{.queue = "first"});
                co_await settle_down();
                EXPECT_EQ(second, "") << "took the answer of another";
                p.say(1, wire::queue::declare_ok{.queue = "second"});
                co_await settle_down();
                EXPECT_EQ(second, "second");
            });
            co_await ch.close();
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

TEST(channel_verb, that_was_cancelled_leaves_its_answer_to_nobody)
{
    with_channel([](channel& ch, peer& p) -> task<> {
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](channel& each) -> task<> {
                (void)co_await each.declare_queue({.queue = "first"});
            }(ch));
            co_await settle_down();
            s.cancel();
        });
        p.say(1, wire::queue::declare_ok{.queue = "first"});
        co_await settle_down();
        EXPECT_TRUE(ch.is_open());
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](peer& each) -> task<> {
                (void)co_await each.expect<wire::basic::qos>();
                each.say(1, wire::basic::qos_ok{});
            }(p));
            co_await ch.qos(7);
        });
    });
}

TEST(channel_verb, gets_its_own_answer_among_many_that_wait)
{
    with_channel([](channel& ch, peer& p) -> task<> {
        std::vector<std::string> names(10);
        co_await runtime::with_scope([&](scope& s) -> task<> {
            for (std::size_t i = 0; i < names.size(); ++i) {
                s.spawn([](channel& each, std::string& name, std::size_t n) -> task<> {
                    const auto asked = "q" + std::to_string(n);
                    name = (co_await each.declare_queue({.queue = asked})).name;
                }(ch, names[i], i));
            }
            for (std::size_t i = 0; i < names.size(); ++i) {
                const auto asked = co_await p.expect<wire::queue::declare>();
                p.say(1, wire::queue::declare_ok{.queue = asked.as<wire::queue::declare>().queue});
            }
        });
        for (std::size_t i = 0; i < names.size(); ++i)
            EXPECT_EQ(names[i], "q" + std::to_string(i));
    });
}

TEST(channel_get, gives_each_of_several_its_own_message)
{
    host_options o;
    for (o.shuffle_seed = 1; o.shuffle_seed < 10; ++o.shuffle_seed) {
        with_channel(
            [](channel& ch, peer& p) -> task<> {
                std::vector<std::string> bodies(3, "nothing");
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    for (auto& body : bodies) {
                        s.start([](channel& each, std::string& got) -> task<> {
                            if (const auto m = co_await each.get("q"))
                                got = m->body_text();
                        }(ch, body));
                    }
                    co_await settle_down();
                    p.get_ok(1, 1, "a");
                    p.say(1, wire::basic::get_empty{});
                    p.get_ok(1, 2, "b");
                });
                EXPECT_EQ(bodies, (std::vector<std::string>{"a", "nothing", "b"}));
            },
            o);
    }
}

TEST(channel_get, does_not_hand_a_late_message_to_the_next_one)
{
    with_channel([](channel& ch, peer& p) -> task<> {
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](channel& each) -> task<> { (void)co_await each.get("q"); }(ch));
            co_await settle_down();
            s.cancel();
        });
        std::optional<amqp::received> second;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](channel& each, std::optional<amqp::received>& got) -> task<> {
                got = co_await each.get("q");
            }(ch, second));
            co_await settle_down();
            p.get_ok(1, 1, "for the first");
            p.say(1, wire::basic::get_empty{});
        });
        EXPECT_FALSE(second);
    });
}

// c54
TEST(channel, refuses_verbs_before_it_is_open_and_after_its_end)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            channel ch(c);
            const auto early = as<channel_error>(co_await failure_of(ch.qos(1)));
            EXPECT_TRUE(early);
            co_await ch.open();
            p.close_channel(1, wire::reply_code::precondition_failed,
                            "PRECONDITION_FAILED - timeout");
            co_await settle_down();
            EXPECT_FALSE(ch.is_open());
            const auto late =
                as<channel_error>(co_await failure_of(ch.declare_queue({.queue = "q"})));
            EXPECT_TRUE(late);
            if (late) {
                EXPECT_EQ(late->code(), 406) << "the reason of the end, not a new one";
            }
            const auto publish =
                as<channel_error>(co_await failure_of(ch.publish({.routing_key = "q"})));
            EXPECT_TRUE(publish);
            if (publish) {
                EXPECT_EQ(publish->code(), 406);
            }
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

// c52, s41, s47: after its close only close-ok goes out for a channel.
TEST(channel, writes_nothing_but_close_ok_after_the_broker_closed_it)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            quiet_sink sink;
            channel ch(c);
            co_await ch.open();
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn([](peer& each) -> task<> {
                    (void)co_await each.expect<wire::basic::consume>();
                    each.say(1, wire::basic::consume_ok{.consumer_tag = "t"});
                }(p));
                (void)co_await ch.consume({.queue = "q", .consumer_tag = "t"}, sink);
            });
            p.close_channel(1, wire::reply_code::precondition_failed, "PRECONDITION_FAILED");
            co_await settle_down();
            const auto before = p.heard().size();
            ch.ack(1);
            ch.reject(2, true);
            ch.nack(3, true, true);
            co_await ch.cancel("t");
            co_await ch.close();
            (void)co_await failure_of(ch.qos(1));
            co_await settle_down();
            EXPECT_EQ(p.heard().size(), before);
            EXPECT_EQ(p.heard().back().id, wire::id_of<wire::channel::close_ok>);
            EXPECT_TRUE(as<channel_error>(sink.lost));
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

// s41: what was on its way when we closed is skipped.
TEST(channel, skips_deliveries_that_cross_its_close)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            quiet_sink sink;
            channel ch(c);
            co_await ch.open();
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn([](peer& each) -> task<> {
                    (void)co_await each.expect<wire::basic::consume>();
                    each.say(1, wire::basic::consume_ok{.consumer_tag = "t"});
                }(p));
                (void)co_await ch.consume({.queue = "q", .consumer_tag = "t"}, sink);
            });
            p.deliver_range(1, "t", 1, 20);
            co_await ch.close();
            const auto seen = sink.bodies.size();
            co_await settle_down();
            EXPECT_EQ(sink.bodies.size(), seen);
            ch.ack(1);
            co_await settle_down();
            EXPECT_EQ(p.count<wire::basic::ack>(), 0U);
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

// c56
TEST(channel, may_be_closed_twice_and_destroyed_at_any_point)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
            {
                channel never_opened(c);
                co_await never_opened.close();
            }
            {
                channel left_open(c);
                co_await left_open.open();
            }
            co_await settle_down();
            EXPECT_EQ(p.count<wire::channel::close>(), 1U) << "the destructor closes what is open";
            channel twice(c);
            co_await twice.open();
            co_await twice.close();
            co_await twice.close();
            EXPECT_EQ(p.count<wire::channel::close>(), 2U);
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

TEST(channel, close_fails_what_is_pending_on_it)
{
    virtually([](host& there) -> task<> {
        const auto ended = co_await connected(there, [](connection& c, peer&) -> task<> {
            channel ch(c);
            co_await ch.open();
            co_await runtime::with_scope([&](scope& s) -> task<> {
                running verb;
                s.spawn(into(verb, ch.declare_queue({.queue = "q"})));
                co_await settle_down();
                co_await ch.close();
                co_await settle_down();
                EXPECT_TRUE(as<channel_error>(verb.failure)) << text_of(verb.failure);
            });
        });
        EXPECT_FALSE(ended) << text_of(ended);
    });
}

TEST(channel, answers_flow_once)
{
    with_channel([](channel&, peer& p) -> task<> {
        p.say(1, wire::channel::flow{.active = false});
        co_await settle_down();
        EXPECT_EQ(p.count<wire::channel::flow_ok>(), 1U);
    });
}

// c66, s56: the broker ends a consumer; the answer depends on its version.
void server_cancel(const char* version, std::size_t answers)
{
    host_options o;
    o.server.version = version;
    with_channel(
        [answers](channel& ch, peer& p) -> task<> {
            quiet_sink sink;
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn([](peer& each) -> task<> {
                    (void)co_await each.expect<wire::basic::consume>();
                    each.say(1, wire::basic::consume_ok{.consumer_tag = "t"});
                    each.deliver(1, {.consumer_tag = "t", .tag = 1, .body = "x"});
                }(p));
                EXPECT_EQ(co_await ch.consume({.queue = "q", .consumer_tag = "t"}, sink), "t");
            });
            co_await settle_down();
            EXPECT_EQ(sink.bodies.size(), 1U);
            p.say(1, wire::basic::cancel{.consumer_tag = "t"});
            co_await settle_down();
            EXPECT_EQ(sink.cancels, 1);
            EXPECT_EQ(p.count<wire::basic::cancel>(), answers);
            EXPECT_EQ(p.count<wire::basic::cancel_ok>(), 0U) << "closes the connection before 4.3";
            if (answers != 0) {
                EXPECT_TRUE(
                    (co_await p.expect<wire::basic::cancel>()).as<wire::basic::cancel>().no_wait);
            }
            p.deliver(1, {.consumer_tag = "t", .tag = 2, .body = "late"});
            co_await settle_down();
            EXPECT_EQ(sink.bodies.size(), 1U);
            ch.ack(1);
            co_await ch.cancel("t");
            EXPECT_EQ(p.count<wire::basic::cancel>(), answers)
                << "who is cancelled need not cancel";
        },
        o);
}

TEST(channel, lets_a_consumer_that_the_broker_ended_be_before_4_3)
{
    server_cancel("4.2.1", 0);
}
TEST(channel, cancels_a_consumer_that_the_broker_ended_from_4_3_on)
{
    server_cancel("4.3.0", 1);
}
TEST(channel, answers_no_cancel_of_an_unknown_version)
{
    server_cancel("next", 0);
}

// c69: also where the broker wants no answer.
TEST(channel, is_told_of_a_cancelled_consumer_with_no_wait_and_says_nothing)
{
    host_options o;
    o.server.version = "4.3.0";
    with_channel(
        [](channel& ch, peer& p) -> task<> {
            quiet_sink sink;
            co_await runtime::with_scope([&](scope& s) -> task<> {
                s.spawn([](peer& each) -> task<> {
                    (void)co_await each.expect<wire::basic::consume>();
                    each.say(1, wire::basic::consume_ok{.consumer_tag = "t"});
                }(p));
                (void)co_await ch.consume({.queue = "q", .consumer_tag = "t"}, sink);
            });
            p.say(1, wire::basic::cancel{.consumer_tag = "t", .no_wait = true});
            co_await settle_down();
            EXPECT_EQ(sink.cancels, 1);
            EXPECT_EQ(p.count<wire::basic::cancel>(), 0U);
        },
        o);
}

// s19: a consumer tag belongs to its channel, not to the connection.
TEST(channel, keeps_consumers_with_the_same_tag_apart)
{
    host_options o;
    o.automatic = true;
    virtually(
        [](host& there) -> task<> {
            there.model.put("a", 3, "a");
            there.model.put("b", 3, "b");
            const auto ended = co_await connected(there, [](connection& c, peer&) -> task<> {
                quiet_sink a;
                quiet_sink b;
                channel one(c);
                channel two(c);
                co_await one.open();
                co_await two.open();
                (void)co_await one.consume({.queue = "a", .consumer_tag = "t"}, a);
                (void)co_await two.consume({.queue = "b", .consumer_tag = "t"}, b);
                co_await settle_down();
                EXPECT_EQ(a.bodies, (std::vector<std::string>{"a0", "a1", "a2"}));
                EXPECT_EQ(b.bodies, (std::vector<std::string>{"b0", "b1", "b2"}));
                co_await one.close();
                EXPECT_TRUE(two.is_open());
                co_await two.close();
            });
            EXPECT_FALSE(ended) << text_of(ended);
        },
        o);
}

TEST(channel, refuses_a_consumer_tag_that_is_in_use)
{
    with_channel([](channel& ch, peer& p) -> task<> {
        quiet_sink sink;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](peer& each) -> task<> {
                (void)co_await each.expect<wire::basic::consume>();
                each.say(1, wire::basic::consume_ok{.consumer_tag = "t"});
            }(p));
            (void)co_await ch.consume({.queue = "q", .consumer_tag = "t"}, sink);
        });
        const auto refused = as<channel_error>(
            co_await failure_of(ch.consume({.queue = "q", .consumer_tag = "t"}, sink)));
        EXPECT_TRUE(refused);
        if (refused) {
            EXPECT_EQ(refused->code(), 530);
        }
        EXPECT_TRUE(ch.is_open());
        co_await ch.close(); // before the sink goes
    });
}

TEST(channel_death, is_an_assertion_when_destroyed_with_a_pending_verb)
{
    EXPECT_DEATH(virtually([](host& there) -> task<> {
                     (void)co_await connected(there, [](connection& c, peer&) -> task<> {
                         auto ch = std::make_unique<channel>(c);
                         co_await ch->open();
                         co_await runtime::with_scope([&](scope& s) -> task<> {
                             s.spawn(ch->qos(1));
                             co_await settle_down();
                             ch.reset();
                         });
                     });
                 }),
                 "destroyed while a verb is pending");
}

} // namespace
} // namespace acquit::testing
