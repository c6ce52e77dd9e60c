// What users of other clients met with retries and dead letters (field cases), on real queues.
#include "broker.h"

#include <acquit/runtime/event.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include <unistd.h>

using namespace acquit;
using namespace acquit::tests;

namespace {

/// A user of the broker who may not publish to the default exchange, until `allow`.
class limited_user {
public:
    limited_user() : name_("limited" + std::to_string(getpid()))
    {
        (void)broker_ctl(fmt::format("add_user {} secret", name_));
        // RabbitMQ: the default exchange is amq.default to permissions.
        permit("'^(?!amq\\.default)'");
    }
    ~limited_user() { (void)broker_ctl("delete_user " + name_); }
    limited_user(const limited_user&) = delete;
    limited_user& operator=(const limited_user&) = delete;

    void allow() { permit("'.*'"); }
    [[nodiscard]] amqp::connection_options options() const
    {
        auto made = service_options();
        made.session.user = name_;
        made.session.password = "secret";
        return made;
    }

private:
    void permit(const std::string& write)
    {
        (void)broker_ctl(fmt::format("set_permissions -p / {} '.*' {} '.*'", name_, write));
    }
    std::string name_;
};

} // namespace

// s66, s67, s68, s69: who may not publish to the dead-letter queue loses no message over it.
TEST(field_case_s66, without_the_right_to_publish_the_original_stays)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    limited_user user;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await make_queue(ch, dead, kind::classic);
        co_await publish(c, queue, 3);
        service s{user.options()};
        auto& sub = s.consume(classic_queue{queue}, [](delivery&) -> outcome { return retry(); })
                        .max_attempts(1)
                        .dead_letter(dead);
        const auto r = co_await while_serving(s, [&]() -> task<> {
            co_await until(ch, "refused copies",
                           [&] { return sub.metrics().retries.copies_failed >= 6; });
            EXPECT_EQ((co_await count(ch, dead)).message_count, 0U);
            EXPECT_EQ(sub.state(), settle::health::consuming) << "the consumer's channel lives";
            user.allow();
            co_await until_ready(ch, dead, 3);
        });
        EXPECT_EQ((co_await count(ch, queue)).message_count, 0U);
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

// s78: a retry comes back to the queue that it failed in, and to no other.
TEST(field_case_s78, a_retry_of_one_queue_does_not_reach_the_others_of_a_fanout)
{
    place here;
    const auto one = here.name();
    const auto other = here.name();
    const auto fan = here.name(".x");
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await ch.declare_exchange({.exchange = fan, .type = "fanout"});
        co_await make_queue(ch, other, kind::classic);
        co_await ch.bind_queue({.queue = other, .exchange = fan});
        service s{service_options()};
        s.declare_topology(true);
        runtime::event done;
        s.consume(
             classic_queue{one}.bind(fan, ""),
             [&](delivery& d) -> outcome {
                 if (d.attempt() == 3)
                     done.set();
                 return d.attempt() == 3 ? ack : d.attempt() == 2 ? retry_after(50ms) : retry();
             })
            .max_attempts(5)
            .delay(delay::dlx_ttl(here.name(".retry")));
        co_await while_serving(s, [&]() -> task<> {
            co_await ch.publish_confirmed(
                {.exchange = fan, .mandatory = true, .body = amqp::bytes_of("0")});
            co_await done.wait();
        });
        EXPECT_EQ((co_await count(ch, other)).message_count, 1U);
        co_await ch.delete_exchange({.exchange = fan});
    });
}

// s65, s82: rounds through a waiting queue are no cycle to the broker, however many.
TEST(field_case_s82, a_message_that_waits_again_and_again_does_not_vanish)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        service s{service_options()};
        s.declare_topology(true);
        std::uint32_t last = 0;
        runtime::event done;
        s.consume(quorum_queue{queue}, [&](delivery& d) -> outcome {
             EXPECT_EQ(d.attempt(), ++last);
             if (last == 25)
                 done.set();
             return last == 25 ? ack : retry_after(5ms);
         }).delay(delay::dlx_ttl(here.name(".retry")));
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 1);
            co_await done.wait();
        });
    });
}

// D6 where there is a broker that has the plugin (Debian packages none): ACQUIT_DME_BROKER is its URI.
TEST(D6_plugin, delays_where_a_broker_has_it)
{
    const char* uri = std::getenv("ACQUIT_DME_BROKER");
    if (uri == nullptr)
        GTEST_SKIP() << "ACQUIT_DME_BROKER names no broker with rabbitmq_delayed_message_exchange";
    place here;
    const auto queue = here.name();
    here.run_on(amqp::options_from_uri(uri), [&](amqp::connection& c, amqp::channel&) -> task<> {
        service s{uri};
        s.declare_topology(true);
        std::set<std::string> early;
        std::map<std::string, std::chrono::steady_clock::time_point> first;
        std::size_t second = 0;
        runtime::event done;
        s.consume(classic_queue{queue},
                  [&](delivery& d) -> outcome {
                      const std::string body(d.text());
                      const auto now = std::chrono::steady_clock::now();
                      if (first.emplace(body, now).second)
                          return retry_after(500ms);
                      if (now - first.at(body) < 500ms)
                          early.insert(body);
                      if (++second == 20)
                          done.set();
                      return ack;
                  })
            .max_attempts(3)
            .delay(delay::plugin_dme());
        co_await while_serving(s, [&]() -> task<> {
            co_await publish(c, queue, 20);
            co_await done.wait();
        });
        EXPECT_TRUE(early.empty());
        amqp::channel spare(c);
        co_await spare.open();
        co_await spare.delete_exchange({.exchange = queue + ".delay"});
        co_await spare.close();
    });
}
