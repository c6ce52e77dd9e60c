#include <acquit/settle/outcome.h>

#include <gtest/gtest.h>

#include <type_traits>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;

static_assert(sizeof(outcome) == 16);
static_assert(std::is_trivially_copyable_v<outcome>);
static_assert(!std::is_default_constructible_v<outcome>);
static_assert(ack.kind() == outcome_kind::ack && drop.kind() == outcome_kind::drop);
static_assert(retry_after(60s).delay() == 60s && retry().delay() == 0s);

TEST(outcome, a_negative_delay_is_none)
{
    EXPECT_EQ(retry_after(-1s).delay(), 0s);
    EXPECT_EQ(retry_after(-1s).kind(), outcome_kind::retry_after);
}

TEST(outcome, only_retry_after_has_a_delay)
{
    EXPECT_EQ(outcome::of(outcome_kind::ack, 5s), ack);
    EXPECT_EQ(outcome::of(outcome_kind::retry_after, 5s), retry_after(5s));
    EXPECT_NE(retry_after(5s), retry_after(6s));
    EXPECT_NE(retry(), drop);
}

TEST(outcome, has_the_name_that_a_handler_writes)
{
    EXPECT_EQ(ack.name(), "ack");
    EXPECT_EQ(drop.name(), "drop");
    EXPECT_EQ(retry().name(), "retry");
    EXPECT_EQ(retry_after(1s).name(), "retry_after");
}

} // namespace
} // namespace acquit::settle
