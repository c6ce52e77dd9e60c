#include "service_support.h"

// What a service does with messages that it cannot settle or cannot hold, and with what is left of a
// start or a channel that came to nothing.
namespace acquit::testing {
namespace {

task<outcome> acks(delivery&)
{
    co_return ack;
}

/// Handles a message without acknowledgement in 100 ms, and notes its body.
auto notes_slowly(std::vector<std::string>& bodies)
{
    return [&bodies](message& m) -> task<> {
        co_await runtime::sleep(100ms);
        bodies.emplace_back(m.text());
    };
}

std::vector<std::string> numbers(int count)
{
    std::vector<std::string> all;
    for (int i = 0; i < count; ++i)
        all.push_back(std::to_string(i));
    return all;
}

// The broker has forgotten them when it has sent them: there is nobody to give them back to.
TEST(service_no_ack, backlog_is_handled_under_give_back_too)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 20);
            service s(there.client());
            s.drain(drain_policy::give_back);
            std::vector<std::string> seen;
            s.consume(existing_queue("q"), notes_slowly(seen));
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(250ms);
                EXPECT_GE(s[0].metrics().waiting, 10U);
            });
            expect_clean(r);
            EXPECT_EQ(seen, numbers(20));
            if (r.result) {
                EXPECT_EQ(r.result->given_back(), 0U) << r.result->text();
                EXPECT_EQ(r.result->finished(), 20U) << r.result->text();
            }
            EXPECT_EQ(there.latest().count<wire::basic::nack>(), 0U);
        },
        automatic());
}

TEST(service_no_ack, backlog_survives_what_is_lost_during_a_drain)
{
    using happening = void (*)(peer&);
    const std::pair<const char*, happening> all[] = {
        {"the channel",
         [](peer& p) {
             p.close_channel(p.channel_of<wire::basic::consume>(), wire::reply_code::internal_error,
                             "INTERNAL_ERROR");
         }},
        {"the connection", [](peer& p) { p.reset(); }},
        {"the connection, by its close",
         [](peer& p) { p.close(wire::reply_code::connection_forced, "CONNECTION_FORCED"); }},
    };
    for (const auto& each_way : all) {
        SCOPED_TRACE(each_way.first);
        virtually(
            [&each_way](host& there) -> task<> {
                there.model.put("q", 20);
                service s(there.client());
                std::vector<std::string> seen;
                s.consume(existing_queue("q"), notes_slowly(seen));
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    s.stop();
                    co_await runtime::sleep(250ms);
                    EXPECT_EQ(s[0].state(), health::draining);
                    EXPECT_GE(s[0].metrics().waiting, 10U);
                    each_way.second(there.latest());
                });
                EXPECT_TRUE(r.result) << text_of(r.failure);
                EXPECT_EQ(seen, numbers(20));
                if (!r.result)
                    co_return;
                expect_adds_up(*r.result);
                EXPECT_FALSE(r.result->cut_short);
                EXPECT_EQ(r.result->unknown(), 0U) << r.result->text();
            },
            automatic());
    }
}

// What is decided behind the broker's connection.close has no channel to go to any more.
TEST(service, counts_as_stale_what_is_decided_after_the_broker_closed_the_connection)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 1);
            service s(there.client());
            s.consume(existing_queue("q"), [](delivery& d) -> task<outcome> {
                co_await runtime::sleep(d.redelivered() ? 0ms : 1s);
                co_return ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(900ms);
                auto& p = there.latest();
                p.stop_listening();
                p.close(wire::reply_code::connection_forced, "CONNECTION_FORCED - bye");
                co_await runtime::sleep(300ms); // within the time of our goodbye
                EXPECT_EQ(there.connects(), 1U);
                EXPECT_EQ(s[0].metrics().acked, 1U);
                EXPECT_EQ(s[0].metrics().stale, 1U);
                p.listen();
                co_await p.gone();
                EXPECT_TRUE(p.heard().back().is<wire::connection::close_ok>());
                EXPECT_EQ(p.count<wire::basic::ack>(), 0U);
                co_await there.connected(2);
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_EQ(there.model["q"].acked.size(), 1U);
        },
        automatic());
}

template <class H>
void refuses_an_oversized_body(H handler_into)
{
    virtually(
        [&](host& there) -> task<> {
            there.model.put_body("q", "small");
            there.model.put_body("q", std::string(5000, 'x'));
            there.model.put_body("q", "last");
            auto options = there.client();
            options.session.limits.body_size_max = 1000;
            service s(options);
            std::vector<std::string> seen;
            s.consume(existing_queue("q"), handler_into(seen));
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(seen, (std::vector<std::string>{"small", "last"}));
            auto& q = there.model["q"];
            EXPECT_EQ(q.acked.size(), 2U);
            EXPECT_EQ(q.dropped.size(), 1U);
            EXPECT_EQ(q.requeued, 0U);
            const auto m = s[0].metrics();
            EXPECT_EQ(m.dropped, 1U);
            EXPECT_EQ(m.failed, 1U);
            EXPECT_EQ(m.acked, 2U);
        },
        automatic());
}

TEST(service, refuses_an_oversized_body_and_calls_no_handler)
{
    refuses_an_oversized_body([](std::vector<std::string>& seen) {
        return [&seen](delivery& d) -> task<outcome> {
            seen.emplace_back(d.text());
            co_return ack;
        };
    });
}

TEST(service, refuses_an_oversized_body_before_a_plain_function_too)
{
    refuses_an_oversized_body([](std::vector<std::string>& seen) {
        return [&seen](delivery& d) -> outcome {
            seen.emplace_back(d.text());
            return ack;
        };
    });
}

TEST(service, counts_an_oversized_body_without_acknowledgements_as_dropped)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put_body("q", std::string(5000, 'x'));
            there.model.put_body("q", "last");
            auto options = there.client();
            options.session.limits.body_size_max = 1000;
            service s(options);
            std::vector<std::string> seen;
            s.consume(existing_queue("q"), [&](message& m) { seen.emplace_back(m.text()); });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(seen, (std::vector<std::string>{"last"}));
            const auto m = s[0].metrics();
            EXPECT_EQ(m.dropped, 1U);
            EXPECT_EQ(m.acked, 1U);
        },
        automatic());
}

TEST(service_started, throws_when_the_service_was_stopped_before_it_consumed)
{
    virtually(
        [](host& there) -> task<> {
            there.be_silent();
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            std::exception_ptr waiting;
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                tasks.spawn([](service& each, std::exception_ptr& failure) -> task<> {
                    failure = co_await failure_of(each.started());
                }(s, waiting));
                co_await runtime::sleep(1s);
                s.stop();
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_TRUE(as<start_error>(waiting)) << text_of(waiting);
            const auto later = co_await failure_of(s.started());
            EXPECT_TRUE(as<start_error>(later)) << text_of(later);
            there.latest().hang_up();
        },
        automatic());
}

TEST(service_started, throws_when_the_start_was_refused)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.consume(existing_queue("missing"), acks);
            std::exception_ptr waiting;
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                waiting = co_await failure_of(s.started());
            });
            EXPECT_TRUE(as<start_error>(r.failure)) << text_of(r.failure);
            EXPECT_TRUE(as<start_error>(waiting)) << text_of(waiting);
        },
        automatic());
}

std::size_t declared(const peer& p)
{
    std::size_t count = 0;
    for (const auto& each : p.heard()) {
        if (each.is<wire::queue::declare>() && !each.as<wire::queue::declare>().passive)
            ++count;
    }
    return count;
}

// It has what was bound to it and what was requeued: another one would be empty.
TEST(service_recovery, consumes_the_same_server_named_queue_again_while_it_exists)
{
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            s.declare_topology(true);
            s.consume(classic_queue("").exclusive(), acks);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                auto& p = there.latest();
                p.close_channel(p.channel_of<wire::basic::consume>(),
                                wire::reply_code::precondition_failed, "PRECONDITION_FAILED");
                co_await runtime::sleep(10s);
                EXPECT_EQ(s[0].state(), health::consuming);
                EXPECT_EQ(p.count<wire::basic::consume>(), 2U);
                EXPECT_EQ(declared(p), 1U);
                EXPECT_EQ(there.model["amq.gen-1"].consumers, 1U);

                there.model.remove("amq.gen-1");
                co_await runtime::sleep(10s);
                EXPECT_EQ(s[0].state(), health::consuming);
                EXPECT_EQ(declared(p), 2U) << "now it is gone";
                EXPECT_EQ(there.model["amq.gen-2"].consumers, 1U);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
