#include "service_support.h"

// The bounds of a service: how long its end may take, whatever the broker does or leaves undone, and
// what it does with messages that it cannot settle or cannot hold.
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

runtime::time_point now()
{
    return runtime::loop::current().now();
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

/// Starts a service whose broker leaves the first M unanswered, and aborts it.
template <class M>
void aborted_while_unanswered()
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 0);
            there.model["q"];
            bool asked = false;
            there.model.before = [&](peer&, const said& what) {
                const bool silent = what.is<M>();
                asked = asked || silent;
                return silent;
            };
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await runtime::sleep(1s);
                EXPECT_TRUE(asked);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(1900ms);
                EXPECT_TRUE(r.over);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (r.result) {
                EXPECT_TRUE(r.result->cut_short);
                EXPECT_FALSE(r.result->error) << text_of(r.result->error);
            }
        },
        automatic());
}

TEST(service_abort, does_not_wait_for_an_unanswered_declare)
{
    aborted_while_unanswered<wire::queue::declare>();
}

TEST(service_abort, does_not_wait_for_an_unanswered_qos)
{
    aborted_while_unanswered<wire::basic::qos>();
}

TEST(service_abort, does_not_wait_for_an_unanswered_consume)
{
    aborted_while_unanswered<wire::basic::consume>();
}

TEST(service_abort, does_not_wait_for_an_unanswered_consume_of_a_recovery)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                there.model.before = [](peer&, const said& what) {
                    return what.is<wire::basic::consume>();
                };
                there.model.cancel_consumers("q");
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.latest().count<wire::basic::consume>(), 2U);
                s.stop();
                co_await runtime::sleep(1s);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(1900ms);
                EXPECT_TRUE(r.over);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (r.result) {
                EXPECT_TRUE(r.result->cut_short);
                EXPECT_FALSE(r.result->error) << text_of(r.result->error);
            }
        },
        automatic());
}

/// The broker says nothing any more once it was asked to close the connection.
void be_silent_at_close(host& there)
{
    there.model.before = [](peer& p, const said& what) {
        if (what.is<wire::connection::close>())
            p.freeze();
        return false;
    };
}

TEST(service_abort, does_not_wait_for_an_unanswered_connection_close)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 10);
            be_silent_at_close(there);
            service s(there.client());
            s.consume(existing_queue("q"), acks);
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await s.started();
                co_await runtime::sleep(1s);
                s.stop();
                co_await runtime::sleep(1s);
                EXPECT_EQ(there.latest().count<wire::connection::close>(), 1U);
                EXPECT_FALSE(r.over);
                s.abort();
                co_await runtime::sleep(1900ms);
                EXPECT_TRUE(r.over);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            EXPECT_EQ(r.result->finished(), 10U);
            expect_adds_up(*r.result);
        },
        automatic());
}

/// Two subscriptions; the verb M of the drain of the first is never answered.
template <class M>
void one_of_two_drains_hangs(std::uint64_t acked_of_first)
{
    virtually(
        [acked_of_first](host& there) -> task<> {
            there.model.put("a", 1);
            there.model.put("b", 3);
            auto options = there.client();
            options.operation_timeout = 2s;
            service s(options);
            s.consume(existing_queue("a"), acks);
            s.consume(existing_queue("b"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(5s);
                co_return ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                std::uint16_t first = 0; // where a is consumed
                for (const auto& each : there.latest().heard()) {
                    if (each.template is<wire::basic::consume>() &&
                        each.template as<wire::basic::consume>().queue == "a")
                        first = each.channel;
                }
                EXPECT_NE(first, 0);
                there.model.before = [first](peer&, const said& what) {
                    return what.channel == first && what.is<M>();
                };
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_FALSE(r.result->cut_short);
            EXPECT_EQ(there.model["a"].acked.size(), acked_of_first);
            EXPECT_EQ(there.model["b"].acked.size(), 3U);
            EXPECT_EQ(there.model["b"].lost_unsettled, 0U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain_deadline, of_a_cancel_that_times_out_leaves_the_other_drains_alone)
{
    one_of_two_drains_hangs<wire::basic::cancel>(1);
}

TEST(service_drain_deadline, of_a_round_trip_that_times_out_leaves_the_other_drains_alone)
{
    one_of_two_drains_hangs<wire::basic::qos>(1);
}

TEST(service_drain_deadline, is_one_though_the_connection_is_lost_meanwhile)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            service s(there.client());
            s.drain_deadline(4s);
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(1h);
                co_return ack;
            });
            runtime::time_point stopped{};
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
                stopped = now();
                s.stop();
                co_await runtime::sleep(3s);
                there.latest().reset();
            });
            EXPECT_GE(now() - stopped, 4s);
            EXPECT_LE(now() - stopped, 4100ms);
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_TRUE(r.result->cut_short);
            EXPECT_EQ(r.result->unknown(), 4U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain_deadline, holds_for_the_close_of_the_connection_too)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            be_silent_at_close(there);
            service s(there.client());
            s.drain_deadline(4s);
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                 co_await runtime::sleep(2s);
                 co_return ack;
             }).concurrency(4);
            runtime::time_point stopped{};
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(500ms);
                stopped = now();
            });
            EXPECT_GE(now() - stopped, 3900ms);
            EXPECT_LE(now() - stopped, 4100ms);
            EXPECT_TRUE(r.result) << text_of(r.failure);
            if (!r.result)
                co_return;
            EXPECT_EQ(r.result->finished(), 4U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(service_drain_deadline, of_the_longest_duration_cuts_nothing_short)
{
    virtually(
        [](host& there) -> task<> {
            there.model.put("q", 4);
            auto options = there.client();
            options.session.heartbeat_s = 0;
            service s(options);
            s.drain_deadline(std::chrono::nanoseconds::max());
            s.consume(existing_queue("q"), [](delivery&) -> task<outcome> {
                co_await runtime::sleep(1h);
                co_return ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                co_await runtime::sleep(1s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 4U);
            if (r.result) {
                EXPECT_GE(r.result->drain_time, 3h);
            }
        },
        automatic());
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
