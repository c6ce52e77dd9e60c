#include "service_support.h"

#include <acquit/amqp/wire/table.h>

#include <map>
#include <vector>

// Copies and delays, against a broker that does as it is told, in virtual time.
namespace acquit::testing {
namespace {

using fate = broker_model::publish_fate;

/// The peer whose client publishes.
peer& publisher_of(host& there)
{
    for (std::size_t i = 0; i < there.connects(); ++i) {
        if (there.at(i).channel_of<wire::confirm::select>() != 0)
            return there.at(i);
    }
    throw std::runtime_error("nobody publishes");
}

/// Settlements of any kind that a peer heard.
std::size_t settlements(const peer& p)
{
    return p.count<wire::basic::ack>() + p.count<wire::basic::reject>() +
           p.count<wire::basic::nack>();
}

// "Copies are never lost": the original is settled when its copy is confirmed, and not before.
TEST(copies, an_original_is_settled_when_its_copy_is_confirmed)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            there.model.on_publish = [](const said&) { return fate{.delay = 5s}; };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                 return d.attempt() == 1 ? retry() : ack;
             }).max_attempts(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 3);
                co_await runtime::sleep(4s);
                // All three are under way at once; none of their originals is settled.
                EXPECT_EQ(publisher_of(there).count<wire::basic::publish>(), 3U);
                EXPECT_EQ(there.at(0).count<wire::basic::reject>(), 0U);
                EXPECT_EQ(there.model["q"].unsettled, 3U);
                EXPECT_EQ(there.model["q"].acked.size(), 3U)
                    << "the copies, ahead of the originals";
                co_await runtime::sleep(2s);
                EXPECT_EQ(there.at(0).count<wire::basic::reject>(), 3U);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 3U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
        },
        automatic());
}

TEST(copies, one_without_a_confirm_gives_its_original_back_after_the_deadline)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            bool answer = false;
            there.model.on_publish = [&answer](const said&) {
                return fate{.delay = answer ? 0s : runtime::duration::max()};
            };
            auto& sub = s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                             return d.attempt() == 1 ? retry() : ack;
                         }).max_attempts(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 1);
                co_await runtime::sleep(29s);
                EXPECT_EQ(there.at(0).count<wire::basic::reject>(), 0U);
                EXPECT_EQ(there.model["q"].unsettled, 1U);
                co_await runtime::sleep(2s);
                EXPECT_EQ(there.model["q"].requeued, 1U);
                EXPECT_GE(sub.metrics().retries.copies_failed, 1U);
                answer = true;
                co_await runtime::sleep(60s);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            EXPECT_GE(there.model["q"].acked.size(), 1U);
        },
        automatic());
}

TEST(copies, nacked_and_returned_ones_give_their_originals_back_with_growing_pauses)
{
    for (const auto what : {fate::kind::nacked, fate::kind::returned}) {
        virtually(
            [what](host& there) -> task<> {
                there.model["q"];
                service s(there.client());
                bool refuse = true;
                there.model.on_publish = [&, what](const said&) {
                    return fate{.what = refuse ? what : fate::kind::accepted};
                };
                std::size_t calls = 0;
                s.consume(classic_queue("q"), [&](delivery& d) -> outcome {
                     ++calls;
                     return d.attempt() == 1 ? retry() : ack;
                 }).max_attempts(2);
                const auto r = co_await serving(s, [&]() -> task<> {
                    co_await s.started();
                    there.model.put("q", 1);
                    co_await runtime::sleep(60s);
                    // s61: not in a circle at full speed.
                    EXPECT_GE(calls, 4U);
                    EXPECT_LE(calls, 60U);
                    EXPECT_EQ(there.model.instances("0"), 1U);
                    refuse = false;
                    co_await runtime::sleep(60s);
                    EXPECT_EQ(there.model["q"].acked.size(), 1U);
                });
                expect_clean(r);
            },
            automatic());
    }
}

TEST(copies, a_lost_publish_connection_gives_the_originals_back_and_is_made_again)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            bool answer = false;
            there.model.on_publish = [&answer](const said&) {
                return fate{.delay = answer ? 0s : runtime::duration::max()};
            };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                 return d.attempt() == 1 ? retry() : ack;
             }).max_attempts(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 10);
                co_await settle_down();
                publisher_of(there).reset();
                answer = true;
                co_await runtime::sleep(60s);
                EXPECT_EQ(there.connects(), 3U);
                EXPECT_EQ(there.at(0).is_over(), false) << "consuming goes on";
            });
            expect_clean(r);
            const auto& acked = there.model["q"].acked;
            EXPECT_EQ(std::set<std::string>(acked.begin(), acked.end()).size(), 10U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
        },
        automatic());
}

TEST(copies, confirmed_after_their_consumer_was_lost_write_nothing)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            there.model.on_publish = [](const said&) { return fate{.delay = 10s}; };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                 return d.attempt() == 1 && !d.redelivered() ? retry() : ack;
             }).max_attempts(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 4);
                co_await settle_down();
                there.at(0).reset();
                co_await runtime::sleep(60s);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
            // Each original came again and was acked; so did its copy.
            EXPECT_EQ(there.model["q"].acked.size(), 8U);
            EXPECT_EQ(there.model.unknown_tags, 0U);
            EXPECT_EQ(r.result->queues.at(0).metrics.stale, 4U);
            expect_adds_up(*r.result);
        },
        automatic());
}

TEST(copies, blocked_ones_wait_for_the_broker)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            auto& sub = s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                             return d.attempt() == 1 ? retry() : ack;
                         }).max_attempts(2);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                publisher_of(there).block("low on memory");
                co_await settle_down();
                there.model.put("q", 5);
                co_await runtime::sleep(10s);
                EXPECT_EQ(publisher_of(there).count<wire::basic::publish>(), 0U);
                EXPECT_EQ(sub.metrics().retries.copies_open, 5U);
                publisher_of(there).unblock();
                co_await runtime::sleep(1s);
                EXPECT_EQ(sub.metrics().retries.copies_confirmed, 5U);
            });
            expect_clean(r);
        },
        automatic());
}

TEST(copies, a_broker_that_no_longer_answers_them_holds_up_no_stop)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            s.consume(classic_queue("q"), [](delivery&) -> outcome {
                 return retry();
             }).max_attempts(2);
            runtime::time_point asked;
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.be_silent();
                publisher_of(there).reset();
                co_await runtime::sleep(1s); // it connects anew, and nobody answers
                there.be_silent(false);
                asked = runtime::loop::current().now();
            });
            expect_clean(r);
            EXPECT_LE(runtime::loop::current().now() - asked, 1s);
        },
        automatic());
}

// R4 and section 3: unconfirmed copies settle first, and are published until the broker has them.
TEST(copies, unconfirmed_ones_settle_first_and_are_tried_until_they_arrive)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            int refusals = 3;
            there.model.on_publish = [&refusals](const said&) {
                return fate{.what = refusals-- > 0 ? fate::kind::nacked : fate::kind::accepted};
            };
            s.consume(classic_queue("q"),
                      [](delivery& d) -> outcome { return d.attempt() == 1 ? retry() : ack; })
                .max_attempts(2)
                .copies(settle::copies::unconfirmed);
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 1);
                co_await settle_down();
                EXPECT_EQ(there.at(0).count<wire::basic::reject>(), 1U);
                co_await runtime::sleep(60s);
            });
            expect_clean(r);
            EXPECT_EQ(there.model["q"].acked.size(), 1U);
        },
        automatic());
}

// D1: in virtual time, to the instant.
// s83: timers hold no slot of the prefetch window, which never grows.
TEST(timers, an_in_process_delay_is_kept_to_the_instant)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            std::map<std::string, std::vector<runtime::time_point>> at;
            s.consume(classic_queue("q"), [&](delivery& d) -> outcome {
                auto& times = at[std::string(d.text())];
                times.push_back(runtime::loop::current().now());
                return times.size() < 4 ? retry_after(7s * times.size()) : ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 50);
                co_await runtime::sleep(50s);
            });
            expect_clean(r);
            EXPECT_EQ(at.size(), 50U);
            for (const auto& [body, times] : at) {
                EXPECT_EQ(times.size(), 4U) << body;
                for (std::size_t i = 1; i < times.size(); ++i)
                    EXPECT_EQ(times[i] - times[i - 1], 7s * i) << body;
            }
        },
        automatic());
}

// s73: RabbitMQ sends header frames that are larger than frame_max, and takes none.
TEST(timers, a_message_whose_copy_fits_no_frame_is_given_back_and_not_lost)
{
    auto options = automatic();
    options.automatic = false;
    options.server.frame_size_max = 8192;
    virtually(
        [](host& there) -> task<> {
            service s(there.client());
            auto& sub = s.consume(classic_queue("q"),
                                  [](delivery&) -> outcome { return retry_after(10s); });
            ran r;
            co_await runtime::with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(run_into(s, r));
                co_await there.connected(1);
                auto& p = there.latest();
                const auto declared = co_await p.expect<wire::queue::declare>();
                p.say(declared.channel, wire::queue::declare_ok{.queue = "q"});
                const auto window = co_await p.expect<wire::basic::qos>();
                p.say(window.channel, wire::basic::qos_ok{});
                const auto asked = co_await p.expect<wire::basic::consume>();
                const std::string tag(asked.as<wire::basic::consume>().consumer_tag);
                p.say(asked.channel, wire::basic::consume_ok{.consumer_tag = tag});
                co_await s.started();

                wire::table headers;
                headers.set("large", std::string(9000, 'x'));
                std::vector<std::byte> bytes(10'000);
                auto size = wire::encode_frame(bytes, asked.channel,
                                               wire::basic::deliver{.consumer_tag = tag,
                                                                    .delivery_tag = 1,
                                                                    .exchange = "",
                                                                    .routing_key = "q"});
                size += wire::encode_header_frame(std::span(bytes).subspan(size), asked.channel, 0,
                                                  wire::properties{.headers = headers.view()});
                p.raw(std::span(bytes).first(size));
                const auto began = runtime::loop::current().now();
                const auto back = co_await p.expect<wire::basic::reject>();
                EXPECT_TRUE(back.as<wire::basic::reject>().requeue);
                EXPECT_GE(runtime::loop::current().now() - began, 1s) << "not at full speed";
                EXPECT_EQ(there.connects(), 1U) << "nothing to publish";
                EXPECT_EQ(sub.metrics().retries.delays_dropped, 1U);
                s.abort();
            });
        },
        std::move(options));
}

TEST(timers, a_lost_copy_of_a_timer_is_published_again)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            int losses = 2;
            there.model.on_publish = [&losses](const said&) {
                return fate{.delay = losses > 0 ? runtime::duration::max() : 0s};
            };
            s.consume(classic_queue("q"), [](delivery& d) -> outcome {
                return d.attempt() == 1 ? retry_after(5s) : ack;
            });
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 3);
                co_await runtime::sleep(6s);
                for (; losses > 0; --losses) {
                    publisher_of(there).reset();
                    co_await runtime::sleep(10s);
                }
                co_await runtime::sleep(120s);
            });
            expect_clean(r);
            const auto& acked = there.model["q"].acked;
            EXPECT_EQ(std::set<std::string>(acked.begin(), acked.end()).size(), 3U);
            EXPECT_EQ(r.result->timers_published(), 3U);
            EXPECT_EQ(r.result->timers_lost(), 0U);
        },
        automatic());
}

// D3: a hold never outlasts the broker's patience (s91).
TEST(hold, is_cut_at_three_quarters_of_the_consumer_timeout)
{
    virtually(
        [](host& there) -> task<> {
            there.model["q"];
            service s(there.client());
            std::vector<runtime::time_point> at;
            auto& sub = s.consume(quorum_queue("q").consumer_argument("x-consumer-timeout", 4000),
                                  [&](delivery&) -> outcome {
                                      at.push_back(runtime::loop::current().now());
                                      return at.size() == 1 ? retry_after(10s) : ack;
                                  })
                            .delay(delay::hold(5));
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                there.model.put("q", 1);
                co_await runtime::sleep(20s);
                EXPECT_EQ(sub.metrics().retries.delays_dropped, 1U);
            });
            expect_clean(r);
            EXPECT_EQ(at.size(), 2U);
            EXPECT_EQ(at.at(1) - at.at(0), 3s);
        },
        automatic());
}

// D6: the frames of the plugin, byte for byte what it wants.
TEST(D6_plugin, declares_its_exchange_and_publishes_with_x_delay)
{
    virtually(
        [](host& there) -> task<> {
            there.model["orders"];
            service s(there.client());
            s.declare_topology(true);
            std::vector<wire::exchange::declare> declared;
            std::string exchange_type;
            std::string delayed_type;
            bool bound = false;
            there.model.before = [&](peer& p, const said& what) {
                if (what.is<wire::exchange::declare>()) {
                    const auto m = what.as<wire::exchange::declare>();
                    EXPECT_EQ(m.exchange, "orders.delay");
                    EXPECT_TRUE(m.durable);
                    exchange_type = m.type;
                    delayed_type = m.arguments.find("x-delayed-type")->as_string().value_or("");
                    p.say(what.channel, wire::exchange::declare_ok{});
                    return true;
                }
                if (what.is<wire::queue::bind>()) {
                    const auto m = what.as<wire::queue::bind>();
                    bound = m.queue == "orders" && m.exchange == "orders.delay" &&
                            m.routing_key == "orders";
                    p.say(what.channel, wire::queue::bind_ok{});
                    return true;
                }
                return false;
            };
            there.model.on_publish = [](const said&) { return fate{.delay = 1s}; };
            s.consume(quorum_queue("orders"), [](delivery&) -> outcome {
                 return retry_after(1500ms);
             }).delay(delay::plugin_dme());
            const auto r = co_await serving(s, [&]() -> task<> {
                co_await s.started();
                EXPECT_EQ(exchange_type, "x-delayed-message");
                EXPECT_EQ(delayed_type, "direct");
                EXPECT_TRUE(bound);
                there.model.put("orders", 1);
                co_await settle_down();
                EXPECT_EQ(settlements(there.at(0)), 0U) << "confirmed first";
                auto& p = publisher_of(there);
                for (const auto& each : p.heard()) {
                    if (!each.is<wire::basic::publish>())
                        continue;
                    EXPECT_EQ(each.exchange, "orders.delay");
                    EXPECT_EQ(each.routing_key, "orders");
                    EXPECT_FALSE(each.mandatory) << "the plugin returns what it delays";
                    const auto headers = wire::properties_view(each.properties).headers();
                    EXPECT_TRUE(headers);
                    if (headers) {
                        EXPECT_EQ(headers->find("x-delay")->as_int64(), 1500);
                    }
                }
                EXPECT_EQ(p.count<wire::basic::publish>(), 1U);
                co_await runtime::sleep(2s);
                EXPECT_EQ(there.at(0).count<wire::basic::ack>(), 1U);
            });
            EXPECT_TRUE(r.result) << text_of(r.failure);
        },
        automatic());
}

} // namespace
} // namespace acquit::testing
