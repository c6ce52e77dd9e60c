#include "../amqp/wire_support.h"

#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/table.h>
#include <acquit/settle/attempt.h>
#include <acquit/settle/copy_message.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;
using amqp::wire::testing::bytes;
using amqp::wire::testing::hex;
using ::testing::HasSubstr;
namespace wire = amqp::wire;

using buffer = std::vector<std::byte>;

constexpr std::uint32_t roomy = 131'072;

/// A message as if received. Owns what its views show.
class original : public message {
public:
    original(buffer properties, std::string body = "body", std::string exchange = "shop",
             std::string key = "order.new")
        : own_properties_(std::move(properties)), own_body_(std::move(body)),
          own_exchange_(std::move(exchange)), own_key_(std::move(key))
    {
        properties_ = own_properties_;
        body_ = std::as_bytes(std::span(own_body_));
        exchange_ = own_exchange_;
        routing_key_ = own_key_;
    }

private:
    buffer own_properties_;
    std::string own_body_;
    std::string own_exchange_;
    std::string own_key_;
};

/// Flags and values, as a header frame carries them.
buffer encoded(const wire::properties& p)
{
    buffer frame(wire::header_frame_size(p));
    const auto size = wire::encode_header_frame(frame, 1, 0, p);
    return {frame.begin() + 19, frame.begin() + static_cast<std::ptrdiff_t>(size) - 1};
}

original with_headers(const wire::table& headers)
{
    wire::properties p;
    p.headers = headers.view();
    return {encoded(p)};
}

retry_plan to_queue(std::uint32_t copies = 1)
{
    retry_plan plan;
    plan.what = retry_plan::step::copy;
    plan.how = disposition::reject;
    plan.routing_key = "q";
    plan.copies = copies;
    return plan;
}

copy_message copied(const message& from, const retry_plan& plan = to_queue(),
                    std::uint32_t frame_size_max = roomy)
{
    return copy_of(from, plan, default_counter_header, frame_size_max);
}

wire::properties properties_of(const copy_message& copy)
{
    wire::properties p;
    EXPECT_TRUE(wire::properties_view(copy.view().properties).decode(p));
    return p;
}

wire::table headers_of(const copy_message& copy)
{
    return wire::table(properties_of(copy).headers.value_or(wire::table_view{}));
}

std::string shown(const copy_message& copy)
{
    return wire::describe(headers_of(copy).view());
}

std::string text(std::span<const std::byte> from)
{
    return {reinterpret_cast<const char*>(from.data()), from.size()};
}

/// The fields that the first copy of a message gets, behind its own.
const char* const added_by_us = "18'x-ruststream-retry-count' 53 00000001'1'"
                                "11'x-acquit-exchange' 53 00000004'shop'"
                                "14'x-acquit-routing-key' 53 00000009'order.new'";

buffer sized(const buffer& fields)
{
    buffer out;
    for (int shift = 24; shift >= 0; shift -= 8)
        out.push_back(static_cast<std::byte>((fields.size() >> shift) & 0xFF));
    out.insert(out.end(), fields.begin(), fields.end());
    return out;
}

buffer join(std::initializer_list<buffer> parts)
{
    buffer out;
    for (const auto& part : parts)
        out.insert(out.end(), part.begin(), part.end());
    return out;
}

// -- Byte for byte

/// Every letter that may come, those of the specification included, and nested ones.
const char* const every_field_type = "01't' 74 01"
                                     "01'b' 62 FF"
                                     "01'B' 42 FF"
                                     "01's' 73 8000"
                                     "01'U' 55 8000"
                                     "01'u' 75 FFFF"
                                     "01'I' 49 80000000"
                                     "01'i' 69 FFFFFFFF"
                                     "01'l' 6C 8000000000000000"
                                     "01'L' 4C 7FFFFFFFFFFFFFFF"
                                     "01'f' 66 7FC00001"         // a NaN with a payload
                                     "01'd' 64 7FF8000000000001" // likewise
                                     "01'D' 44 02 80000000"
                                     "01'S' 53 00000003 00FF0A"
                                     "01'x' 78 00000002 0000"
                                     "01'T' 54 00000000FFFFFFFF"
                                     "01'V' 56"
                                     "01'A' 41 00000008 56 7400 49 00000001"
                                     "01'F' 46 0000000D 02'in' 41 00000005 46 00000000"
                                     "00 74 00"; // a name of no bytes

TEST(copy_s74, headers_of_every_type_arrive_unchanged)
{
    const buffer theirs = bytes(every_field_type);
    const original from(join({bytes("2000"), sized(theirs)}));
    const auto copy = copied(from);
    EXPECT_EQ(hex(copy.view().properties),
              hex(join({bytes("2000"), sized(join({theirs, bytes(added_by_us)}))})));
}

TEST(copy_s75, the_body_arrives_unchanged)
{
    std::string every_byte;
    for (int i = 0; i < 1'000'000; ++i)
        every_byte.push_back(static_cast<char>(i * 31 % 257));
    for (const auto& body :
         {std::string{}, std::string(1, '\0'), std::string("\xEF\xBB\xBF\r\n\0x", 7), every_byte}) {
        const original from(bytes("0000"), body);
        EXPECT_TRUE(text(copied(from).view().body) == body) << body.size() << " bytes";
    }
}

struct property {
    unsigned flag;
    buffer value;
};

/// The fourteen, in their order on the wire.
std::vector<property> fourteen()
{
    const std::vector<buffer> values{bytes("0A'text/plain'"),
                                     bytes("04'gzip'"),
                                     sized(bytes("04'mine' 74 01")),
                                     bytes("02"),
                                     bytes("09"),
                                     bytes("02 00FF"),
                                     bytes("08'reply.to'"),
                                     bytes("05'60000'"),
                                     bytes("02'id'"),
                                     bytes("FFFFFFFFFFFFFFFF"),
                                     bytes("00"), // empty, and there
                                     bytes("05'guest'"),
                                     bytes("03'app'"),
                                     bytes("07'cluster'")};
    std::vector<property> all;
    for (unsigned i = 0; i < values.size(); ++i)
        all.push_back({0x8000U >> i, values[i]});
    return all;
}

constexpr unsigned headers_flag = 0x2000;
constexpr unsigned expiration_flag = 0x0100;
constexpr unsigned user_id_flag = 0x0010;

buffer put_together(const std::vector<property>& all, unsigned flags)
{
    buffer out{static_cast<std::byte>(flags >> 8), static_cast<std::byte>(flags & 0xFF)};
    for (const auto& one : all) {
        if ((flags & one.flag) != 0)
            out.insert(out.end(), one.value.begin(), one.value.end());
    }
    return out;
}

// user-id must be the publisher's own, expiration would end the copy's life in its new queue.
TEST(copy, every_set_of_properties_arrives_but_for_what_is_set_anew)
{
    const auto before = fourteen();
    auto after = before;
    after[7].value = bytes("04'1500'");
    for (const bool waits : {false, true}) {
        auto plan = to_queue();
        if (waits)
            plan.expiration_ms = 1500;
        for (unsigned set = 0; set < 1U << 14; ++set) {
            const unsigned flags = set << 2;
            const bool headers = (flags & headers_flag) != 0;
            after[2].value =
                sized(join({headers ? bytes("04'mine' 74 01") : buffer{}, bytes(added_by_us)}));
            const original from(put_together(before, flags));
            const auto copy = copied(from, plan);
            const unsigned expected = ((flags | headers_flag) & ~user_id_flag & ~expiration_flag) |
                                      (waits ? expiration_flag : 0U);
            const auto bytes_expected = put_together(after, expected);
            ASSERT_TRUE(std::ranges::equal(copy.view().properties, bytes_expected))
                << "flags " << std::hex << flags << ": " << hex(copy.view().properties)
                << " is not " << hex(bytes_expected);
        }
    }
}

// -- What is left out, and what is added

TEST(copy, headers_that_only_the_broker_may_write_are_left_out)
{
    wire::table headers;
    for (const auto* name : {"CC", "BCC", "x-death", "x-first-death-exchange",
                             "x-first-death-queue", "x-first-death-reason", "x-last-death-exchange",
                             "x-last-death-queue", "x-last-death-reason", "x-delivery-count",
                             "x-acquired-count", "x-delay", "x-acquit-wait-ms"})
        headers.set(name, 1);
    headers.set("mine", 2);
    const auto copy = copied(with_headers(headers));
    EXPECT_EQ(shown(copy), "{mine=I:2, x-ruststream-retry-count=S:\"1\", "
                           "x-acquit-exchange=S:\"shop\", x-acquit-routing-key=S:\"order.new\"}");
}

TEST(copy, headers_that_only_look_like_those_are_the_users)
{
    wire::table headers;
    for (const auto* name : {"cc", "Bcc", "CCC", "X-Death", "x-deaths", "x-delayed", "x-delay-type",
                             "x-first-death", "x-stream-offset", "x-match", "traceparent", "x-"})
        headers.set(name, 1);
    const auto copy = headers_of(copied(with_headers(headers)));
    for (const auto& field : headers.view())
        EXPECT_TRUE(copy.contains(field.name)) << field.name;
}

TEST(copy_R1, the_count_is_decimal_text_and_stands_where_it_stood)
{
    wire::table headers;
    headers.set("a", 1).set(default_counter_header, "1").set("b", 2);
    const auto second = copied(with_headers(headers), to_queue(2));
    EXPECT_EQ(shown(second), "{a=I:1, x-ruststream-retry-count=S:\"2\", b=I:2}");
    EXPECT_EQ(copies_counted(headers_of(second).view()), 2U);
    EXPECT_EQ(copies_counted(headers_of(copied(with_headers(headers), to_queue(4'294'967'295)))),
              4'294'967'295U);
}

TEST(copy_R1, another_name_for_the_count_leaves_the_default_one_to_the_user)
{
    wire::table headers;
    headers.set(default_counter_header, "7");
    const auto copy = copy_of(with_headers(headers), to_queue(), "tries", roomy);
    const auto table = headers_of(copy);
    EXPECT_EQ(copies_counted(table.view(), "tries"), 1U);
    EXPECT_EQ(copies_counted(table.view()), 7U);
}

TEST(copy, where_the_original_was_published_is_recorded_once)
{
    const auto first = copied(original(bytes("0000")));
    const original second_from({first.view().properties.begin(), first.view().properties.end()},
                               "body", "", "q");
    const auto second = copied(second_from, to_queue(2));
    EXPECT_EQ(shown(second), "{x-ruststream-retry-count=S:\"2\", x-acquit-exchange=S:\"shop\", "
                             "x-acquit-routing-key=S:\"order.new\"}");
}

TEST(copy, a_record_that_did_not_fit_is_not_made_up_later)
{
    // Of the first copy only the count fitted.
    wire::table headers;
    headers.set(default_counter_header, "1");
    wire::properties p;
    p.headers = headers.view();
    const auto second = copied(original(encoded(p), "body", "", "q"), to_queue(2));
    EXPECT_EQ(shown(second), "{x-ruststream-retry-count=S:\"2\"}");
}

TEST(copy_D5, what_is_left_to_wait_travels_with_it_in_whole_milliseconds)
{
    auto plan = to_queue();
    plan.left = 1500us;
    const auto hopping = copied(original(bytes("0000")), plan);
    EXPECT_EQ(left_to_wait(headers_of(hopping).view()), 2ms) << "never sooner than asked";
    const original arrived({hopping.view().properties.begin(), hopping.view().properties.end()});
    EXPECT_EQ(left_to_wait(headers_of(copied(arrived)).view()), 0ns) << "the last hop has no rest";
}

TEST(copy_D5, a_rest_that_nobody_can_have_written_is_none)
{
    const auto rest = [](auto value) {
        wire::table headers;
        headers.set(left_to_wait_header, value);
        return left_to_wait(headers.view());
    };
    EXPECT_EQ(left_to_wait({}), 0ns);
    EXPECT_EQ(rest("1"), 1ms);
    EXPECT_EQ(rest("315360000000"), std::chrono::milliseconds(315'360'000'000)) << "ten years";
    for (const char* text : {"", "0", "-1", "+1", " 1", "1 ", "1.5", "0x1", "1e3", "315360000001",
                             "99999999999999999999", "one"})
        EXPECT_EQ(rest(text), 0ns) << '"' << text << '"';
    EXPECT_EQ(rest(5), 0ns) << "text it was";
    EXPECT_EQ(rest(wire::void_t{}), 0ns);
}

TEST(copy_D6, the_delay_of_the_plugin_is_an_integer_header)
{
    wire::table headers;
    headers.set("x-delay", std::int64_t{-300}); // as RabbitMQ 4.0 delivers a delayed message
    auto plan = to_queue();
    plan.x_delay_ms = 1500;
    plan.mandatory = false;
    plan.exchange = "q.delay";
    const auto copy = copied(with_headers(headers), plan);
    EXPECT_EQ(headers_of(copy).view().find("x-delay")->as_int64(), 1500);
    EXPECT_FALSE(copy.view().mandatory);
    EXPECT_EQ(copy.exchange(), "q.delay");
    EXPECT_EQ(copy.routing_key(), "q");
}

// -- frame_max

std::size_t frame_size(const copy_message& copy)
{
    return wire::header_frame_size(wire::properties_view(copy.view().properties));
}

TEST(copy, headers_beyond_frame_max_lose_our_own_first_and_never_the_users)
{
    wire::table headers;
    headers.set("mine", std::string(5000, 'x'));
    const auto from = with_headers(headers);
    const std::size_t whole = frame_size(copied(from));
    const std::size_t exchange = 1 + original_exchange_header.size() + 1 + 4 + 4;
    const std::size_t key = 1 + original_routing_key_header.size() + 1 + 4 + 9;
    const std::size_t count = 1 + default_counter_header.size() + 1 + 4 + 1;
    for (std::size_t room = whole + 2; room >= whole - exchange - key - count - 2; --room) {
        const auto copy = copied(from, to_queue(), static_cast<std::uint32_t>(room));
        const auto table = headers_of(copy);
        SCOPED_TRACE(room);
        ASSERT_EQ(table.view().find("mine")->as_string()->size(), 5000U);
        ASSERT_EQ(table.contains(original_exchange_header), room >= whole);
        ASSERT_EQ(table.contains(original_routing_key_header), room >= whole - exchange);
        ASSERT_EQ(table.contains(default_counter_header), room >= whole - exchange - key);
        if (room >= whole - exchange - key - count) {
            ASSERT_LE(frame_size(copy), room);
        }
    }
}

TEST(copy, what_a_copy_needs_to_find_its_way_is_not_trimmed)
{
    wire::table headers;
    headers.set("mine", std::string(5000, 'x'));
    auto plan = to_queue();
    plan.left = 5s;
    plan.x_delay_ms = 7;
    plan.expiration_ms = 9;
    const auto copy = copied(with_headers(headers), plan, 4096);
    EXPECT_EQ(left_to_wait(headers_of(copy).view()), 5s);
    EXPECT_TRUE(headers_of(copy).contains("x-delay"));
    EXPECT_EQ(properties_of(copy).expiration, "9");
}

// -- Hostile headers

TEST(copy_c47, fields_behind_one_that_cannot_be_read_are_passed_on_as_they_are)
{
    const buffer readable = bytes("01'a' 53 00000001'1' 07'x-death' 74 01");
    const buffer strange = bytes("01'z' 7A 0102 07'x-death' 74 01"); // no such letter
    const original from(join({bytes("2000"), sized(join({readable, strange}))}));
    const auto copy = copied(from);
    EXPECT_EQ(hex(copy.view().properties),
              hex(join({bytes("2000"), sized(join({bytes("01'a' 53 00000001'1'"),
                                                   bytes(added_by_us), strange}))})));
    EXPECT_EQ(copies_counted(headers_of(copy).view()), 1U);
}

TEST(copy, the_same_name_twice_is_left_out_twice)
{
    const original from(join({bytes("2000"), sized(bytes("07'x-death' 74 01 01'a' 74 01"
                                                         "07'x-death' 74 00 01'a' 74 00"))}));
    EXPECT_THAT(shown(copied(from)), HasSubstr("{a=t:true, a=t:false, x-ruststream"));
}

TEST(copy, properties_that_cannot_be_decoded_make_a_copy_all_the_same)
{
    for (const auto* raw : {"", "00", "0000", "8000", "8000 05'ab'", "2000 000000FF 01", "FFFC",
                            "0001", "0001 0001 0000", "2001 0000 00000000"}) {
        const auto copy = copied(original(bytes(raw)));
        EXPECT_EQ(copies_counted(headers_of(copy).view()), 1U) << raw;
        EXPECT_EQ(text(copy.view().body), "body") << raw;
    }
}

TEST(copy, any_bytes_as_headers_keep_what_is_not_ours)
{
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const buffer base = join({bytes(every_field_type), bytes("07'x-death' 41 00000000"),
                              bytes(added_by_us), bytes("02'CC' 53 00000000")});
    const auto below = [&](std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    for (int round = 0; round < 10'000 && !HasFailure(); ++round) {
        buffer fields = base;
        for (auto changes = below(4); changes-- != 0;)
            fields[below(fields.size())] = static_cast<std::byte>(below(256));
        if (below(3) == 0)
            fields.resize(below(fields.size()));
        const original from(join({bytes("2000"), sized(fields)}));
        const auto copy = copied(from, to_queue(5));
        auto table = headers_of(copy);
        ASSERT_EQ(copies_counted(table.view()), 5U) << hex(fields);
        // Taken away on both sides, the rest must be equal, byte for byte.
        wire::table theirs{wire::table_view(fields)};
        for (auto* side : {&theirs, &table})
            for (const auto name :
                 {std::string_view("x-death"), std::string_view("CC"), default_counter_header,
                  original_exchange_header, original_routing_key_header, left_to_wait_header})
                side->remove(name);
        ASSERT_EQ(table, theirs) << hex(table.raw()) << " is not " << hex(theirs.raw());
    }
}

// -- The storage

TEST(copy_message, shows_what_it_was_made_of_also_after_it_moved)
{
    const std::string exchange(255, 'e');
    const std::string key(255, 'k');
    const auto properties = bytes("8000 01'x'");
    copy_message first(exchange, key, true, properties, amqp::bytes_of("the body"));
    EXPECT_EQ(first.size(), 255U + 255 + 4 + 8);
    const copy_message moved = std::move(first);
    EXPECT_EQ(moved.exchange(), exchange);
    EXPECT_EQ(moved.routing_key(), key);
    EXPECT_TRUE(moved.view().mandatory);
    EXPECT_EQ(hex(moved.view().properties), hex(properties));
    EXPECT_EQ(text(moved.view().body), "the body");
}

TEST(copy_message, is_empty_until_made_and_when_cleared)
{
    copy_message copy;
    EXPECT_TRUE(copy.empty());
    copy = copy_message("", "", false, {}, {});
    EXPECT_FALSE(copy.empty()) << "a message of nothing is a message";
    EXPECT_EQ(copy.size(), 0U);
    copy.clear();
    EXPECT_TRUE(copy.empty());
}

} // namespace
} // namespace acquit::settle
