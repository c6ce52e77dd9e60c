#include "../../bench/firehose/settings.h"
#include "../../bench/firehose/settle_frame.h"
#include "../../bench/firehose/statistics.h"
#include "../../bench/firehose/unsettled.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <vector>

namespace acquit::testing {

namespace {

using namespace firehose;

std::variant<settings, refusal> parsed(std::vector<const char*> arguments)
{
    return parse_arguments(arguments);
}

std::string refused(std::vector<const char*> arguments)
{
    const auto result = parsed(std::move(arguments));
    const auto* const why = std::get_if<refusal>(&result);
    return why == nullptr ? "" : why->text;
}

TEST(firehose_settings, are_what_the_arguments_say)
{
    const auto s = std::get<settings>(
        parsed({"--listen", "[::1]:5673", "--messages=7", "--size", "16,0,1024", "--headers",
                "rich", "--rate", "1000", "--write", "random:9", "--frame-max", "8192",
                "--heartbeat", "0", "--once", "--lenient", "--json", "-"}));
    EXPECT_EQ(s.host, "::1");
    EXPECT_EQ(s.port, 5673);
    EXPECT_EQ(s.messages, 7U);
    EXPECT_EQ(s.sizes, (std::vector<std::size_t>{16, 0, 1024}));
    EXPECT_EQ(s.headers, header_kind::rich);
    EXPECT_EQ(s.rate, 1000);
    EXPECT_EQ(s.writes.what, write_pattern::kind::random);
    EXPECT_EQ(s.writes.value, 9U);
    EXPECT_EQ(s.frame_size_max, 8192U);
    EXPECT_EQ(s.heartbeat_s, 0);
    EXPECT_EQ(s.connections, 1U);
    EXPECT_TRUE(s.lenient);
    EXPECT_EQ(s.json, "-");
}

TEST(firehose_settings, what_cannot_be_used_is_refused_with_its_name)
{
    EXPECT_EQ(refused({"--size", "16,"}).substr(0, 12), "--size takes");
    EXPECT_EQ(refused({"--size", ""}).substr(0, 12), "--size takes");
    EXPECT_EQ(refused({"--size", "16777216,16777216,16777216,16777216,1"}).substr(0, 7), "--size:");
    EXPECT_EQ(refused({"--messages"}), "--messages needs a value");
    EXPECT_EQ(refused({"--messages", "-1"}).substr(0, 10), "--messages");
    EXPECT_EQ(refused({"--listen", "7777"}), "--listen takes HOST:PORT, not \"7777\"");
    EXPECT_EQ(refused({"--listen", "a:70000"}), "--listen takes HOST:PORT, not \"a:70000\"");
    EXPECT_EQ(refused({"--frame-max", "4096"}).substr(0, 11), "--frame-max");
    EXPECT_EQ(refused({"--write", "0"}).substr(0, 7), "--write");
    EXPECT_EQ(refused({"--rate", "0"}).substr(0, 6), "--rate");
    EXPECT_EQ(refused({"--what"}), "unknown option \"--what\"");
}

TEST(firehose_settle_frame, is_taken_whole_and_well_formed_or_not_at_all)
{
    std::array<std::byte, 21> frame;
    amqp::wire::write_nack(frame.data(), 7, 1234567890123, true, true);
    settlement out;
    ASSERT_TRUE(parse_settlement(frame, out));
    EXPECT_EQ(out.channel, 7);
    EXPECT_EQ(out.tag, 1234567890123U);
    EXPECT_EQ(out.how, verdict::nack_requeue);
    EXPECT_TRUE(out.multiple);
    EXPECT_FALSE(parse_settlement(std::span(frame).first(20), out));
    for (const std::size_t at : {0U, 6U, 8U, 10U, 20U}) {
        auto broken = frame;
        broken[at] ^= std::byte{0x40};
        EXPECT_FALSE(parse_settlement(broken, out)) << at;
    }
}

// Random settling against a list that is searched.
TEST(firehose_unsettled, agrees_with_a_list)
{
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    unsettled ring;
    std::map<std::uint64_t, std::uint8_t> open;
    std::uint64_t next = 1;
    for (int step = 0; step < 20'000; ++step) {
        const auto tag =
            next < 2 ? 1 : next - 1 - random() % std::min<std::uint64_t>(next - 1, 400);
        switch (random() % 4) {
        case 0: {
            const auto slot = static_cast<std::uint8_t>(1 + random() % 3);
            const auto count = random() % 50;
            ring.add(count, slot);
            for (std::uint64_t i = 0; i < count; ++i)
                open[next++] = slot;
            break;
        }
        case 1:
            ring.skip(1);
            ++next;
            break;
        case 2:
            ASSERT_EQ(ring.find(tag) == unsettled::finding::open, open.contains(tag)) << tag;
            if (open.contains(tag)) {
                ASSERT_EQ(ring.settle(tag), open[tag]);
                open.erase(tag);
            }
            break;
        default: {
            std::array<std::uint64_t, 4> expected{};
            std::array<std::uint64_t, 4> got{};
            while (!open.empty() && open.begin()->first <= tag) {
                ++expected[open.begin()->second];
                open.erase(open.begin());
            }
            const auto closed = ring.settle_up_to(
                tag, [&](std::uint8_t slot, std::uint64_t count) { got[slot] += count; });
            ASSERT_EQ(got, expected);
            ASSERT_EQ(closed, expected[1] + expected[2] + expected[3]);
        }
        }
        ASSERT_EQ(ring.open(), open.size());
        ASSERT_EQ(ring.next_tag(), next);
    }
    EXPECT_EQ(ring.find(next), unsettled::finding::unknown);
}

TEST(firehose_statistics, say_when_the_server_was_the_limit)
{
    statistics s;
    s.deliveries = 1000;
    s.acked = 1000;
    s.settlement_frames = 4;
    s.first_delivery_ns = 1'000'000'000;
    s.last_activity_ns = 2'000'000'000;
    s.waited_window_ns = 40'000'000;
    EXPECT_TRUE(summarize(s, {}).server_was_the_limit);
    EXPECT_EQ(summarize(s, {}).messages_per_frame, 250);
    EXPECT_EQ(summarize(s, {}).rate, 1000);
    s.waited_socket_ns = 20'000'000;
    EXPECT_FALSE(summarize(s, {}).server_was_the_limit);
    EXPECT_NE(to_json(s, {}).find("\"waiting_share\": 0.0600"), std::string::npos);
}

} // namespace

} // namespace acquit::testing
