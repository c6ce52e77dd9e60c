#include <acquit/settle/exchange.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace acquit::settle {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(exchange_Q3, each_type_has_its_name_on_the_wire)
{
    EXPECT_EQ(direct_exchange{"e"}.description().type, "direct");
    EXPECT_EQ(fanout_exchange{"e"}.description().type, "fanout");
    EXPECT_EQ(topic_exchange{"e"}.description().type, "topic");
    EXPECT_EQ(headers_exchange{"e"}.description().type, "headers");
    EXPECT_EQ(consistent_hash_exchange{"e"}.description().type, "x-consistent-hash");
    EXPECT_EQ((exchange{"e", "x-random"}.description().type), "x-random");
}

TEST(exchange_Q3, is_durable_unless_told)
{
    const exchange_description plain = topic_exchange{"shop"};
    EXPECT_EQ(plain.name, "shop");
    EXPECT_TRUE(plain.durable);
    EXPECT_FALSE(plain.auto_delete);
    EXPECT_FALSE(plain.internal);
    const exchange_description other =
        topic_exchange{"shop"}.durable(false).auto_delete().internal();
    EXPECT_FALSE(other.durable);
    EXPECT_TRUE(other.auto_delete);
    EXPECT_TRUE(other.internal);
}

TEST(exchange_Q3, has_an_alternate_and_any_argument_and_sources)
{
    const exchange_description e = topic_exchange{"shop"}
                                       .alternate("unrouted")
                                       .argument("x-more", 5)
                                       .bind_to("world", "shop.#")
                                       .bind_to("amq.topic", "k");
    EXPECT_EQ(text_argument(e.arguments, "alternate-exchange"), "unrouted");
    EXPECT_EQ(integer_argument(e.arguments, "x-more"), 5);
    ASSERT_EQ(e.bindings.size(), 2u);
    EXPECT_EQ(e.bindings[0].source, "world");
    EXPECT_EQ(e.bindings[0].key, "shop.#");
    EXPECT_THAT(e.problems(), IsEmpty());
}

TEST(exchange_Q3, the_servers_own_are_never_declared_but_may_be_bound)
{
    for (const char* name : {"", "amq.direct", "amq.mine"})
        EXPECT_FALSE(direct_exchange{name}.description().declarable()) << name;
    EXPECT_TRUE(direct_exchange{"amqp"}.description().declarable());
    EXPECT_THAT(fanout_exchange{"amq.fanout"}.bind_to("shop", "#").description().problems(),
                IsEmpty());
    EXPECT_THAT(fanout_exchange{"amq.fanout"}.durable(false).description().problems(),
                ElementsAre(HasSubstr("never declared")));
}

TEST(exchange, problems_name_the_exchange_and_what_to_do)
{
    const std::string longer(256, 'x');
    EXPECT_THAT(topic_exchange{longer}.description().problems(),
                ElementsAre(HasSubstr("256 bytes")));
    EXPECT_THAT((exchange{"e", ""}.description().problems()), ElementsAre(HasSubstr("type")));
    EXPECT_THAT(topic_exchange{"e"}.bind_to("", "k").description().problems(),
                ElementsAre(AllOf(HasSubstr("exchange 'e'"), HasSubstr("cannot be bound"))));
    EXPECT_THAT(direct_exchange{""}.bind_to("e", "k").description().problems(),
                ElementsAre(HasSubstr("cannot be bound")));
    EXPECT_THAT(topic_exchange{"e"}.alternate("a").alternate("b").description().problems(),
                ElementsAre(HasSubstr("set twice")));
    EXPECT_THAT(topic_exchange{"e"}.bind_to(longer, longer).description().problems(),
                ElementsAre(HasSubstr("256 bytes"), HasSubstr("key of 256 bytes")));
    EXPECT_THAT(topic_exchange{"e"}.argument(longer, 1).description().problems(),
                ElementsAre(HasSubstr("256 bytes")));
}

} // namespace
} // namespace acquit::settle
