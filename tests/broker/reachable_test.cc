#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

/// The tests of this folder get their broker from tests/broker/with, which says in the environment
/// where it is.
TEST(broker, is_told_to_the_tests_and_is_private)
{
    const char* uri = std::getenv("ACQUIT_BROKER_URI");
    ASSERT_NE(uri, nullptr) << "run this through tests/broker/with VERSION -- test_broker";
    EXPECT_TRUE(std::string_view(uri).starts_with("amqp://guest:guest@127.0.0.1:"));
    EXPECT_FALSE(std::string_view(uri).ends_with(":5672"));
}
