#include <acquit/settle/detail/argument_conflict.h>
#include <acquit/settle/queue.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace acquit::settle::detail {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* refused = "PRECONDITION_FAILED - ";

std::optional<argument_conflict> in(const std::string& text)
{
    return conflict_in(refused + text);
}

TEST(conflict_Q4, is_read_from_each_form_that_the_broker_writes)
{
    EXPECT_EQ(in("inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received '20' but "
                 "current is '10'"),
              (argument_conflict{"x-max-length", "10"}));
    EXPECT_EQ(in("inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but "
                 "current is the value '10' of type 'signedint'"),
              (argument_conflict{"x-max-length", "10"}));
    EXPECT_EQ(in("inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received the value "
                 "'quorum' of type 'longstr' but current is none"),
              (argument_conflict{"x-queue-type", "none"}));
    EXPECT_EQ(in("inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but "
                 "current is 'true'"),
              (argument_conflict{"durable", "true"}));
    EXPECT_EQ(in("inequivalent arg 'x-dead-letter-exchange' for queue 'q' in vhost '/': received "
                 "'' but current is 'it's'"),
              (argument_conflict{"x-dead-letter-exchange", "it's"}));
}

TEST(conflict_Q4, of_any_other_text_is_none)
{
    for (const char* text : {"", "unknown delivery tag 5", "inequivalent arg 'x"})
        EXPECT_EQ(in(text), std::nullopt) << text;
}

TEST(conflict_Q4, an_argument_that_the_other_type_does_not_have_is_absent_there)
{
    EXPECT_EQ(in("invalid arg 'x-delivery-limit' for queue 'q' in vhost '/' of queue type "
                 "rabbit_classic_queue"),
              (argument_conflict{"x-delivery-limit", "none"}));
    EXPECT_EQ(in("invalid arg 'x-dead-letter-routing-key' for queue 'q' in vhost '/': "
                 "routing_key_but_no_dlx_defined"),
              (argument_conflict{"x-dead-letter-routing-key", "none"}));
}

// The reply text is a short string.
TEST(conflict_Q4, a_text_that_ends_too_soon_tells_the_argument_alone)
{
    const argument_conflict alone{"x-max-length", {}};
    EXPECT_EQ(in("inequivalent arg 'x-max-length' for que..."), alone);
    EXPECT_EQ(in("inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received 'a' bu..."),
              alone);
    EXPECT_EQ(in("inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received 'a' but "
                 "current is the val..."),
              alone);
}

queue_description taken(queue_description queue, const argument_conflict& conflict)
{
    EXPECT_TRUE(take_over(queue, conflict)) << conflict.argument;
    EXPECT_FALSE(take_over(queue, conflict)) << "it has that value already";
    return queue;
}

TEST(conflict_Q4, the_brokers_value_is_taken_over_whatever_it_is)
{
    const queue_description queue = classic_queue{"q"}.max_length(20);
    EXPECT_EQ(integer_argument(taken(queue, {"x-max-length", "10"}).arguments, "x-max-length"), 10);
    EXPECT_FALSE(taken(queue, {"x-max-length", "none"}).arguments.contains("x-max-length"));
    EXPECT_EQ(text_argument(taken(queue, {"x-overflow", "drop-head"}).arguments, "x-overflow"),
              "drop-head");
    EXPECT_EQ(taken(queue, {"x-single-active-consumer", "true"})
                  .arguments.view()
                  .find("x-single-active-consumer")
                  ->as_bool(),
              true);
    EXPECT_EQ(text_argument(taken(queue, {"x-dead-letter-routing-key", ""}).arguments,
                            "x-dead-letter-routing-key"),
              "");
    EXPECT_FALSE(taken(queue, {"durable", "false"}).durable);
    EXPECT_TRUE(taken(queue, {"auto_delete", "true"}).auto_delete);
    EXPECT_TRUE(taken(queue, {"exclusive", "true"}).exclusive);
}

TEST(conflict_Q4, what_cannot_be_taken_over_ends_the_questions)
{
    queue_description queue = classic_queue{"q"};
    EXPECT_FALSE(take_over(queue, {"durable", "perhaps"}));
    EXPECT_FALSE(take_over(queue, {"x-absent", "none"}));
    EXPECT_FALSE(take_over(queue, {"x-unsaid", {}}));
    EXPECT_FALSE(take_over(queue, {std::string(256, 'x'), "2"}));
}

TEST(conflict_Q4, the_text_shows_both_sides)
{
    queue_differences found;
    found.theirs = classic_queue{"q"}.max_length(10);
    found.found = {{"x-max-length", "20", "10"}, {"x-expires", "", "none"}};
    EXPECT_THAT(describe(found),
                AllOf(HasSubstr("at least"), HasSubstr("x-max-length is 10 there and 20 here"),
                      HasSubstr("x-expires is none there and '' here"),
                      Not(HasSubstr("queue-type"))));
    found.complete = true;
    EXPECT_THAT(describe(found),
                AllOf(Not(HasSubstr("at least")), HasSubstr("x-queue-type=S:\"classic\""),
                      HasSubstr("x-expires is none there and '' here")));
}

} // namespace
} // namespace acquit::settle::detail
