#include "load_support.h"

#include <gtest/gtest.h>

namespace acquit::bench {
namespace {

using namespace std::chrono_literals;

TEST(load_options, have_perftests_letters_and_words)
{
    const auto p = told(
        {"-h",   "amqp://host", "-x",     "2",           "-y", "3",    "-X",   "4",   "-Y",  "5",
         "-u",   "q",           "-e",     "amq.default", "-k", "key",  "-c",   "100", "-s",  "1000",
         "-f",   "persistent",  "--flag", "mandatory",   "-r", "0.5",  "-R",   "10",  "-L",  "250",
         "-z",   "30",          "-C",     "1000",        "-D", "2000", "-i",   "2",   "-ms", "-d",
         "name", "-ad",         "false",  "-b",          "0",  "-M",   "8192", "-q",  "64",  "-o",
         "a.csv"});
    ASSERT_EQ(p.error, "");
    const options& o = p.values;
    EXPECT_EQ(o.uri, "amqp://host");
    EXPECT_EQ(o.producers, 2u);
    EXPECT_EQ(o.consumers, 3u);
    EXPECT_EQ(o.producer_channels, 4u);
    EXPECT_EQ(o.consumer_channels, 5u);
    EXPECT_EQ(o.queue, "q");
    EXPECT_EQ(o.exchange, "");
    EXPECT_EQ(o.routing_key, "key");
    EXPECT_EQ(o.confirm, 100u);
    EXPECT_EQ(o.size, 1000u);
    EXPECT_TRUE(o.persistent);
    EXPECT_TRUE(o.mandatory);
    EXPECT_EQ(o.rate, 0.5);
    EXPECT_EQ(o.consumer_rate, 10);
    EXPECT_EQ(o.work, 250us);
    EXPECT_EQ(o.seconds, 30);
    EXPECT_EQ(o.per_producer, 1000u);
    EXPECT_EQ(o.per_consumer, 2000u);
    EXPECT_EQ(o.interval, 2);
    EXPECT_TRUE(o.milliseconds);
    EXPECT_EQ(o.id, "name");
    EXPECT_FALSE(o.auto_delete);
    EXPECT_EQ(o.heartbeat_s, 0);
    EXPECT_EQ(o.frame_max, 8192u);
    EXPECT_EQ(o.prefetch, 64u);
    EXPECT_EQ(o.csv_file, "a.csv");
}

TEST(load_options, say_the_same_by_word_with_a_blank_or_an_equals_sign)
{
    EXPECT_EQ(told({"--producers", "7"}).values.producers, 7u);
    EXPECT_EQ(told({"--producers=7"}).values.producers, 7u);
    EXPECT_EQ(told({"--qos=7"}).values.prefetch, 7u);
}

TEST(load_options, refuse_by_name_what_perftest_has_and_we_have_not)
{
    EXPECT_EQ(told({"-K"}).error, "-K (--random-routing-key of PerfTest) is not supported");
    EXPECT_EQ(told({"--ctxsize", "5"}).error, "--ctxsize (--ctxsize of PerfTest) is not supported");
    EXPECT_EQ(told({"--nonsense"}).error, "there is no option \"--nonsense\"");
}

TEST(load_options, never_repeat_an_address_that_stands_in_the_wrong_place)
{
    const auto wrong = told({"amqp://user:secret@host"}).error;
    EXPECT_EQ(wrong.find("secret"), wrong.npos) << wrong;
}

TEST(load_options, settle_by_hand_as_perftest_or_by_name)
{
    EXPECT_EQ(told({}).values.settle_text(), "auto");
    EXPECT_EQ(told({"-A", "10"}).values.settle_text(), "multi:10");
    EXPECT_EQ(told({"--settle", "multi:64"}).values.settle_text(), "multi:64");
    EXPECT_EQ(told({"--settle", "single"}).values.settle_text(), "single");
    EXPECT_EQ(told({"-a"}).values.settle_text(), "none");
    EXPECT_NE(told({"--settle", "multi:0"}).error, "");
    EXPECT_NE(told({"--settle", "multi:"}).error, "");
}

TEST(load_options, read_shares_of_outcomes)
{
    const auto p = told({"--outcomes", "ack=95,retry=3,drop=1,retry_after=1"});
    ASSERT_EQ(p.error, "");
    EXPECT_EQ(p.values.outcomes.total(), 100u);
    EXPECT_EQ(p.values.outcomes.retry, 3u);
    EXPECT_FALSE(p.values.outcomes.only_acks());
    EXPECT_NE(told({"--outcomes", "retry=1"}).error, "") << "nothing would ever be done";
    EXPECT_NE(told({"--outcomes", "nack=1"}).error, "");
    EXPECT_NE(told({"--outcomes", ""}).error, "");
}

TEST(load_options, read_every_mode_of_delay)
{
    using mode = settle::delay::mode;
    EXPECT_EQ(told({"--delay", "hold:32"}).values.delay.budget(), 32u);
    EXPECT_EQ(told({"--delay", "dlx_ttl"}).values.delay.kind(), mode::dlx_ttl);
    const auto buckets = told({"--delay", "buckets:100ms+2s"}).values.delay;
    EXPECT_EQ(buckets.kind(), mode::buckets);
    EXPECT_EQ(buckets.steps(), (std::vector<std::chrono::milliseconds>{100ms, 2000ms}));
    EXPECT_EQ(told({"-qq", "--delay", "native:100ms+1s"}).values.delay.max(), 1000ms);
    EXPECT_NE(told({"--delay", "native:1s+2s"}).error, "") << "it needs a quorum queue";
    EXPECT_NE(told({"--delay", "later"}).error, "");
    EXPECT_NE(told({"--delay", "dlx_ttl:5"}).error, "");
}

TEST(load_options, read_a_proxys_addresses)
{
    const auto p = told({"--proxy", "127.0.0.1:0:broker:5001"});
    ASSERT_EQ(p.error, "");
    EXPECT_EQ(p.values.proxy->listen_address, "127.0.0.1");
    EXPECT_EQ(p.values.proxy->listen_port, 0);
    EXPECT_EQ(p.values.proxy->target_host, "broker");
    EXPECT_EQ(p.values.proxy->target_port, 5001);
    EXPECT_EQ(told({"--proxy", "[::1]:1:[::2]:3"}).values.proxy->target_host, "::2");
    EXPECT_NE(told({"--proxy", "127.0.0.1:0"}).error, "");
    EXPECT_NE(told({"--proxy", "127.0.0.1:0:h:0"}).error, "");
}

TEST(load_options, refuse_what_cannot_be_together)
{
    EXPECT_NE(told({"-x", "0", "-y", "0"}).error, "");
    EXPECT_NE(told({"-x", "0", "-C", "5"}).error, "");
    EXPECT_NE(told({"-y", "0", "-D", "5"}).error, "");
    EXPECT_NE(told({"-p"}).error, "");
    EXPECT_NE(told({"-y", "0", "--verify"}).error, "");
    EXPECT_NE(told({"-q", "10", "-A", "11"}).error, "") << "the window is full before the ack";
    EXPECT_NE(told({"-q", "0"}).error, "") << "the ledger needs a window";
    EXPECT_NE(told({"-a", "--outcomes", "ack=1,drop=1"}).error, "");
    EXPECT_NE(told({"--settle", "single", "--delay", "dlx_ttl"}).error, "");
    EXPECT_NE(told({"--settle", "single", "--hold", "5"}).error, "");
    EXPECT_NE(told({"-u", "a", "-qp", "b-%d"}).error, "");
    EXPECT_NE(told({"-x", "10000", "-X", "2047"}).error, "") << "a stamp has no room for so many";
}

TEST(load_options, refuse_values_of_another_kind)
{
    for (const auto& wrong : std::vector<std::vector<std::string_view>>{{"-x", "many"},
                                                                        {"-x", "-1"},
                                                                        {"-x"},
                                                                        {"-r", "fast"},
                                                                        {"-r", "-1"},
                                                                        {"-i", "0"},
                                                                        {"-ad", "yes"},
                                                                        {"-f", "immediate"},
                                                                        {"-qa", "x"},
                                                                        {"-b", "99999"},
                                                                        {"--verify=1"}})
        EXPECT_NE(told(wrong).error, "") << wrong[0];
}

TEST(load_options, make_quorum_queues_what_they_can_be)
{
    const auto o = told({"-qq", "-q", "5000"}).values;
    EXPECT_TRUE(o.persistent);
    EXPECT_FALSE(o.auto_delete);
    EXPECT_EQ(o.prefetch, 2000u);
}

TEST(load_options, name_the_queues_of_a_pattern)
{
    const auto o = told({"-qp", "q-%d.x", "-qpf", "8", "-qpt", "10"}).values;
    EXPECT_EQ(o.queues(), (std::vector<std::string>{"q-8.x", "q-9.x", "q-10.x"}));
}

TEST(load_options, show_the_command_line_without_passwords)
{
    const std::vector<std::string_view> words{"-h", "amqp://user:se:cr@et@host/v", "-d", "it's"};
    EXPECT_EQ(command_line(words), "acquit-bench -h amqp://user:***@host/v -d 'it'\\''s'");
    const std::vector<std::string_view> joined{"--uri=amqp://u:p@h"};
    EXPECT_EQ(command_line(joined), "acquit-bench --uri=amqp://u:***@h");
}

TEST(load_options, tell_of_every_option_in_one_hundred_columns)
{
    const auto text = usage();
    for (const auto& line : lines_of(text))
        EXPECT_LE(line.size(), 100u) << line;
    for (const char* each : {"--uri", "--settle", "--proxy", "--verify", "--multi-ack-every"})
        EXPECT_NE(text.find(each), text.npos) << each;
}

} // namespace
} // namespace acquit::bench
