#include <acquit/amqp/uri.h>

#include <gtest/gtest.h>

namespace acquit::amqp {
namespace {

using maybe = std::optional<std::string>;

struct row {
    const char* text;
    maybe user, password;
    const char* host;
    std::uint16_t port;
    maybe vhost;
};

// The table of RabbitMQ's URI specification, appendix A. Absent and empty are different there.
const row specification[] = {
    {"amqp://user:pass@host:10000/vhost", "user", "pass", "host", 10000, "vhost"},
    {"amqp://user%61:%61pass@ho%61st:10000/v%2fhost", "usera", "apass", "hoast", 10000, "v/host"},
    {"amqp://", {}, {}, "", 5672, {}},
    {"amqp://:@/", "", "", "", 5672, ""},
    {"amqp://user@", "user", {}, "", 5672, {}},
    {"amqp://user:pass@", "user", "pass", "", 5672, {}},
    {"amqp://host", {}, {}, "host", 5672, {}},
    {"amqp://:10000", {}, {}, "", 10000, {}},
    {"amqp:///vhost", {}, {}, "", 5672, "vhost"},
    {"amqp://host/", {}, {}, "host", 5672, ""},
    {"amqp://host/%2f", {}, {}, "host", 5672, "/"},
    {"amqp://[::1]", {}, {}, "::1", 5672, {}},
};

TEST(uri, follows_the_table_of_the_specification)
{
    for (const auto& [text, user, password, host, port, vhost] : specification) {
        const auto parsed = parse_uri(text);
        ASSERT_TRUE(parsed) << text << ": " << parsed.error;
        EXPECT_EQ(parsed.address.user, user) << text;
        EXPECT_EQ(parsed.address.password, password) << text;
        ASSERT_EQ(parsed.address.hosts.size(), 1u) << text;
        EXPECT_EQ(parsed.address.hosts[0], (host_port{host, port})) << text;
        EXPECT_EQ(parsed.address.vhost, vhost) << text;
        EXPECT_FALSE(parsed.address.tls);
    }
}

TEST(uri, amqps_means_tls_and_another_port)
{
    const auto parsed = parse_uri("AMQPS://h");
    ASSERT_TRUE(parsed);
    EXPECT_TRUE(parsed.address.tls);
    EXPECT_EQ(parsed.address.hosts[0].port, 5671);
    EXPECT_EQ(parse_uri("amqps://h:5672").address.hosts[0].port, 5672);
}

TEST(uri, understands_every_query_parameter_of_the_specification)
{
    const auto parsed = parse_uri(
        "amqps://h/v?heartbeat=20&connection_timeout=5000&channel_max=7&auth_mechanism=external&"
        "auth_mechanism=plain&cacertfile=/etc/ca.pem&certfile=%2Fc.pem&keyfile=/k.pem&"
        "verify=verify_none&fail_if_no_peer_cert=true&server_name_indication=other.host&"
        "connection_name=a%20b&colour=red");
    ASSERT_TRUE(parsed) << parsed.error;
    const auto& a = parsed.address;
    EXPECT_EQ(a.heartbeat_s, 20);
    EXPECT_EQ(a.connection_timeout_ms, 5000u);
    EXPECT_EQ(a.channel_max, 7);
    EXPECT_EQ(a.auth_mechanisms, (std::vector<std::string>{"EXTERNAL", "PLAIN"}));
    EXPECT_EQ(a.cacertfile, "/etc/ca.pem");
    EXPECT_EQ(a.certfile, "/c.pem");
    EXPECT_EQ(a.keyfile, "/k.pem");
    EXPECT_EQ(a.verify, false);
    EXPECT_EQ(a.fail_if_no_peer_cert, true);
    EXPECT_EQ(a.server_name_indication, "other.host");
    EXPECT_EQ(a.connection_name, "a b");
    EXPECT_EQ(a.unknown_parameters, std::vector<std::string>{"colour"});
    EXPECT_EQ(parse_uri("amqps://h?server_name_indication=disable").address.server_name_indication,
              "");
    EXPECT_EQ(parse_uri("amqps://h?verify=verify_peer").address.verify, true);
    EXPECT_FALSE(parse_uri("amqps://h").address.verify.has_value());
}

TEST(uri, refuses_query_values_that_mean_nothing)
{
    for (const auto* query : {"heartbeat=", "heartbeat=ten", "heartbeat=65536", "heartbeat=-1",
                              "heartbeat=1x", "connection_timeout=1.5", "channel_max=70000",
                              "verify=yes", "fail_if_no_peer_cert=1", "cacertfile=%zz", "a b=1"}) {
        EXPECT_FALSE(parse_uri(std::string("amqp://h?") + query)) << query;
    }
}

TEST(uri, takes_several_hosts_in_order)
{
    const auto parsed = parse_uri("amqp://u:p@a,b:5673,[::1]:7/v");
    ASSERT_TRUE(parsed) << parsed.error;
    EXPECT_EQ(parsed.address.hosts, (std::vector<host_port>{{"a", 5672}, {"b", 5673}, {"::1", 7}}));
    EXPECT_FALSE(parse_uri("amqp://a,,b"));
    EXPECT_FALSE(parse_uri("amqp://a,"));
}

TEST(uri, takes_a_unix_socket)
{
    const auto parsed = parse_uri("amqp+unix://u:p@/run/rabbit.sock?vhost=%2f&heartbeat=5");
    ASSERT_TRUE(parsed) << parsed.error;
    EXPECT_EQ(parsed.address.unix_path, "/run/rabbit.sock");
    EXPECT_EQ(parsed.address.vhost, "/");
    EXPECT_EQ(parsed.address.user, "u");
    EXPECT_EQ(parsed.address.heartbeat_s, 5);
    EXPECT_TRUE(parsed.address.hosts.empty());
    EXPECT_FALSE(parse_uri("amqp+unix://h/run/rabbit.sock"));
    EXPECT_FALSE(parse_uri("amqp+unix://"));
}

TEST(uri, refuses_what_is_no_address)
{
    for (const auto* text :
         {"", "host", "http://h", "amqp:/h", "amqp//h", "amqp://h:0", "amqp://h:65536",
          "amqp://h:port", "amqp://h/a/b", "amqp://h/%", "amqp://h/%4", "amqp://h/%zz",
          "amqp://a b", "amqp://h\n", "amqp://[::1", "amqp://[h]", "amqp://[::1]x",
          "amqp://h/\xc3\xa4", "amqp://h#f"}) {
        EXPECT_FALSE(parse_uri(text)) << text;
    }
}

TEST(field_case_c99, a_raw_special_character_in_a_password_is_an_error_that_says_what_to_do)
{
    for (const auto* text :
         {"amqp://u:hunter2@x@h", "amqp://u:hunter2#x@h", "amqp://u:hunter2/x@h",
          "amqp://u:hunter2?x@h", "amqp://u:hunter2:x@h", "amqp://u:12/hunter2@h",
          "amqp://u:hunter2[x@h", "amqp://u:hunter2 x@h", "amqp://u:hunter2%@h"}) {
        const auto parsed = parse_uri(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_NE(parsed.error.find("percent-encoded"), std::string::npos) << parsed.error;
        EXPECT_EQ(parsed.error.find("hunter2"), std::string::npos) << parsed.error;
    }
    const auto parsed = parse_uri("amqp://u:p%40s%23s%2F%3F%3A@h");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed.address.password, "p@s#s/?:");
    EXPECT_EQ(parsed.address.hosts[0].host, "h");
}

TEST(field_case_c100, an_absent_vhost_differs_from_an_empty_one)
{
    EXPECT_EQ(parse_uri("amqp://h").address.vhost, std::nullopt);
    EXPECT_EQ(parse_uri("amqp://h/").address.vhost, "");
    EXPECT_EQ(parse_uri("amqp://h/%2F").address.vhost, "/");
    EXPECT_EQ(parse_uri("amqp://h/%2Fv").address.vhost, "/v");
    EXPECT_EQ(parse_uri("amqp://h/v?heartbeat=1").address.vhost, "v");
}

TEST(field_case_c101, ipv6_stands_in_brackets)
{
    EXPECT_EQ(parse_uri("amqp://[::1]:5673/v").address.hosts[0], (host_port{"::1", 5673}));
    EXPECT_EQ(parse_uri("amqp://[fe80::1%25eth0]").address.hosts[0].host, "fe80::1%eth0");
    const auto bare = parse_uri("amqp://::1");
    ASSERT_FALSE(bare);
    EXPECT_NE(bare.error.find("brackets"), std::string::npos);
}

TEST(uri, what_it_describes_holds_no_credentials_and_parses_to_the_same_place)
{
    for (const auto* text : {"amqp://user:hunter2@a:1,[::1]/v%2Fw", "amqps://user:hunter2@h/",
                             "amqp+unix://user:hunter2@/run/x?vhost=v"}) {
        const auto first = parse_uri(text);
        ASSERT_TRUE(first) << first.error;
        const auto shown = first.address.describe();
        EXPECT_EQ(shown.find("hunter2"), std::string::npos);
        EXPECT_EQ(shown.find("user"), std::string::npos);
        const auto second = parse_uri(shown);
        ASSERT_TRUE(second) << shown << ": " << second.error;
        EXPECT_EQ(second.address.hosts, first.address.hosts);
        EXPECT_EQ(second.address.vhost, first.address.vhost);
        EXPECT_EQ(second.address.unix_path, first.address.unix_path);
    }
}

TEST(uri, encodes_any_bytes_so_that_they_come_back)
{
    std::string every;
    for (int c = 1; c < 256; ++c) {
        every += static_cast<char>(c);
    }
    const auto parsed = parse_uri("amqp://" + uri_encode(every) + ":" + uri_encode(every) + "@h/" +
                                  uri_encode(every));
    ASSERT_TRUE(parsed) << parsed.error;
    EXPECT_EQ(parsed.address.user, every);
    EXPECT_EQ(parsed.address.password, every);
    EXPECT_EQ(parsed.address.vhost, every);
}

} // namespace
} // namespace acquit::amqp
