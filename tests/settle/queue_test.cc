#include <acquit/settle/queue.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string shown(const queue_description& queue)
{
    return amqp::wire::describe(queue.arguments.view());
}

TEST(queue_Q1, a_classic_queue_is_durable_and_shared_unless_told)
{
    const queue_description plain = classic_queue{"orders"};
    EXPECT_EQ(plain.name, "orders");
    EXPECT_EQ(plain.kind, queue_kind::classic);
    EXPECT_TRUE(plain.durable);
    EXPECT_FALSE(plain.exclusive);
    EXPECT_FALSE(plain.auto_delete);
    const queue_description own = classic_queue{"own"}.durable(false).exclusive().auto_delete();
    EXPECT_FALSE(own.durable);
    EXPECT_TRUE(own.exclusive);
    EXPECT_TRUE(own.auto_delete);
    EXPECT_THAT(own.problems(), IsEmpty());
}

template <class Queue>
concept has_durable = requires(Queue q) { q.durable(true); };
template <class Queue>
concept has_exclusive = requires(Queue q) { q.exclusive(); };
template <class Queue>
concept has_auto_delete = requires(Queue q) { q.auto_delete(); };
template <class Queue>
concept has_message_ttl = requires(Queue q) { q.message_ttl(std::chrono::milliseconds{1}); };

TEST(queue_Q1, a_quorum_queue_has_no_step_for_what_it_cannot_be)
{
    static_assert(has_durable<classic_queue> && !has_durable<quorum_queue>);
    static_assert(has_exclusive<classic_queue> && !has_exclusive<quorum_queue>);
    static_assert(has_auto_delete<classic_queue> && !has_auto_delete<quorum_queue>);
    static_assert(has_message_ttl<quorum_queue> && !has_message_ttl<existing_queue>);
    queue_description forced = quorum_queue{"q"};
    forced.durable = false;
    EXPECT_THAT(forced.problems(), ElementsAre(HasSubstr("always durable")));
}

TEST(queue_Q2, the_type_is_always_sent)
{
    EXPECT_EQ(text_argument(queue_description{classic_queue{"q"}}.arguments, "x-queue-type"),
              "classic");
    EXPECT_EQ(text_argument(queue_description{quorum_queue{"q"}}.arguments, "x-queue-type"),
              "quorum");
    EXPECT_TRUE(queue_description{"q"}.arguments.empty());
}

TEST(queue_Q2, each_shared_step_is_an_argument)
{
    const queue_description queue = quorum_queue{"q"}
                                        .dead_letter_exchange("dlx")
                                        .dead_letter_routing_key("dead")
                                        .message_ttl(5s)
                                        .expires(2h)
                                        .max_length(100)
                                        .max_length_bytes(1 << 20)
                                        .overflow(overflow_policy::drop_head)
                                        .single_active_consumer()
                                        .argument("x-anything", true);
    const auto& arguments = queue.arguments;
    EXPECT_EQ(text_argument(arguments, "x-dead-letter-exchange"), "dlx");
    EXPECT_EQ(text_argument(arguments, "x-dead-letter-routing-key"), "dead");
    EXPECT_EQ(integer_argument(arguments, "x-message-ttl"), 5000);
    EXPECT_EQ(integer_argument(arguments, "x-expires"), 7'200'000);
    EXPECT_EQ(integer_argument(arguments, "x-max-length"), 100);
    EXPECT_EQ(integer_argument(arguments, "x-max-length-bytes"), 1 << 20);
    EXPECT_EQ(text_argument(arguments, "x-overflow"), "drop-head");
    EXPECT_THAT(shown(queue), AllOf(HasSubstr("x-single-active-consumer=t:true"),
                                    HasSubstr("x-anything=t:true")));
    EXPECT_THAT(queue.problems(), IsEmpty());
}

TEST(queue_Q2, each_step_of_one_type_is_an_argument)
{
    EXPECT_EQ(integer_argument(queue_description{classic_queue{"q"}.max_priority(10)}.arguments,
                               "x-max-priority"),
              10);
    const queue_description queue = quorum_queue{"q"}
                                        .delivery_limit(4)
                                        .initial_group_size(3)
                                        .dead_letter_exchange("dlx")
                                        .at_least_once_dead_lettering()
                                        .delayed_retry(1s, 60s);
    EXPECT_EQ(integer_argument(queue.arguments, "x-delivery-limit"), 4);
    EXPECT_EQ(integer_argument(queue.arguments, "x-quorum-initial-group-size"), 3);
    EXPECT_EQ(text_argument(queue.arguments, "x-dead-letter-strategy"), "at-least-once");
    EXPECT_EQ(text_argument(queue.arguments, "x-overflow"), "reject-publish");
    EXPECT_EQ(text_argument(queue.arguments, "x-delayed-retry-type"), "failed");
    EXPECT_EQ(integer_argument(queue.arguments, "x-delayed-retry-min"), 1000);
    EXPECT_EQ(integer_argument(queue.arguments, "x-delayed-retry-max"), 60000);
    EXPECT_THAT(queue.problems(), IsEmpty());
}

TEST(queue_Q2, bindings_keep_their_order_and_arguments)
{
    amqp::wire::table by_header;
    by_header.set("x-match", "all").set("kind", 3);
    const queue_description queue =
        classic_queue{"q"}.bind("shop", "order.#").bind("headers", "", by_header);
    ASSERT_EQ(queue.bindings.size(), 2u);
    EXPECT_EQ(queue.bindings[0].exchange, "shop");
    EXPECT_EQ(queue.bindings[0].key, "order.#");
    EXPECT_EQ(queue.bindings[1].arguments, by_header);
}

TEST(queue_Q2, consumer_steps_go_to_the_consumer_and_not_to_the_queue)
{
    const queue_description queue =
        existing_queue{"q"}.prefetch(7).consumer_priority(-2).consumer_argument("x-more", "yes");
    EXPECT_EQ(queue.prefetch, 7);
    EXPECT_EQ(integer_argument(queue.consume_arguments, "x-priority"), -2);
    EXPECT_EQ(text_argument(queue.consume_arguments, "x-more"), "yes");
    EXPECT_TRUE(queue.arguments.empty());
    EXPECT_THAT(queue.problems(), IsEmpty());
}

TEST(queue_Q2, steps_chain_on_a_named_descriptor_as_well)
{
    classic_queue queue{"q"};
    queue.prefetch(3).max_length(5);
    queue.exclusive();
    EXPECT_EQ(queue.description().prefetch, 3);
    EXPECT_TRUE(queue.description().exclusive);
}

TEST(queue_Q5, the_prefetch_is_256_unless_told_and_never_0)
{
    EXPECT_EQ(queue_description{classic_queue{"q"}}.prefetch, 256);
    EXPECT_EQ(queue_description{"q"}.prefetch, 256);
    EXPECT_THAT(queue_description{classic_queue{"jobs"}.prefetch(0)}.problems(),
                ElementsAre(AllOf(HasSubstr("queue 'jobs'"), HasSubstr("prefetch of 0"))));
    EXPECT_THAT(queue_description{classic_queue{"q"}.prefetch(65536)}.problems(),
                ElementsAre(HasSubstr("prefetch of 65536")));
}

TEST(queue_Q5, a_quorum_queue_caps_it_at_2000)
{
    EXPECT_EQ(queue_description{quorum_queue{"q"}.prefetch(5000)}.prefetch, 2000);
    EXPECT_EQ(queue_description{classic_queue{"q"}.prefetch(5000)}.prefetch, 5000);
}

TEST(queue_Q6, a_bare_name_is_a_queue_that_exists)
{
    const queue_description queue = "legacy";
    EXPECT_EQ(queue.kind, queue_kind::existing);
    EXPECT_THAT(queue.problems(), IsEmpty());
    EXPECT_THAT(queue_description{""}.problems(), ElementsAre(HasSubstr("has a name")));
    EXPECT_THAT(queue_description{"amq.gen-JzTY20BRgKO"}.problems(), IsEmpty());
}

TEST(queue_Q6, the_server_may_name_a_classic_queue_but_no_quorum_queue)
{
    EXPECT_THAT(queue_description{classic_queue{""}.exclusive()}.problems(), IsEmpty());
    EXPECT_THAT(queue_description{quorum_queue{""}}.problems(), ElementsAre(HasSubstr("no name")));
}

TEST(queue, two_steps_that_contradict_each_other_are_a_problem_and_the_first_stands)
{
    const queue_description queue = quorum_queue{"q"}.max_length(5).argument("x-max-length", 6);
    EXPECT_EQ(integer_argument(queue.arguments, "x-max-length"), 5);
    EXPECT_THAT(queue.problems(),
                ElementsAre(AllOf(HasSubstr("queue 'q'"), HasSubstr("x-max-length is set twice"),
                                  HasSubstr("5"), HasSubstr("6"))));
    EXPECT_THAT(queue_description{quorum_queue{"q"}
                                      .dead_letter_exchange("d")
                                      .overflow(overflow_policy::drop_head)
                                      .at_least_once_dead_lettering()}
                    .problems(),
                ElementsAre(HasSubstr("x-overflow is set twice")));
    EXPECT_THAT(queue_description{quorum_queue{"q"}.argument("x-queue-type", "classic")}.problems(),
                ElementsAre(HasSubstr("x-queue-type is set twice")));
    EXPECT_THAT(
        queue_description{existing_queue{"q"}.consumer_priority(1).consumer_priority(2)}.problems(),
        ElementsAre(HasSubstr("x-priority is set twice")));
}

TEST(queue, the_same_value_twice_is_no_problem_whatever_its_width)
{
    EXPECT_THAT(
        queue_description{quorum_queue{"q"}.max_length(5).argument("x-max-length", 5)}.problems(),
        IsEmpty());
}

TEST(queue, values_out_of_range_are_problems)
{
    EXPECT_THAT(queue_description{classic_queue{"q"}
                                      .message_ttl(-1ms)
                                      .expires(0ms)
                                      .max_length(-1)
                                      .max_priority(256)
                                      .max_priority(0)}
                    .problems(),
                ElementsAre(HasSubstr("x-message-ttl"), HasSubstr("x-expires"),
                            HasSubstr("x-max-length"), HasSubstr("at most 255"),
                            HasSubstr("at least 1")));
    EXPECT_THAT(
        queue_description{
            quorum_queue{"q"}.delivery_limit(-2).initial_group_size(0).delayed_retry(5s, 1s)}
            .problems(),
        ElementsAre(HasSubstr("x-delivery-limit"), HasSubstr("group-size"),
                    HasSubstr("x-delayed-retry-max")));
}

TEST(queue, what_the_server_would_refuse_is_a_problem)
{
    EXPECT_THAT(queue_description{classic_queue{"q"}.dead_letter_routing_key("k")}.problems(),
                ElementsAre(HasSubstr("needs a dead_letter_exchange")));
    EXPECT_THAT(queue_description{classic_queue{"amq.mine"}}.problems(),
                ElementsAre(HasSubstr("belong to the server")));
    EXPECT_THAT(queue_description{classic_queue{"q"}.bind("", "k")}.problems(),
                ElementsAre(HasSubstr("default exchange")));
    EXPECT_THAT(queue_description{quorum_queue{"q"}.argument("x-max-priority", 5)}.problems(),
                ElementsAre(HasSubstr("x-max-priority")));
    EXPECT_THAT(queue_description{quorum_queue{"q"}.overflow(overflow_policy::reject_publish_dlx)}
                    .problems(),
                ElementsAre(HasSubstr("reject-publish-dlx")));
    EXPECT_THAT(queue_description{classic_queue{"q"}.argument("x-delivery-limit", 5)}.problems(),
                ElementsAre(HasSubstr("x-delivery-limit")));
}

TEST(queue, names_longer_than_a_short_string_are_problems)
{
    const std::string longest(255, 'n');
    const std::string longer(256, 'n');
    EXPECT_THAT(queue_description{classic_queue{longest}.bind(longest, longest)}.problems(),
                IsEmpty());
    EXPECT_THAT(queue_description{classic_queue{longer}}.problems(),
                ElementsAre(AllOf(HasSubstr("256 bytes"), HasSubstr("nnn...'"))));
    EXPECT_THAT(queue_description{classic_queue{"q"}.bind(longer, longer)}.problems(),
                ElementsAre(HasSubstr("256 bytes"), HasSubstr("key of 256 bytes")));
    EXPECT_THAT(queue_description{classic_queue{"q"}.argument(longer, 1)}.problems(),
                ElementsAre(HasSubstr("256 bytes")));
}

} // namespace
} // namespace acquit::settle
