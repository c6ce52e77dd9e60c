#include "../../../bench/load/csv.h"
#include "../../../bench/load/hgrm.h"
#include "../../../bench/load/html.h"
#include "../../../bench/load/json.h"
#include "../../../bench/load/svg.h"
#include "../../../bench/load/text.h"
#include "load_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace acquit::bench {
namespace {

using namespace std::chrono_literals;

result measured()
{
    result r{.id = "t1",
             .command = "acquit-bench -d '<t1>'",
             .version = "1.2.3",
             .broker = "RabbitMQ 4.3.0",
             .system = "Linux 6.1",
             .began = "2025-01-31 12:00:00 UTC",
             .publishes = true,
             .consumes = true,
             .settle = "auto",
             .body_size = 128,
             .seconds = 2,
             .totals = {.sent = 1000, .received = 1000, .acked = 1000},
             .cpu_seconds = 0.01};
    settling s{.prefetch = 256, .settled = 1000, .frames = 10};
    for (int i = 1; i <= 1000; ++i) {
        s.latency.record(i * 10us);
        s.hold.record(i * 1us);
        r.consumer_latency.record(i * 100us);
    }
    r.settlements.push_back(s);
    for (int i = 1; i <= 4; ++i)
        r.samples.push_back({.at = i * 0.5,
                             .seconds = 0.5,
                             .done = {.sent = 250, .received = 250},
                             .settled = 250,
                             .frames = 2,
                             .cpu_seconds = 0.0025,
                             .has_consumer_latency = true,
                             .has_settlement_latency = true,
                             .consumer_latency = {1ms, 2ms, 3ms, 4ms, 5ms},
                             .settlement_latency = {1us, 2us, 3us, 4us, 5us}});
    return r;
}

std::size_t count_of(std::string_view text, std::string_view what)
{
    std::size_t n = 0;
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at + what.size()))
        ++n;
    return n;
}

TEST(load_json, is_json_whatever_stands_in_its_texts)
{
    auto r = measured();
    r.id = "quote \" slash \\ line \n bell \a end";
    r.remarks = {"one", "two \t tab"};
    const auto text = json_of(r);
    EXPECT_TRUE(is_json(text)) << text;
    EXPECT_NE(text.find(R"("id":"quote \" slash \\ line \u000a bell \u0007 end")"), text.npos);
    EXPECT_NE(text.find(R"("messages_per_frame":100)"), text.npos);
    EXPECT_TRUE(is_json(json_of(result{}))) << "nothing was measured";
}

TEST(load_json, its_reader_in_these_tests_finds_mistakes)
{
    EXPECT_TRUE(is_json(R"({"a":[1,-2.5e3,null,true,"x\u00e9"],"b":{}})"));
    for (const char* wrong : {"", "{", "[1,]", "{\"a\"}", "[1 2]", "\"\n\"", "nul", "{}x"})
        EXPECT_FALSE(is_json(wrong)) << wrong;
}

TEST(load_json, says_null_where_there_is_no_number)
{
    json_text j;
    j.open('[').value(0.0 / std::stod("0")).value(1.5).close(']');
    EXPECT_EQ(j.text(), "[null,1.5]");
}

TEST(load_csv, every_line_has_the_columns_of_its_header)
{
    auto r = measured();
    r.id = "a,\"b\"";
    const auto header = csv_header(false);
    EXPECT_TRUE(header.starts_with("id,time (s),published (msg/s),returned (msg/s),confirmed "
                                   "(msg/s),nacked (msg/s),received (msg/s),min consumer latency"));
    const auto line = csv_line(r, r.samples[0]);
    EXPECT_TRUE(line.starts_with("\"a,\"\"b\"\"\",0.500,500,0,,,500,1000,2000,3000,4000,5000,"))
        << line;
    EXPECT_EQ(count_of(line, ",") - 1, count_of(header, ",")) << "one comma stands in the name";
}

TEST(load_text, lines_read_as_perftests)
{
    const auto r = measured();
    EXPECT_EQ(line_of(r, r.samples[1], "50 %", false),
              "id: t1, time 1.000 s, sent: 500 msg/s, received: 500 msg/s, "
              "min/median/75th/95th/99th consumer latency: 1000/2000/3000/4000/5000 µs, 50 %");
    const auto summary = summary_of(r);
    EXPECT_NE(summary.find("id: t1, sending rate avg: 500 msg/s\n"), summary.npos) << summary;
    EXPECT_NE(summary.find("id: t1, receiving rate avg: 500 msg/s\n"), summary.npos);
    EXPECT_NE(summary.find("settlement latency (prefetch N=256) median"), summary.npos);
    EXPECT_NE(summary.find("100.00 messages per frame"), summary.npos);
}

TEST(load_text, tells_when_there_was_no_backlog_to_measure_by)
{
    auto r = measured();
    r.looks = 10;
    r.empty_looks = 1;
    EXPECT_EQ(look_text(r), "");
    r.empty_looks = 2;
    EXPECT_NE(look_text(r), "");
}

TEST(load_hgrm, ascends_to_the_maximum_and_ends_with_the_counts)
{
    const auto r = measured();
    const auto lines = lines_of(hgrm_of(r));
    ASSERT_GT(lines.size(), 20u);
    EXPECT_EQ(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
    double value_before = -1;
    double share_before = -1;
    std::uint64_t count_before = 0;
    std::size_t at = 2;
    for (; at < lines.size() && !lines[at].starts_with('#'); ++at) {
        std::istringstream line(lines[at]);
        double value = 0;
        double share = 0;
        std::uint64_t count = 0;
        ASSERT_TRUE(line >> value >> share >> count) << lines[at];
        EXPECT_GE(value, value_before);
        EXPECT_GT(share, share_before);
        EXPECT_GE(count, count_before);
        // Its percentile covers at least that share of the values, and the values are 10, 20, ... us.
        EXPECT_GE(static_cast<double>(count), share * 1000 - 1e-6) << lines[at];
        EXPECT_NEAR(value, static_cast<double>(count) * 10, value * 0.02 + 1) << lines[at];
        value_before = value;
        share_before = share;
        count_before = count;
    }
    EXPECT_EQ(share_before, 1);
    EXPECT_EQ(count_before, 1000u);
    EXPECT_EQ(value_before, 10000);
    const auto deviation = std::stod(lines[at].substr(lines[at].rfind('=') + 1));
    EXPECT_TRUE(lines[at].starts_with("#[Mean    =     5005.000, StdDeviation   ="));
    EXPECT_NEAR(deviation, 2886.75, 10) << "within what the buckets know";
    EXPECT_EQ(lines[at + 1], "#[Max     =    10000.000, Total count    =         1000]");
}

TEST(load_hgrm, of_nothing_has_no_lines)
{
    const auto lines = lines_of(hgrm_of(result{}));
    EXPECT_TRUE(lines[2].starts_with("#[Mean")) << lines[2];
}

TEST(load_html, is_whole_without_a_network_and_escapes_its_texts)
{
    auto r = measured();
    r.id = "<script>&\"";
    const auto page = html_of(r);
    EXPECT_EQ(count_of(page, "<script"), 0u);
    EXPECT_EQ(count_of(page, "http"), 0u) << "nothing is fetched";
    EXPECT_NE(page.find("&lt;script&gt;&amp;&quot;"), page.npos);
    EXPECT_NE(page.find("settlement latency, N = 256, median"), page.npos);
    for (const char* tag : {"svg", "section", "table", "tr", "td", "th", "figure", "p", "div"})
        EXPECT_EQ(count_of(page, std::string("<") + tag + ">") +
                      count_of(page, std::string("<") + tag + " "),
                  count_of(page, std::string("</") + tag + ">"))
            << tag;
}

TEST(load_html, holds_for_a_run_in_which_nothing_happened)
{
    result r;
    EXPECT_NE(html_of(r).find("</html>"), std::string::npos);
    r.consumes = true;
    r.samples.push_back({.at = 1, .seconds = 1});
    EXPECT_EQ(html_of(r).find("nan"), std::string::npos);
    EXPECT_EQ(html_of(r).find("inf"), std::string::npos);
}

TEST(load_svg, an_axis_ends_at_round_numbers_and_keeps_values_inside)
{
    const auto linear = axis::linear("n", 37);
    EXPECT_EQ(linear.ticks.front().label, "0");
    EXPECT_EQ(linear.ticks.back().label, "40");
    EXPECT_EQ(linear.at(0), 0);
    EXPECT_EQ(linear.at(20), 0.5);
    EXPECT_EQ(linear.at(1000), 1);
    const auto log = axis::microseconds("t", 30, 2000);
    EXPECT_EQ(log.ticks.front().label, "10 µs");
    EXPECT_EQ(log.ticks.back().label, "10 ms");
    EXPECT_NEAR(log.at(100), 1.0 / 3, 1e-9);
    EXPECT_EQ(log.at(0), 0);
}

TEST(load_svg, numbers_read_well)
{
    EXPECT_EQ(number_text(1234567), "1,234,567");
    EXPECT_EQ(number_text(999), "999");
    EXPECT_EQ(number_text(3.14159), "3.14");
    EXPECT_EQ(duration_text(0.25), "250 ns");
    EXPECT_EQ(duration_text(12.34), "12.3 µs");
    EXPECT_EQ(duration_text(4567), "4.57 ms");
    EXPECT_EQ(duration_text(2.5e6), "2.50 s");
}

} // namespace
} // namespace acquit::bench
