#include <acquit/settle/queue.h>
#include <acquit/settle/topology_arguments.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr server_version v3_10{3, 10, 8};
constexpr server_version v4_0{4, 0, 5};
constexpr server_version v4_3{4, 3, 6};

const retry_limit five{.max_attempts = 5, .dead_letter = "orders.dead"};

TEST(server_version, is_read_as_far_as_it_can_be)
{
    EXPECT_EQ(server_version::parse("4.3.6"), v4_3);
    EXPECT_EQ(server_version::parse("3.10.8+deb1"), v3_10);
    EXPECT_EQ(server_version::parse("4.0.5-rc.1"), v4_0);
    EXPECT_EQ(server_version::parse("4.3"), (server_version{4, 3, 0}));
    EXPECT_EQ(server_version::parse("4"), (server_version{4, 0, 0}));
    EXPECT_EQ(server_version::parse(""), server_version{});
    EXPECT_EQ(server_version::parse("unknown"), server_version{});
    EXPECT_EQ(server_version::parse("99999999999.1"), server_version{});
    EXPECT_LT(v3_10, v4_0);
    EXPECT_LT(v4_0, v4_3);
    EXPECT_EQ(v3_10.text(), "3.10.8");
}

TEST(limit_R4, the_pair_becomes_arguments_of_a_quorum_queue)
{
    const declared_arguments declared = arguments_of(quorum_queue{"orders"}, five, v4_3);
    EXPECT_THAT(declared.problems, IsEmpty());
    EXPECT_EQ(integer_argument(declared.table, "x-delivery-limit"), 4);
    EXPECT_EQ(text_argument(declared.table, "x-dead-letter-exchange"), "");
    EXPECT_EQ(text_argument(declared.table, "x-dead-letter-routing-key"), "orders.dead");
    EXPECT_EQ(text_argument(declared.table, "x-queue-type"), "quorum");
}

TEST(limit_R4, one_attempt_is_a_limit_of_no_return)
{
    const retry_limit once{.max_attempts = 1, .dead_letter = "d"};
    EXPECT_EQ(
        integer_argument(arguments_of(quorum_queue{"q"}, once, v3_10).table, "x-delivery-limit"),
        0);
}

TEST(limit_R4, the_descriptors_dead_letter_exchange_is_kept)
{
    const declared_arguments declared =
        arguments_of(quorum_queue{"q"}.dead_letter_exchange("dlx"), five, v4_0);
    EXPECT_THAT(declared.problems, IsEmpty());
    EXPECT_EQ(text_argument(declared.table, "x-dead-letter-exchange"), "dlx");
    EXPECT_EQ(text_argument(declared.table, "x-dead-letter-routing-key"), "orders.dead");
}

TEST(limit_R4, a_descriptor_that_says_otherwise_is_a_problem)
{
    EXPECT_THAT(limit_problems(quorum_queue{"q"}.delivery_limit(5), five, true),
                ElementsAre(AllOf(HasSubstr("delivery_limit of 5"), HasSubstr("max_attempts(5)"))));
    EXPECT_THAT(limit_problems(quorum_queue{"q"}.delivery_limit(4), five, true), IsEmpty());
    EXPECT_THAT(
        limit_problems(quorum_queue{"q"}.dead_letter_exchange("x").dead_letter_routing_key("k"),
                       five, true),
        ElementsAre(HasSubstr("dead_letter_routing_key of 'k'")));
}

TEST(limit_R4, a_classic_queue_keeps_the_arguments_that_it_has)
{
    const queue_description queue = classic_queue{"q"}.max_length(5);
    const declared_arguments declared = arguments_of(queue, five, v4_3);
    EXPECT_THAT(declared.problems, IsEmpty());
    EXPECT_EQ(declared.table, queue.arguments);
}

TEST(limit_R4, without_a_limit_nothing_is_added)
{
    const queue_description queue = quorum_queue{"q"};
    EXPECT_EQ(arguments_of(queue, {}, v4_3).table, queue.arguments);
}

TEST(limit_R3, zero_attempts_are_refused_on_every_type)
{
    const retry_limit none{.max_attempts = 0, .dead_letter = "d"};
    for (const queue_description& queue :
         {queue_description{classic_queue{"q"}}, queue_description{quorum_queue{"q"}},
          queue_description{"q"}})
        EXPECT_THAT(limit_problems(queue, none, true),
                    ElementsAre(AllOf(HasSubstr("queue 'q'"), HasSubstr("max_attempts(0)"))));
    EXPECT_FALSE(arguments_of(quorum_queue{"q"}, none, v4_3).table.contains("x-delivery-limit"));
}

TEST(limit_R3, a_classic_queue_needs_no_dead_letter_queue_to_have_a_limit)
{
    EXPECT_THAT(limit_problems(classic_queue{"q"}, {.max_attempts = 3, .dead_letter = {}}, false),
                IsEmpty());
}

TEST(limit_R3, a_queue_of_unknown_type_has_no_limit)
{
    EXPECT_THAT(limit_problems("q", {.max_attempts = 3}, true),
                ElementsAre(AllOf(HasSubstr("queue 'q'"), HasSubstr("classic_queue or quorum"))));
    EXPECT_THAT(limit_problems("q", {.max_attempts = 3, .dead_letter = "d"}, false),
                ElementsAre(HasSubstr("classic_queue or quorum")));
    EXPECT_THAT(limit_problems("q", {}, false), IsEmpty());
}

TEST(limit_R5, half_a_pair_is_refused)
{
    EXPECT_THAT(
        limit_problems(quorum_queue{"orders"}, {.max_attempts = 3, .dead_letter = {}}, true),
        ElementsAre(AllOf(HasSubstr("queue 'orders'"), HasSubstr("add dead_letter"))));
    for (const queue_description& queue :
         {queue_description{classic_queue{"q"}}, queue_description{quorum_queue{"q"}}})
        EXPECT_THAT(limit_problems(queue, {.max_attempts = {}, .dead_letter = "d"}, true),
                    ElementsAre(HasSubstr("add max_attempts")));
}

TEST(limit_R5, the_pair_on_a_quorum_queue_needs_declare_topology)
{
    EXPECT_THAT(limit_problems(quorum_queue{"q"}, five, false),
                ElementsAre(HasSubstr("declare_topology(true)")));
    EXPECT_THAT(limit_problems(quorum_queue{"q"}, {}, false), IsEmpty());
    EXPECT_THAT(limit_problems(classic_queue{"q"}, five, false), IsEmpty());
}

TEST(limit_R5, a_dead_letter_queue_has_a_name_of_its_own)
{
    EXPECT_THAT(limit_problems(classic_queue{"q"}, {.max_attempts = 2, .dead_letter = "q"}, true),
                ElementsAre(HasSubstr("the queue itself")));
    EXPECT_THAT(limit_problems(classic_queue{"q"}, {.max_attempts = 2, .dead_letter = ""}, true),
                ElementsAre(HasSubstr("0 bytes")));
    EXPECT_THAT(limit_problems(classic_queue{"q"},
                               {.max_attempts = 2, .dead_letter = std::string(256, 'd')}, true),
                ElementsAre(HasSubstr("256 bytes")));
}

TEST(limit_R4a, a_dead_letter_queue_is_classic_by_default)
{
    const queue_description queue = default_dead_letter_queue("d");
    EXPECT_EQ(queue.kind, queue_kind::classic);
    EXPECT_TRUE(queue.durable);
    EXPECT_EQ(dead_letter_arguments_of(queue, v4_3).table, queue.arguments);
}

TEST(limit_R4a, a_quorum_one_is_unlimited_from_4_0_on_and_gets_no_limit_before)
{
    const queue_description queue = quorum_queue{"d"};
    EXPECT_EQ(integer_argument(dead_letter_arguments_of(queue, v4_0).table, "x-delivery-limit"),
              -1);
    EXPECT_EQ(integer_argument(dead_letter_arguments_of(queue, v4_3).table, "x-delivery-limit"),
              -1);
    EXPECT_EQ(dead_letter_arguments_of(queue, v3_10).table, queue.arguments);
}

TEST(limit_R4a, a_finite_limit_of_a_dead_letter_queue_gets_a_warning_where_counts_travel)
{
    const queue_description queue = quorum_queue{"d"}.delivery_limit(20);
    EXPECT_THAT(dead_letter_arguments_of(queue, v4_3).warnings,
                ElementsAre(HasSubstr("delivery limit of 20")));
    EXPECT_THAT(dead_letter_arguments_of(queue, v4_0).warnings, IsEmpty());
    EXPECT_EQ(integer_argument(dead_letter_arguments_of(queue, v4_3).table, "x-delivery-limit"),
              20);
}

TEST(topology_arguments, minus_one_is_refused_where_it_means_zero)
{
    const queue_description queue = quorum_queue{"q"}.delivery_limit(-1);
    EXPECT_THAT(arguments_of(queue, {}, v3_10).problems, ElementsAre(HasSubstr("3.10.8")));
    EXPECT_THAT(arguments_of(queue, {}, v4_0).problems, IsEmpty());
    EXPECT_THAT(dead_letter_arguments_of(queue, v3_10).problems, ElementsAre(HasSubstr("3.10.8")));
}

TEST(topology_arguments_D7, delayed_retry_is_refused_before_4_3)
{
    const queue_description queue = quorum_queue{"q"}.delayed_retry(1s, 10s);
    EXPECT_THAT(arguments_of(queue, {}, v4_0).problems,
                ElementsAre(AllOf(HasSubstr("need RabbitMQ 4.3"), HasSubstr("4.0.5"))));
    EXPECT_THAT(arguments_of(queue, {}, v4_3).problems, IsEmpty());
}

TEST(topology_arguments_D7, native_becomes_arguments_of_the_queue)
{
    const auto declared = arguments_of(quorum_queue{"q"}, five, v4_3, delay::native(1s, 90s));
    EXPECT_THAT(declared.problems, IsEmpty());
    EXPECT_EQ(text_argument(declared.table, "x-delayed-retry-type"), "failed");
    EXPECT_EQ(integer_argument(declared.table, "x-delayed-retry-min"), 1000);
    EXPECT_EQ(integer_argument(declared.table, "x-delayed-retry-max"), 90'000);
    // Beside the limit, not in place of it.
    EXPECT_EQ(integer_argument(declared.table, "x-delivery-limit"), 4);
}

TEST(topology_arguments_D7, native_on_an_older_server_is_refused_since_that_would_ignore_it)
{
    for (const auto old : {v3_10, v4_0, server_version{4, 2, 9}})
        EXPECT_THAT(
            arguments_of(quorum_queue{"q"}, {}, old, delay::native(1s, 2s)).problems,
            ElementsAre(AllOf(HasSubstr("queue 'q'"), HasSubstr("delay::native"), HasSubstr("4.3"),
                              HasSubstr(old.text()), HasSubstr("delay::dlx_ttl()"))));
    EXPECT_THAT(arguments_of(quorum_queue{"q"}, {}, {}, delay::native(1s, 2s)).problems,
                ElementsAre(HasSubstr("no RabbitMQ")));
}

TEST(topology_arguments_D7, the_same_numbers_twice_are_one_and_other_numbers_are_a_problem)
{
    const queue_description same = quorum_queue{"q"}.delayed_retry(1s, 9s);
    EXPECT_THAT(arguments_of(same, {}, v4_3, delay::native(1s, 9s)).problems, IsEmpty());
    EXPECT_EQ(arguments_of(same, {}, v4_3, delay::native(1s, 9s)).table, same.arguments);
    EXPECT_THAT(arguments_of(same, {}, v4_3, delay::native(2s, 9s)).problems,
                ElementsAre(AllOf(HasSubstr("queue 'q'"), HasSubstr("delay::native(2000 ms, 9000"),
                                  HasSubstr("x-delayed-retry-min"), HasSubstr("1000"))));
    const queue_description other = quorum_queue{"q"}.argument("x-delayed-retry-type", "all");
    EXPECT_THAT(arguments_of(other, {}, v4_3, delay::native(1s, 9s)).problems,
                ElementsAre(HasSubstr("x-delayed-retry-type")));
}

TEST(topology_arguments_D7, what_native_cannot_be_is_a_problem_here_too)
{
    EXPECT_THAT(arguments_of(classic_queue{"q"}, {}, v4_3, delay::native(1s, 9s)).problems,
                ElementsAre(HasSubstr("quorum_queue")));
    EXPECT_THAT(arguments_of(quorum_queue{"q"}, {}, v4_3, delay::native(0s, 9s)).problems,
                ElementsAre(HasSubstr("at least 1 ms")));
}

TEST(topology_arguments, other_delays_leave_the_queue_as_it_is)
{
    const queue_description queue = quorum_queue{"q"};
    for (const auto& waiting :
         {delay::none(), delay::hold(2), delay::dlx_ttl(), delay::buckets(), delay::plugin_dme()})
        EXPECT_EQ(arguments_of(queue, {}, v4_0, waiting).table, queue.arguments);
}

TEST(topology_arguments, at_least_once_dead_lettering_needs_somewhere_to_go)
{
    const queue_description queue = quorum_queue{"q"}.at_least_once_dead_lettering();
    EXPECT_THAT(arguments_of(queue, {}, v4_3).problems, ElementsAre(HasSubstr("at_least_once")));
    EXPECT_THAT(arguments_of(queue, five, v4_3).problems, IsEmpty());
}

} // namespace
} // namespace acquit::settle
