#include <acquit/amqp/session/tuning.h>

#include <gtest/gtest.h>

#include <array>

namespace acquit::amqp {
namespace {

struct row {
    tuned ours;
    tuned offer;
    tuned result;
};

TEST(tuning, follows_the_table_of_its_header)
{
    const row rows[] = {
        // the usual
        {{131072, 2047, 60}, {131072, 2047, 60}, {131072, 2047, 60}},
        // smaller wishes stand, larger ones are cut to the offer
        {{65536, 10, 5}, {131072, 2047, 60}, {65536, 10, 5}},
        {{1 << 20, 65535, 600}, {131072, 2047, 60}, {131072, 2047, 60}},
        // ours 0: the offer; heartbeat 0: off
        {{0, 0, 0}, {131072, 2047, 60}, {131072, 2047, 0}},
        // the offer 0: ours
        {{65536, 100, 30}, {0, 0, 0}, {65536, 100, 30}},
        // both 0: something finite, never 0
        {{0, 0, 0}, {0, 0, 0}, {131072, 65535, 0}},
        // never below 8192
        {{4096, 1, 1}, {131072, 2047, 60}, {8192, 1, 1}},
        {{1, 1, 1}, {0, 0, 0}, {8192, 1, 1}},
        {{131072, 2047, 60}, {8192, 1, 1}, {8192, 1, 1}},
    };
    for (const auto& [ours, offer, result] : rows) {
        const auto agreed = negotiate(ours, offer);
        ASSERT_TRUE(agreed) << agreed.refusal;
        EXPECT_EQ(agreed.result, result)
            << agreed.result.frame_size_max << ' ' << agreed.result.channel_max << ' '
            << agreed.result.heartbeat_s;
    }
}

TEST(tuning, is_never_above_the_offer_and_never_zero)
{
    for (const std::uint32_t ours : {0u, 1u, 8191u, 8192u, 8193u, 131072u, 0xFFFFFFFFu}) {
        for (const std::uint32_t offer : {8192u, 8193u, 131072u, 0xFFFFFFFFu}) {
            const auto agreed = negotiate({ours, 0, 0}, {offer, 0, 0});
            ASSERT_TRUE(agreed);
            EXPECT_LE(agreed.result.frame_size_max, offer);
            EXPECT_GE(agreed.result.frame_size_max, 8192u);
        }
    }
    for (const auto ours : std::to_array<std::uint16_t>({0, 1, 2046, 2047, 2048, 65535})) {
        for (const auto offer : std::to_array<std::uint16_t>({1, 2047, 65535})) {
            const auto agreed = negotiate({0, ours, 0}, {0, offer, 0});
            ASSERT_TRUE(agreed);
            EXPECT_LE(agreed.result.channel_max, offer);
            EXPECT_GE(agreed.result.channel_max, 1);
        }
    }
}

TEST(tuning, every_answer_of_ours_is_one_that_a_server_accepts)
{
    for (const std::uint32_t frame : {0u, 8192u, 131072u}) {
        for (const auto channels : std::to_array<std::uint16_t>({0, 1, 2047})) {
            for (const auto beat : std::to_array<std::uint16_t>({0, 1, 60})) {
                const tuned offer{frame, channels, beat};
                for (const auto& ours :
                     {tuned{0, 0, 0}, tuned{131072, 2047, 60}, tuned{4096, 65535, 1}}) {
                    const auto answer = negotiate(ours, offer);
                    ASSERT_TRUE(answer);
                    const auto accepted = accept(offer, answer.result);
                    EXPECT_TRUE(accepted) << accepted.refusal;
                    EXPECT_EQ(accepted.result, answer.result);
                }
            }
        }
    }
}

TEST(field_case_c30, a_tiny_frame_max_is_refused_with_a_reason)
{
    for (const std::uint32_t offer : {1u, 8u, 4095u, 8191u}) {
        const auto refused = negotiate({131072, 2047, 60}, {offer, 2047, 60});
        EXPECT_FALSE(refused);
        EXPECT_NE(refused.refusal.find("frame_max"), std::string::npos);
    }
    EXPECT_TRUE(negotiate({131072, 2047, 60}, {0, 2047, 60}));
}

TEST(field_case_c40, we_never_ask_for_less_than_8192)
{
    EXPECT_EQ(negotiate({4096, 0, 0}, {131072, 2047, 60}).result.frame_size_max, 8192u);
}

TEST(field_case_c41, unlimited_channels_become_the_servers_limit)
{
    EXPECT_EQ(negotiate({0, 0, 0}, {131072, 2047, 60}).result.channel_max, 2047);
}

} // namespace
} // namespace acquit::amqp
