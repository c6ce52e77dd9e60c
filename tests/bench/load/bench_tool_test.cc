#include "load_support.h"
#include "tool.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

/// The whole program, at the broker of tests/broker/with.
namespace acquit::bench {
namespace {

/// A folder that goes with the test.
class folder {
public:
    folder()
    {
        auto name = (std::filesystem::temp_directory_path() / "acquit-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("no folder");
        path_ = name;
    }
    ~folder() { std::filesystem::remove_all(path_); }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;

    [[nodiscard]] std::string operator/(const char* name) const { return path_ / name; }

private:
    std::filesystem::path path_;
};

std::string text_of(const std::string& file)
{
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

/// A queue's name that no other run has.
std::string queue_name(const char* what)
{
    return std::string("bench_tool.") + what + "." + std::to_string(getpid());
}

class bench_tool_settling : public testing::TestWithParam<const char*> {};

TEST_P(bench_tool_settling, loses_nothing_and_settles_nothing_twice)
{
    const auto done = run_tool({"-x", "2", "-X", "2", "-y", "2", "-C", "2000", "-c", "200", "-q",
                                "128", "--settle", GetParam(), "--verify"});
    EXPECT_EQ(done.status, 0) << done.said;
    EXPECT_NE(done.said.find("verify: 8000 published = 8000 settled + 0 refused"),
              std::string::npos)
        << done.said;
    EXPECT_NE(done.said.find("settlement latency (prefetch N=128)"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(
    all, bench_tool_settling, testing::Values("auto", "single", "multi:32"),
    [](const auto& tested) {
        return std::string(tested.param).substr(0, tested.param[0] == 'm' ? 5 : 6);
    });

TEST(bench_tool, every_outcome_ends_once_on_both_types_of_queue)
{
    for (const bool quorum : {false, true}) {
        std::vector<std::string> told{"-C",
                                      "1500",
                                      "-c",
                                      "100",
                                      "--outcomes",
                                      "ack=80,retry=10,drop=5,retry_after=5",
                                      "--retry-after",
                                      "20ms",
                                      "--delay",
                                      "dlx_ttl",
                                      "--verify"};
        if (quorum)
            told.emplace_back("-qq");
        const auto done = run_tool(told);
        EXPECT_EQ(done.status, 0) << done.said;
        EXPECT_NE(done.said.find("1500 published = 1500 settled"), std::string::npos) << done.said;
        EXPECT_GT(number_behind(done.said, " acked, "), 0) << "some are dropped";
    }
}

TEST(bench_tool, writes_files_that_can_be_read)
{
    const folder here;
    const auto done =
        run_tool({"-C", "3000", "-i", "0.1", "-o", here / "a.csv", "--json", here / "a.json",
                  "--hdr", here / "a.hgrm", "--report", here / "a.html", "--verify"});
    ASSERT_EQ(done.status, 0) << done.said;
    const auto json = text_of(here / "a.json");
    EXPECT_TRUE(is_json(json)) << json;
    const auto totals = json.substr(json.find("\"totals\":"));
    EXPECT_EQ(number_behind(totals, "\"sent\":"), 3000) << json;
    EXPECT_EQ(number_behind(totals, "\"received\":"), 3000) << json;
    EXPECT_EQ(number_behind(json, "\"settled\":"), 3000) << json;
    EXPECT_EQ(json.find("guest:guest"), json.npos) << "no password";
    const auto csv = lines_of(text_of(here / "a.csv"));
    ASSERT_GE(csv.size(), 2u);
    EXPECT_TRUE(csv[0].starts_with("id,time (s),published"));
    EXPECT_NE(text_of(here / "a.hgrm").find("1.000000000000"), std::string::npos);
    const auto page = text_of(here / "a.html");
    EXPECT_NE(page.find("</html>"), page.npos);
    EXPECT_EQ(page.find("guest:guest"), page.npos);
}

TEST(bench_tool, ends_when_each_consumer_has_what_it_wanted)
{
    const auto queue = queue_name("wanted");
    ASSERT_EQ(run_tool({"-y", "0", "-C", "500", "-c", "100", "-u", queue, "-ad", "false"}).status,
              0);
    const auto part = run_tool({"-x", "0", "-D", "300", "-u", queue, "-ad", "false"});
    EXPECT_EQ(part.status, 0) << part.said;
    // What it received beyond went back, and the other one finds it.
    const auto rest = run_tool({"-x", "0", "-D", "200", "-u", queue, "-ad", "true", "-p"});
    EXPECT_EQ(rest.status, 0) << rest.said;
    EXPECT_EQ(rest.said.find("Nothing has come"), std::string::npos) << rest.said;
}

TEST(bench_tool, says_what_the_broker_said_against_it)
{
    const auto missing = run_tool({"-p", "-u", queue_name("missing"), "-C", "1"});
    EXPECT_EQ(missing.status, 1);
    EXPECT_NE(missing.said.find("NOT_FOUND"), std::string::npos) << missing.said;

    const auto queue = queue_name("conflict");
    ASSERT_EQ(run_tool({"-y", "0", "-C", "1", "-c", "1", "-u", queue, "-ad", "false"}).status, 0);
    const auto conflict =
        run_tool({"-C", "1", "-u", queue, "-ad", "false", "-qa", "x-max-length=5"});
    EXPECT_EQ(conflict.status, 1);
    EXPECT_NE(conflict.said.find("PRECONDITION_FAILED"), std::string::npos) << conflict.said;
}

TEST(bench_tool, misses_what_a_full_queue_drops)
{
    const auto queue = queue_name("short");
    ASSERT_EQ(run_tool({"-y", "0", "-C", "100", "-c", "10", "-u", queue, "-ad", "false", "-qa",
                        "x-max-length=60"})
                  .status,
              0);
    const auto consumed = run_tool({"-x", "0", "-D", "60", "-u", queue, "-p", "--verify"});
    EXPECT_EQ(consumed.status, 1) << consumed.said;
    EXPECT_NE(consumed.said.find("100 published = 60 settled + 0 refused by the broker + 40 LOST"),
              std::string::npos)
        << consumed.said;
}

TEST(bench_tool, ends_in_good_order_on_a_signal)
{
    tool one({"-h", broker_uri(), "-r", "500", "-i", "0.1", "--verify"});
    std::string line;
    do {
        line = one.line();
        ASSERT_NE(line, "") << one.said();
    } while (line.find("received: ") == std::string::npos);
    one.signal(SIGINT);
    EXPECT_EQ(one.wait(), 0) << one.said();
    EXPECT_NE(one.said().find("nothing lost, nothing twice"), std::string::npos) << one.said();
}

TEST(bench_tool, its_proxy_measures_what_the_client_measures)
{
    const folder here;
    const auto uri = broker_uri();
    const auto at = uri.rfind('@');
    tool proxy({"--proxy", "127.0.0.1:0:" + uri.substr(at + 1), "--json", here / "p.json"});
    const auto first = proxy.line();
    const auto port = static_cast<int>(number_behind(first, "listening on 127.0.0.1:"));
    ASSERT_GT(port, 0) << first;

    const auto queue = queue_name("proxy");
    ASSERT_EQ(
        run_tool({"-y", "0", "-C", "20000", "-c", "1000", "-u", queue, "-ad", "false"}).status, 0);
    tool client({"-h", uri.substr(0, at + 1) + "127.0.0.1:" + std::to_string(port), "-x", "0", "-D",
                 "20000", "-u", queue, "-p", "--settle", "single", "--json", here / "c.json"});
    ASSERT_EQ(client.wait(), 0) << client.said();
    proxy.signal(SIGINT);
    ASSERT_EQ(proxy.wait(), 0) << proxy.said();

    const auto seen = text_of(here / "p.json");
    const auto own = text_of(here / "c.json");
    ASSERT_TRUE(is_json(seen)) << seen;
    EXPECT_GE(number_behind(seen, "\"settled\":"), 20000) << seen;
    const auto median = [](const std::string& json) {
        const auto latency = json.substr(json.find("\"settlement\":"));
        return number_behind(latency, "\"p50\":");
    };
    EXPECT_LT(median(seen), 2 * median(own)) << "the proxy sees less of the way";
    EXPECT_GT(2 * median(seen), median(own));
}

} // namespace
} // namespace acquit::bench
