#include <acquit/settle/copy_message.h>
#include <acquit/settle/delay.h>
#include <acquit/settle/delay_topology.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/retry_plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string problem_of(const delay& waiting, const queue_description& queue = classic_queue{"q"},
                       bool declare_topology = true)
{
    return waiting.problem(queue, declare_topology).value_or("");
}

std::vector<std::string> names(const std::vector<queue_description>& queues)
{
    std::vector<std::string> result;
    result.reserve(queues.size());
    for (const auto& queue : queues)
        result.push_back(queue.name);
    return result;
}

std::string shown(const queue_description& queue)
{
    return amqp::wire::describe(queue.arguments.view());
}

// -- milliseconds

TEST(delay_D4, an_expiration_is_never_sooner_than_asked)
{
    EXPECT_EQ(expiration_ms(1ns), 1U);
    EXPECT_EQ(expiration_ms(999'999ns), 1U);
    EXPECT_EQ(expiration_ms(1ms), 1U);
    EXPECT_EQ(expiration_ms(1ms + 1ns), 2U);
    EXPECT_EQ(expiration_ms(60s), 60'000U);
    EXPECT_EQ(expiration_ms(59'999'999'999ns), 60'000U);
}

TEST(delay_D4, an_expiration_is_one_that_the_broker_takes)
{
    // "0" expires at once, a negative one and more than ten years are refused.
    EXPECT_EQ(expiration_ms(0ns), 1U);
    EXPECT_EQ(expiration_ms(-5s), 1U);
    EXPECT_EQ(expiration_ms(nanoseconds::min()), 1U);
    EXPECT_EQ(expiration_ms(nanoseconds::max()), expiration_max_ms);
    EXPECT_EQ(expiration_ms(milliseconds(315'360'000'001)), 315'360'000'000U);
}

// -- names

TEST(delay_D4, the_waiting_queue_is_named_by_its_queue_unless_told)
{
    EXPECT_EQ(delay::dlx_ttl().target("orders"), "orders.retry");
    EXPECT_EQ(delay::dlx_ttl("later").target("orders"), "later");
    EXPECT_EQ(delay::buckets().bucket("orders", 60s), "orders.retry.60000");
    EXPECT_EQ(delay::plugin_dme().target("orders"), "orders.delay");
    EXPECT_EQ(delay::plugin_dme("delays").target("orders"), "delays");
}

TEST(delay_Q6, a_queue_that_the_server_named_gets_a_name_that_the_server_allows)
{
    EXPECT_EQ(delay::dlx_ttl().target("amq.gen-Jz"), "gen-Jz.retry");
    EXPECT_EQ(delay::buckets().bucket("amq.gen-Jz", 1s), "gen-Jz.retry.1000");
    EXPECT_EQ(delay::plugin_dme().target("amq.gen-Jz"), "gen-Jz.delay");
}

// -- what cannot be used

TEST(delay_D3, hold_leaves_a_slot_of_the_prefetch_for_what_is_not_held)
{
    const queue_description ten = classic_queue{"q"}.prefetch(10);
    EXPECT_EQ(problem_of(delay::hold(1), ten), "");
    EXPECT_EQ(problem_of(delay::hold(9), ten), "");
    EXPECT_THAT(problem_of(delay::hold(10), ten), HasSubstr("less than the prefetch"));
    EXPECT_THAT(problem_of(delay::hold(0), ten), HasSubstr("at least 1"));
}

TEST(delay_D3, only_hold_overflows_and_only_to_a_waiting_queue)
{
    EXPECT_EQ(problem_of(delay::hold(3).overflow_to(delay::dlx_ttl())), "");
    EXPECT_EQ(problem_of(delay::hold(3).overflow_to(delay::buckets())), "");
    EXPECT_THAT(problem_of(delay::hold(3).overflow_to(delay::plugin_dme())),
                HasSubstr("overflow_to takes"));
    EXPECT_THAT(problem_of(delay::hold(3).overflow_to(delay::hold(2))),
                HasSubstr("overflow_to takes"));
    EXPECT_THAT(problem_of(delay::dlx_ttl().overflow_to(delay::buckets())),
                HasSubstr("belongs to delay::hold"));
    EXPECT_THAT(problem_of(delay::hold(3).overflow_to(delay::buckets({2s, 1s}))),
                HasSubstr("ascend"));
}

TEST(delay_D5, steps_ascend_and_none_is_nothing_or_longer_than_a_year)
{
    EXPECT_EQ(problem_of(delay::buckets()), "");
    EXPECT_EQ(problem_of(delay::buckets({1ms})), "");
    EXPECT_EQ(problem_of(delay::buckets({1s, 24h * 365})), "");
    EXPECT_THAT(problem_of(delay::buckets({0ms, 1s})), HasSubstr("from 1 ms on"));
    EXPECT_THAT(problem_of(delay::buckets({1s, 1s})), HasSubstr("ascend"));
    EXPECT_THAT(problem_of(delay::buckets({5s, 1s})), HasSubstr("ascend"));
    EXPECT_THAT(problem_of(delay::buckets({1s, 24h * 365 + 1ms})), HasSubstr("a year"));
}

TEST(delay_D7, native_is_declared_on_a_quorum_queue)
{
    const queue_description quorum = quorum_queue{"q"};
    EXPECT_EQ(problem_of(delay::native(1s, 10s), quorum), "");
    EXPECT_EQ(problem_of(delay::native(1s, 1s), quorum), "");
    EXPECT_THAT(problem_of(delay::native(1s, 10s)), HasSubstr("quorum_queue"));
    EXPECT_THAT(problem_of(delay::native(1s, 10s), queue_description{"q"}),
                HasSubstr("quorum_queue"));
    EXPECT_THAT(problem_of(delay::native(1s, 10s), quorum, false),
                HasSubstr("declare_topology(true)"));
    EXPECT_THAT(problem_of(delay::native(0s, 10s), quorum), HasSubstr("at least 1 ms"));
    EXPECT_THAT(problem_of(delay::native(10s, 1s), quorum), HasSubstr("not below"));
}

TEST(delay, waiting_in_belongs_to_modes_that_have_waiting_queues)
{
    EXPECT_EQ(problem_of(delay::dlx_ttl().waiting_in(queue_kind::classic)), "");
    EXPECT_EQ(problem_of(delay::buckets().waiting_in(queue_kind::quorum)), "");
    EXPECT_EQ(
        problem_of(delay::hold(2).overflow_to(delay::dlx_ttl().waiting_in(queue_kind::classic))),
        "");
    EXPECT_THAT(problem_of(delay::hold(2).waiting_in(queue_kind::classic)),
                HasSubstr("waiting_in belongs"));
    EXPECT_THAT(problem_of(delay::plugin_dme().waiting_in(queue_kind::classic)),
                HasSubstr("waiting_in belongs"));
    EXPECT_THAT(problem_of(delay::dlx_ttl().waiting_in(queue_kind::existing)),
                HasSubstr("waiting_in takes"));
}

TEST(delay, a_name_that_the_broker_would_refuse_is_a_problem)
{
    const std::string longest(255, 'n');
    const std::string longer(256, 'n');
    EXPECT_EQ(problem_of(delay::dlx_ttl(longest)), "");
    EXPECT_THAT(problem_of(delay::dlx_ttl(longer)), HasSubstr("256 bytes"));
    EXPECT_THAT(problem_of(delay::plugin_dme(longer)), HasSubstr("256 bytes"));
    // The queue's own name is short enough, and what is derived from it is not.
    const queue_description almost = classic_queue{std::string(250, 'q')};
    EXPECT_EQ(problem_of(delay::hold(2), almost), "");
    EXPECT_THAT(problem_of(delay::dlx_ttl(), almost), HasSubstr("256 bytes"));
    const queue_description near = classic_queue{std::string(245, 'q')};
    EXPECT_EQ(problem_of(delay::dlx_ttl(), near), "");
    EXPECT_EQ(problem_of(delay::buckets({1s}), classic_queue{std::string(244, 'q')}), "");
    EXPECT_THAT(problem_of(delay::buckets({1s}), near), HasSubstr("256 bytes"));
    EXPECT_THAT(problem_of(delay::dlx_ttl("amq.mine")), HasSubstr("belong to the server"));
    EXPECT_THAT(problem_of(delay::dlx_ttl("q")), HasSubstr("the queue itself"));
}

// -- waiting queues

TEST(delay_D4, the_waiting_queue_loses_nothing_and_leads_back_by_the_default_exchange)
{
    const auto queues = waiting_queues(classic_queue{"orders"}, "orders", delay::dlx_ttl());
    ASSERT_EQ(queues.size(), 1U);
    EXPECT_EQ(queues[0].name, "orders.retry");
    EXPECT_EQ(queues[0].kind, queue_kind::quorum);
    EXPECT_TRUE(queues[0].durable);
    EXPECT_EQ(shown(queues[0]),
              "{x-queue-type=S:\"quorum\", x-dead-letter-exchange=S:\"\", "
              "x-dead-letter-routing-key=S:\"orders\", x-dead-letter-strategy=S:\"at-least-once\", "
              "x-overflow=S:\"reject-publish\"}");
    EXPECT_THAT(queues[0].problems(), IsEmpty());
}

TEST(delay_D5, each_step_has_a_queue_whose_name_tells_its_time)
{
    const auto queues =
        waiting_queues(quorum_queue{"orders"}, "orders", delay::buckets({500ms, 60s}));
    EXPECT_THAT(names(queues), ElementsAre("orders.retry.500", "orders.retry.60000"));
    EXPECT_EQ(integer_argument(queues[0].arguments, "x-message-ttl"), 500);
    EXPECT_EQ(integer_argument(queues[1].arguments, "x-message-ttl"), 60'000);
    for (const auto& queue : queues) {
        EXPECT_EQ(text_argument(queue.arguments, "x-dead-letter-routing-key"), "orders");
        EXPECT_EQ(text_argument(queue.arguments, "x-dead-letter-strategy"), "at-least-once");
    }
}

// s77, s102: the broker deletes a queue that expires with the messages in it.
TEST(delay_D4, no_waiting_queue_expires_or_is_bounded)
{
    for (const auto& waiting :
         {delay::dlx_ttl(), delay::buckets(), delay::dlx_ttl().waiting_in(queue_kind::classic)})
        for (const auto& queue : waiting_queues(
                 quorum_queue{"q"}.expires(1h).max_length(5).message_ttl(1s), "q", waiting))
            for (const auto* argument : {"x-expires", "x-max-length", "x-max-length-bytes"})
                EXPECT_FALSE(queue.arguments.contains(argument)) << queue.name << argument;
}

TEST(delay_D4, a_queue_that_is_only_named_is_taken_as_one_that_lasts)
{
    const auto queues = waiting_queues("legacy", "legacy", delay::dlx_ttl());
    ASSERT_EQ(queues.size(), 1U);
    EXPECT_EQ(queues[0].kind, queue_kind::quorum);
}

TEST(delay_D4, beside_a_queue_that_goes_the_waiting_queue_is_classic_and_goes_with_it)
{
    const auto of = [](const queue_description& origin) {
        return waiting_queues(origin, "q", delay::dlx_ttl()).at(0);
    };
    const auto transient = of(classic_queue{"q"}.durable(false));
    EXPECT_EQ(transient.kind, queue_kind::classic);
    EXPECT_FALSE(transient.durable);
    EXPECT_EQ(shown(transient), "{x-queue-type=S:\"classic\", x-dead-letter-exchange=S:\"\", "
                                "x-dead-letter-routing-key=S:\"q\"}");
    const auto exclusive = of(classic_queue{"q"}.exclusive());
    EXPECT_EQ(exclusive.kind, queue_kind::classic);
    EXPECT_TRUE(exclusive.exclusive);
    EXPECT_TRUE(exclusive.durable);
    // At-least-once would keep for ever what its origin is not there any more to take.
    EXPECT_EQ(of(classic_queue{"q"}.auto_delete()).kind, queue_kind::classic);
}

TEST(delay_D4, waiting_in_outweighs_the_default_type)
{
    const auto classic =
        waiting_queues(quorum_queue{"q"}, "q", delay::dlx_ttl().waiting_in(queue_kind::classic));
    EXPECT_EQ(classic.at(0).kind, queue_kind::classic);
    EXPECT_TRUE(classic.at(0).durable);
    const auto quorum = waiting_queues(classic_queue{"q"}.durable(false), "q",
                                       delay::buckets({1s}).waiting_in(queue_kind::quorum));
    EXPECT_EQ(quorum.at(0).kind, queue_kind::quorum);
    EXPECT_THAT(quorum.at(0).problems(), IsEmpty()) << "durable, whatever its origin is";
}

TEST(delay_D3, hold_has_the_waiting_queues_of_where_it_overflows_to)
{
    EXPECT_THAT(names(waiting_queues(classic_queue{"q"}, "q",
                                     delay::hold(2).overflow_to(delay::buckets({1s, 2s})))),
                ElementsAre("q.retry.1000", "q.retry.2000"));
}

TEST(delay, other_modes_have_no_waiting_queue)
{
    for (const auto& waiting :
         {delay::none(), delay::hold(2), delay::plugin_dme(), delay::native(1s, 2s)})
        EXPECT_THAT(waiting_queues(quorum_queue{"q"}, "q", waiting), IsEmpty());
}

TEST(delay, copies_are_published_where_they_wait_on_the_broker)
{
    EXPECT_TRUE(delay::dlx_ttl().copies());
    EXPECT_TRUE(delay::buckets().copies());
    EXPECT_TRUE(delay::plugin_dme().copies());
    EXPECT_TRUE(delay::hold(1).overflow_to(delay::dlx_ttl()).copies());
    EXPECT_FALSE(delay::none().copies());
    EXPECT_FALSE(delay::hold(1).copies());
    EXPECT_FALSE(delay::native(1s, 2s).copies());
}

// -- hops

/// Follows a message through its buckets, by plans alone. What is left travels as milliseconds.
struct journey {
    nanoseconds waited{};
    std::size_t hops = 0;
};

journey travel(const delay& waiting, nanoseconds asked)
{
    const retry_rules rules{.queue = "q", .kind = queue_kind::classic, .delay = waiting};
    journey made;
    auto plan = plan_of(rules, retry_after(asked), 1, 0, 0);
    for (;;) {
        EXPECT_EQ(plan.what, retry_plan::step::copy);
        EXPECT_EQ(plan.how, disposition::ack);
        EXPECT_TRUE(plan.mandatory);
        EXPECT_EQ(plan.copies, 1U) << "a hop is no attempt";
        const std::string prefix = "q.retry.";
        EXPECT_TRUE(plan.routing_key.starts_with(prefix));
        made.waited += milliseconds(std::stoll(plan.routing_key.substr(prefix.size())));
        ++made.hops;
        if (plan.left <= 0ns || ::testing::Test::HasFailure())
            return made;
        amqp::wire::table headers;
        headers.set(left_to_wait_header, std::to_string(expiration_ms(plan.left)));
        plan = next_hop(rules, plan.copies, left_to_wait(headers));
    }
}

void expect_on_time(const std::vector<milliseconds>& steps, nanoseconds asked)
{
    const auto made = travel(delay::buckets(steps), asked);
    EXPECT_GE(made.waited, asked) << "early, for " << asked.count() << " ns";
    EXPECT_LT(made.waited - asked, steps.front()) << "late, for " << asked.count() << " ns";
}

TEST(delay_D5, hops_are_never_early_and_late_by_less_than_the_smallest_step)
{
    const std::vector<std::vector<milliseconds>> lists{
        delay::buckets().steps(), {1ms}, {7ms}, {1s, 10s, 60s}, {3ms, 5ms, 8ms, 1000ms}, {2s, 3s}};
    for (const auto& steps : lists) {
        for (const auto step : steps) {
            for (const auto around : {-1'000'001ns, -1ns, 0ns, 1ns, 1'000'000ns, 1'000'001ns})
                if (step + around > 0ns)
                    expect_on_time(steps, step + around);
        }
        for (nanoseconds asked = 1ns; asked < 50 * nanoseconds(steps.back()) && asked < 10h;
             asked = asked * 7 / 5 + 1ns)
            expect_on_time(steps, asked);
    }
}

TEST(delay_D5, any_steps_and_any_delay_are_on_time)
{
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    const auto upto = [&](std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(1, most)(random);
    };
    for (int round = 0; round < 2'000 && !HasFailure(); ++round) {
        std::vector<milliseconds> steps{milliseconds(upto(10'000))};
        while (steps.size() < 12 && upto(4) != 1)
            steps.push_back(steps.back() + milliseconds(upto(100'000)));
        ASSERT_EQ(problem_of(delay::buckets(steps)), "");
        expect_on_time(steps, nanoseconds(upto(100 * nanoseconds(steps.back()).count())));
    }
}

TEST(delay_D5, a_delay_of_years_waits_them_all)
{
    const auto made = travel(delay::buckets({1h, 24h * 30}), 24h * 365 * 3);
    EXPECT_EQ(made.waited, 24h * 365 * 3);
    EXPECT_EQ(made.hops, 36U + 15 * 24) << "36 months of 30 days, then hours";
}

TEST(delay_D5, the_steps_that_are_given_by_default_need_few_hops)
{
    for (nanoseconds asked = 1ms; asked <= 1h; asked = asked * 11 / 10)
        EXPECT_LE(travel(delay::buckets(), asked).hops, 13U) << asked.count();
}

} // namespace
} // namespace acquit::settle
