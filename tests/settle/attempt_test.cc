#include <acquit/amqp/wire/table.h>
#include <acquit/settle/attempt.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace acquit::settle {
namespace {

namespace wire = amqp::wire;

std::uint32_t attempt(const std::function<void(wire::table&)>& fill, bool redelivered = true)
{
    wire::table headers;
    fill(headers);
    return attempt_of(headers.view(), redelivered);
}

TEST(attempt_R1, counts_copies_by_decimal_text_in_a_long_string)
{
    struct row {
        std::string text;
        std::uint32_t attempt;
    };
    for (const row& each :
         {row{"0", 1}, row{"1", 2}, row{"41", 42}, row{"007", 8},
          // malformed counts as absent
          row{"", 1}, row{" 1", 1}, row{"1 ", 1}, row{"+1", 1}, row{"-1", 1}, row{"1.0", 1},
          row{"0x5", 1}, row{"five", 1}, row{std::string("1\0", 2), 1},
          // more than 32 bits: never wraps round to a first attempt
          row{"4294967294", 4294967295u}, row{"4294967295", 4294967295u},
          row{"99999999999999999999999", 4294967295u}})
        for (const bool redelivered : {false, true})
            EXPECT_EQ(attempt([&](wire::table& t) { t.set(default_counter_header, each.text); },
                              redelivered),
                      each.attempt)
                << '"' << each.text << '"';
}

TEST(attempt_R1, no_headers_at_all_is_the_first_attempt)
{
    EXPECT_EQ(attempt_of(wire::table_view{}, false), 1u);
    EXPECT_EQ(attempt_of(wire::table_view{}, true), 1u);
}

TEST(attempt_R1, another_type_than_a_long_string_is_malformed)
{
    EXPECT_EQ(attempt([](wire::table& t) { t.set(default_counter_header, 7); }), 1u);
    EXPECT_EQ(attempt([](wire::table& t) { t.set(default_counter_header, true); }), 1u);
    const std::byte seven{'7'};
    EXPECT_EQ(
        attempt([&](wire::table& t) { t.set(default_counter_header, wire::byte_view{&seven, 1}); }),
        1u);
}

TEST(attempt_R1, the_header_has_the_name_that_was_configured)
{
    wire::table headers;
    headers.set("x-mine", "3").set(default_counter_header, "9");
    EXPECT_EQ(attempt_of(headers.view(), true, "x-mine"), 4u);
}

TEST(attempt_R7, the_servers_count_may_have_any_integer_type)
{
    const auto server = [](auto value) {
        return attempt([&](wire::table& t) { t.set(server_counter_header, value); });
    };
    EXPECT_EQ(server(std::int8_t{2}), 3u);
    EXPECT_EQ(server(std::uint8_t{2}), 3u);
    EXPECT_EQ(server(std::int16_t{2}), 3u);
    EXPECT_EQ(server(std::uint16_t{2}), 3u);
    EXPECT_EQ(server(std::int32_t{2}), 3u);
    EXPECT_EQ(server(std::uint32_t{2}), 3u);
    EXPECT_EQ(server(std::int64_t{2}), 3u);
    EXPECT_EQ(server(std::int64_t{0}), 1u);
    EXPECT_EQ(server(std::int64_t{-1}), 1u);
    EXPECT_EQ(server(std::int64_t{1} << 40), 4294967295u);
    EXPECT_EQ(server(std::string_view{"2"}), 1u);
    EXPECT_EQ(server(true), 1u);
}

TEST(attempt_R7, the_larger_count_wins)
{
    const auto both = [](std::string_view copies, std::int64_t returns) {
        return attempt([&](wire::table& t) {
            t.set(default_counter_header, copies).set(server_counter_header, returns);
        });
    };
    EXPECT_EQ(both("2", 5), 6u);
    EXPECT_EQ(both("5", 2), 6u);
    EXPECT_EQ(both("nonsense", 2), 3u);
}

TEST(attempt_R7, a_count_on_a_first_delivery_is_the_publishers_and_does_not_count)
{
    const auto fill = [](wire::table& t) { t.set(server_counter_header, std::int64_t{20}); };
    EXPECT_EQ(attempt(fill, false), 1u);
    EXPECT_EQ(attempt(fill, true), 21u);
}

} // namespace
} // namespace acquit::settle
