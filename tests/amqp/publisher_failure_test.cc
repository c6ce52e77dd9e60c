// The publisher in virtual time: channels that go, deadlines, cancellation, and all of it at random.
#include "publisher_support.h"

#include <acquit/runtime/timeout.h>

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

namespace acquit::testing {
namespace {

/// All styles with a publish each, and one call that waits for room.
struct all_styles {
    std::exception_ptr published, waiting, flushed;
    publish_ticket ticket;
    std::vector<publish_answer> told;

    task<> run(publisher& out, std::function<task<>()> meanwhile)
    {
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(keep_failure(out.publish({.routing_key = "q"}), published));
            co_await settle_down();
            ticket = co_await out.send({.routing_key = "q"});
            co_await out.send({.routing_key = "q"},
                              [this](const publish_answer& a) { told.push_back(a); });
            co_await out.send({.routing_key = "q"});
            s.spawn(keep_failure(out.publish({.routing_key = "q"}), waiting));
            s.spawn(keep_failure(out.flush(), flushed));
            co_await settle_down();
            co_await meanwhile();
        });
    }
};

void expect_all_lost(const all_styles& each, std::uint16_t code, std::string_view text)
{
    const auto check = [&](const std::exception_ptr& failure) {
        const auto e = as<publish_error>(failure);
        EXPECT_TRUE(e) << text_of(failure);
        if (e) {
            EXPECT_EQ(e->why(), reason::lost);
            EXPECT_EQ(e->code(), code);
            EXPECT_NE(e->text().find(text), std::string::npos) << e->text();
            EXPECT_TRUE(e->cause());
        }
    };
    check(each.published);
    check(each.flushed);
    EXPECT_TRUE(each.ticket.answer() != nullptr && each.ticket.answer()->failure == reason::lost);
    EXPECT_EQ(each.told.size(), 1U);
    if (!each.told.empty()) {
        EXPECT_EQ(each.told[0].failure, reason::lost);
        EXPECT_EQ(each.told[0].code, code);
    }
}

// c51, s57
TEST(publisher, fails_everything_outstanding_with_the_reason_of_its_lost_channel)
{
    with_publisher(
        {.window = 4}, [](host& there, connection& c, peer& p, publisher& out) -> task<> {
            const withheld answers(there);
            all_styles each;
            co_await each.run(out, [&]() -> task<> {
                p.close_channel(answers.channel, wire::reply_code::not_found,
                                "NOT_FOUND - no exchange", wire::id_of<wire::basic::publish>);
                co_await settle_down();
            });
            expect_all_lost(each, 404, "NOT_FOUND - no exchange");
            const auto unsent = as<channel_error>(each.waiting);
            EXPECT_TRUE(unsent && unsent->code() == 404) << text_of(each.waiting);
            const auto later =
                as<channel_error>(co_await failure_of(out.publish({.routing_key = "q"})));
            EXPECT_TRUE(later && later->code() == 404);
            co_await out.flush();
            co_await out.close();
            EXPECT_TRUE(c.is_open());
            EXPECT_EQ(out.metrics().lost, 4U);
            EXPECT_EQ(answers.published, 4U);
        });
}

// c12, c97
TEST(publisher, fails_everything_outstanding_when_its_connection_breaks)
{
    with_publisher({.window = 4}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        all_styles each;
        co_await each.run(out, [&]() -> task<> {
            p.reset();
            co_await settle_down();
        });
        expect_all_lost(each, 0, "");
        EXPECT_TRUE(as<connection_error>(each.waiting)) << text_of(each.waiting);
        EXPECT_TRUE(as<connection_error>(co_await failure_of(out.publish({.routing_key = "q"}))));
        co_await out.close();
    });
}

TEST(publisher, gives_up_an_answer_after_its_deadline)
{
    with_publisher(
        {.window = 3, .confirm_timeout = 10s},
        [](host& there, connection&, peer& p, publisher& out) -> task<> {
            const withheld answers(there);
            auto& loop = runtime::loop::current();
            std::vector<publish_answer> told;
            const auto note = [&](const publish_answer& a) { told.push_back(a); };
            co_await out.send({.routing_key = "q"}, note);
            co_await runtime::sleep(4s);
            auto confirmed = co_await out.send({.routing_key = "q"});
            co_await settle_down();
            answers.ack(p, 2);
            co_await confirmed.confirmed();
            auto called = loop.now();
            const auto late =
                as<publish_error>(co_await failure_of(out.publish({.routing_key = "q"})));
            EXPECT_TRUE(late && late->why() == reason::timed_out);
            EXPECT_EQ(loop.now() - called, 10s);
            EXPECT_EQ(told.size(), 1U);
            EXPECT_TRUE(told.size() == 1 && told[0].failure == reason::timed_out);

            // They have their place in the window until the broker answers after all.
            EXPECT_EQ(out.metrics().unanswered, 2U);
            co_await out.send({.routing_key = "q"});
            called = loop.now();
            const auto no_room =
                co_await failure_of(out.publish({.routing_key = "q", .body = bytes_of("unsent")}));
            EXPECT_TRUE(as<runtime::timed_out>(no_room)) << text_of(no_room);
            EXPECT_EQ(loop.now() - called, 10s);
            EXPECT_EQ(answers.published, 4U);
            answers.ack(p, 3, true);
            co_await settle_down();
            EXPECT_EQ(out.metrics().unanswered, 1U);
            EXPECT_EQ(told.size(), 1U) << "told once, whatever comes later";
            const auto flushed = as<publish_error>(co_await failure_of(out.flush()));
            EXPECT_TRUE(flushed && flushed->failed() == 1 && flushed->why() == reason::timed_out);
            EXPECT_EQ(out.metrics().timed_out, 3U);
            EXPECT_EQ(out.metrics().confirmed, 1U);
        });
}

TEST(publisher, sends_nothing_for_a_call_that_is_cancelled_while_it_waits_for_room)
{
    with_publisher({.window = 1}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        co_await out.send({.routing_key = "q"});
        std::exception_ptr next;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            std::exception_ptr cancelled;
            s.spawn(keep_failure(runtime::with_timeout(1s, out.publish({.routing_key = "q"})),
                                 cancelled));
            co_await settle_down();
            s.spawn(
                keep_failure(out.publish({.routing_key = "q", .body = bytes_of("next")}), next));
            co_await runtime::sleep(2s);
            EXPECT_TRUE(as<runtime::timed_out>(cancelled)) << text_of(cancelled);
            EXPECT_EQ(answers.published, 1U);
            answers.ack(p, 1);
            co_await settle_down();
            EXPECT_EQ(answers.published, 2U) << "the turn was passed on";
            answers.ack(p, 2);
        });
        EXPECT_FALSE(next) << text_of(next);
        EXPECT_EQ(publishes_in(p).back()->body, "next");
    });
}

TEST(publisher, keeps_account_of_a_publish_that_is_cancelled_while_it_waits_for_its_answer)
{
    with_publisher({}, [](host& there, connection&, peer& p, publisher& out) -> task<> {
        const withheld answers(there);
        const auto cancelled =
            co_await failure_of(runtime::with_timeout(1s, out.publish({.routing_key = "q"})));
        EXPECT_TRUE(as<runtime::timed_out>(cancelled)) << text_of(cancelled);
        EXPECT_EQ(out.metrics().unanswered, 1U);
        answers.nack(p, 1);
        const auto failed = as<publish_error>(co_await failure_of(out.flush()));
        EXPECT_TRUE(failed && failed->why() == reason::nacked);
        EXPECT_EQ(out.metrics().unanswered, 0U);
    });
}

TEST(publisher, tells_everybody_when_it_is_destroyed_with_publishes_outstanding)
{
    with_publisher({}, [](host& there, connection& c, peer& p, publisher&) -> task<> {
        const withheld answers(there);
        publish_ticket ticket;
        publish_ticket awaited;
        std::vector<publish_answer> told;
        std::exception_ptr why;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            auto out = std::make_unique<publisher>(c);
            co_await out->open();
            ticket = co_await out->send({.routing_key = "q"});
            awaited = co_await out->send({.routing_key = "q"});
            co_await out->send({.routing_key = "q"},
                               [&](const publish_answer& a) { told.push_back(a); });
            co_await out->send({.routing_key = "q"});
            s.spawn(keep_failure(
                [](publish_ticket& t) -> task<> { co_await t.confirmed(); }(awaited), why));
            co_await settle_down();
            out.reset();
            answers.ack(p, 4, true); // for nobody
        });
        EXPECT_TRUE(ticket.answer() != nullptr && ticket.answer()->failure == reason::lost);
        const auto e = as<publish_error>(why);
        EXPECT_TRUE(e && e->why() == reason::lost) << text_of(why);
        EXPECT_EQ(told.size(), 1U);
        (void)co_await p.expect<wire::channel::close>();
        co_await settle_down();
        EXPECT_TRUE(c.is_open());
    });
}

TEST(publisher_death, is_an_assertion_when_it_is_destroyed_while_a_call_waits_in_it)
{
    EXPECT_DEATH(with_publisher({},
                                [](host& there, connection& c, peer&, publisher&) -> task<> {
                                    const withheld answers(there);
                                    co_await runtime::with_scope([&](scope& s) -> task<> {
                                        auto out = std::make_unique<publisher>(c);
                                        co_await out->open();
                                        s.spawn(out->publish({.routing_key = "q"}));
                                        co_await settle_down();
                                        out.reset();
                                    });
                                }),
                 "destroyed while 1 of its calls are waiting");
}

// Each of many learns its own fate, in whatever style it was sent and in whatever order the answers
// come, and the window is never overdrawn.
struct mixture {
    host& there;
    publisher& out;
    std::size_t window;
    std::mt19937_64 random;
    std::map<std::string, std::optional<reason>> expected{};
    std::map<std::string, std::optional<reason>> found{};
    std::vector<std::pair<std::string, publish_ticket>> tickets{};
    std::size_t unheard = 0;

    fate decide(const said& what)
    {
        EXPECT_LT(there.model.unconfirmed(), window);
        fate f{.delay = std::chrono::microseconds(random() % 3000)};
        auto& right = expected[what.body];
        const auto dice = random() % 64;
        if (dice < 8) {
            f.what = fate::kind::returned;
            right = reason::returned;
        } else if (dice < 16) {
            f.what = fate::kind::nacked;
            right = reason::nacked;
        } else if (dice == 16) {
            f.delay = 150ms;
            right = reason::timed_out;
        }
        return f;
    }

    /// Again, as long as there was no room in time: then it was not sent.
    template <class F>
    static task<> until_room(F attempt)
    {
        for (;;) {
            try {
                co_await attempt();
                co_return;
            } catch (const runtime::timed_out&) {
            }
        }
    }

    task<> publish(std::string body)
    {
        std::optional<reason> result;
        try {
            co_await until_room(
                [&] { return out.publish({.routing_key = "q", .body = bytes_of(body)}); });
        } catch (const publish_error& e) {
            result = e.why();
        }
        EXPECT_TRUE(found.emplace(body, result).second);
    }
    task<> keep_ticket(std::string body)
    {
        co_await until_room([&]() -> task<> {
            auto ticket = co_await out.send({.routing_key = "q", .body = bytes_of(body)});
            tickets.emplace_back(body, std::move(ticket));
        });
    }
    task<> call_back(std::string body)
    {
        co_await until_room([&]() -> task<> {
            (void)co_await out.send({.routing_key = "q", .body = bytes_of(body)},
                                    [this, body](const publish_answer& a) {
                                        EXPECT_TRUE(found.emplace(body, a.failure).second);
                                    });
        });
    }
    task<> send(std::string body)
    {
        ++unheard;
        co_await until_room([&]() -> task<> {
            (void)co_await out.send({.routing_key = "q", .body = bytes_of(body)});
        });
    }

    task<> run()
    {
        co_await runtime::with_scope([this](scope& s) -> task<> {
            for (int i = 0; i < 200; ++i) {
                const auto body = std::to_string(i);
                switch (random() % 5) {
                case 0:
                    s.spawn(publish(body));
                    break;
                case 1:
                    s.spawn(keep_ticket(body));
                    break;
                case 2:
                    co_await call_back(body);
                    break;
                case 3:
                    s.spawn(call_back(body));
                    break;
                default:
                    co_await send(body);
                }
                EXPECT_LE(out.metrics().unanswered, window);
            }
        });
        const auto flushed = as<publish_error>(co_await failure_of(out.flush()));
        for (auto& [body, ticket] : tickets)
            found.emplace(body, (co_await ticket.answered()).failure);
        EXPECT_EQ(expected.size(), 200U);
        EXPECT_EQ(found.size() + unheard, 200U);
        std::uint64_t untold = 0;
        for (const auto& [body, right] : expected) {
            if (const auto which = found.find(body); which != found.end())
                EXPECT_EQ(which->second, right) << body;
            else
                untold += right ? 1 : 0;
        }
        EXPECT_EQ(flushed ? flushed->failed() : 0, untold);
    }
};

TEST(publisher, agrees_with_the_broker_about_each_message_by_seed)
{
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        host_options o;
        o.shuffle_seed = seed;
        o.stream.delay = std::chrono::microseconds(seed % 4 * 300);
        const std::size_t window = 1 + seed % 17;
        with_publisher(
            {.window = window, .confirm_timeout = 100ms},
            [&](host& there, connection&, peer&, publisher& out) -> task<> {
                mixture m{there, out, window, std::mt19937_64(seed)};
                there.model.on_publish = [&](const said& what) { return m.decide(what); };
                co_await m.run();
                co_await out.close();
                there.model.on_publish = nullptr;
            },
            o);
    }
}

} // namespace
} // namespace acquit::testing
