#include "../settle/service_support.h"
#include "witness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

// A witness that sees nothing proves nothing: clients that do wrong, by hand.
namespace acquit::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

shape plain_shape()
{
    shape s;
    s.seed = 1;
    s.quorum = true;
    s.prefetch = 10;
    s.concurrency = 2;
    s.delay = settle::delay::dlx_ttl();
    return s;
}

/// A consumer without a service: gives each delivery to `body(channel, inbox)`.
struct by_hand final : amqp::consumer_sink {
    std::vector<std::uint64_t> tags;
    void on_delivery(const amqp::content_event& d, const runtime::segment_ref&) noexcept override
    {
        tags.push_back(d.delivery_tag);
    }
    void on_server_cancel() noexcept override {}
    void on_channel_lost(std::exception_ptr) noexcept override {}
};

/// What a witness says of a client that gets the message "m" and does `body` with it.
template <class F>
std::vector<std::string> seen_of(const shape& s, F body)
{
    std::vector<std::string> found;
    virtually(
        [&](host& there) -> task<> {
            witness seen(s, there.model);
            seen.expect("m");
            there.model.put_body("work", "m");
            (void)co_await connected(there, [&](amqp::connection& c, peer&) -> task<> {
                amqp::channel on(c);
                by_hand sink;
                co_await on.open();
                co_await on.qos(10);
                (void)co_await on.consume({.queue = "work"}, sink);
                co_await settle_down();
                EXPECT_EQ(sink.tags.size(), 1U);
                body(on, seen, there);
                co_await settle_down();
            });
            seen.expect_nothing_lost(false);
            found = seen.violations();
        },
        automatic());
    return found;
}

TEST(sim_witness, has_nothing_against_a_delivery_that_is_left_to_the_broker)
{
    EXPECT_TRUE(seen_of(plain_shape(), [](amqp::channel&, witness&, host&) {}).empty());
}

TEST(sim_witness, sees_an_ack_of_what_no_handler_had)
{
    const auto found = seen_of(plain_shape(), [](amqp::channel& c, witness&, host&) { c.ack(1); });
    EXPECT_THAT(found, Contains(HasSubstr("no handler was called")));
    EXPECT_THAT(found, Contains(HasSubstr("m is lost")));
}

TEST(sim_witness, sees_a_delivery_that_is_settled_twice)
{
    const auto found = seen_of(plain_shape(), [](amqp::channel& c, witness&, host&) {
        c.nack(1, false, true);
        c.nack(1, false, true);
    });
    EXPECT_THAT(found, Contains(HasSubstr("1 settlements of unknown tags")));
}

TEST(sim_witness, sees_a_settlement_by_another_decision)
{
    const auto by_decision = [](decision decided, auto settle) {
        return seen_of(plain_shape(), [=](amqp::channel& c, witness& seen, host&) {
            seen.end(seen.begin("m", 1, 1), decided);
            settle(c);
        });
    };
    EXPECT_TRUE(by_decision(decision::ack, [](amqp::channel& c) { c.ack(1); }).empty());
    EXPECT_TRUE(by_decision(decision::drop, [](amqp::channel& c) { c.reject(1, false); }).empty());
    EXPECT_TRUE(by_decision(decision::retry, [](amqp::channel& c) { c.reject(1, true); }).empty());
    EXPECT_THAT(by_decision(decision::ack, [](amqp::channel& c) { c.reject(1, true); }),
                Contains(HasSubstr("its handler said ack")));
    EXPECT_THAT(by_decision(decision::drop, [](amqp::channel& c) { c.ack(1); }),
                Contains(HasSubstr("its handler said drop")));
    EXPECT_THAT(by_decision(decision::ack, [](amqp::channel& c) { c.nack(1, false, true); }),
                Contains(HasSubstr("a handler had it")));
}

TEST(sim_witness, sees_an_original_that_is_settled_before_its_copy_is_there)
{
    const auto found = seen_of(plain_shape(), [](amqp::channel& c, witness& seen, host&) {
        seen.end(seen.begin("m", 1, 1), decision::retry_after, 1s);
        c.ack(1);
    });
    EXPECT_THAT(found, Contains(HasSubstr("there is no copy")));
    EXPECT_THAT(found, Contains(HasSubstr("m is lost")));
}

TEST(sim_witness, sees_a_retry_that_comes_too_early)
{
    const auto found = seen_of(plain_shape(), [](amqp::channel& c, witness& seen, host& there) {
        seen.end(seen.begin("m", 1, 1), decision::retry_after, 1s);
        const wire::table headers = wire::table{}.set(settle::default_counter_header, "1");
        wire::properties p{.headers = headers.view()};
        (void)c.owner().session().send_content(
            c.number(), wire::basic::publish{.routing_key = "work"}, p, amqp::bytes_of("m"));
        c.ack(1);
        (void)there;
    });
    EXPECT_THAT(found, Contains(HasSubstr("too early")));
}

TEST(sim_witness, sees_too_many_handlers_and_attempts)
{
    auto s = plain_shape();
    s.concurrency = 1;
    s.max_attempts = 2;
    s.dead_letter = true;
    const auto found = seen_of(s, [](amqp::channel&, witness& seen, host&) {
        (void)seen.begin("m", 1, 1);
        (void)seen.begin("m", 1, 3);
        (void)seen.begin("other", 1, 1);
    });
    EXPECT_THAT(found, Contains(HasSubstr("2 handlers at once, 1 are allowed")));
    EXPECT_THAT(found, Contains(HasSubstr("handled twice")));
    EXPECT_THAT(found, Contains(HasSubstr("attempt 3")));
    EXPECT_THAT(found, Contains(HasSubstr("never delivered")));
}

} // namespace
} // namespace acquit::testing
