#include "wire_support.h"

namespace acquit::amqp::wire {
namespace {

using namespace testing;

properties decoded(std::span<const std::byte> raw)
{
    properties out;
    EXPECT_TRUE(properties_view(raw).decode(out).ok());
    return out;
}

TEST(properties, each_has_its_flag_and_its_place)
{
    auto t = table().set("k", true);
    auto check = [](const properties& props, std::string_view notation) {
        auto expected = raw_frame(frame_header, 1,
                                  join({bytes("003C 0000 0000000000000009"), bytes(notation)}));
        EXPECT_EQ(hex(header_frame_of(1, 9, props)), hex(expected));
        EXPECT_EQ(encoded_size(props), bytes(notation).size());
        EXPECT_EQ(header_frame_size(props), expected.size());
        // Decoded and encoded again it is the same.
        auto raw = bytes(notation);
        EXPECT_EQ(hex(header_frame_of(1, 9, decoded(raw))), hex(expected));
    };
    check({}, "0000");
    check({.content_type = "a"}, "8000 01'a'");
    check({.content_encoding = "a"}, "4000 01'a'");
    check({.headers = t}, "2000 00000004 01'k' 't' 01");
    check({.delivery_mode = std::uint8_t{2}}, "1000 02");
    check({.priority = std::uint8_t{9}}, "0800 09");
    check({.correlation_id = "a"}, "0400 01'a'");
    check({.reply_to = "a"}, "0200 01'a'");
    check({.expiration = "60000"}, "0100 05'60000'");
    check({.message_id = "a"}, "0080 01'a'");
    check({.timestamp = timestamp{1700000000}}, "0040 000000006553F100");
    check({.type = "a"}, "0020 01'a'");
    check({.user_id = "a"}, "0010 01'a'");
    check({.app_id = "a"}, "0008 01'a'");
    check({.cluster_id = "a"}, "0004 01'a'");
    check({.content_type = "", .priority = std::uint8_t{0}}, "8800 00 00");
}

TEST(properties, absent_is_not_empty)
{
    auto props = decoded(bytes("8000 00"));
    EXPECT_EQ(props.content_type, "");
    EXPECT_EQ(props.content_encoding, std::nullopt);
    EXPECT_FALSE(props.headers.has_value());
}

TEST(properties, are_read_behind_further_flag_words)
{
    auto raw = bytes("8001 0001 8000 01'a'");
    EXPECT_EQ(decoded(raw).content_type, "a");
    auto headers = bytes("E003 0000 01'a' 01'b' 00000004 01'k' 't' 01");
    ASSERT_TRUE(properties_view(headers).headers().has_value());
    EXPECT_EQ(properties_view(headers).headers()->find("k")->as_bool(), true);
    // Nothing but flag words that announce another one.
    properties out;
    EXPECT_FALSE(properties_view(bytes("8001 0001 0001")).decode(out).ok());
}

TEST(properties, headers_are_found_without_decoding_the_rest)
{
    auto t = table().set("k", 5);
    properties props{
        .content_type = "text/plain", .content_encoding = "gzip", .headers = t, .app_id = "me"};
    auto frame = header_frame_of(1, 0, props);
    content_header header;
    ASSERT_TRUE(decode(std::span(frame).subspan(7, frame.size() - 8), header).ok());
    EXPECT_EQ(header.props.headers()->find("k")->as_int64(), 5);
    EXPECT_FALSE(properties_view(bytes("8000 01'a'")).headers().has_value());
    EXPECT_FALSE(properties_view(bytes("2000 00000005 00")).headers().has_value()) << "cut";
    EXPECT_FALSE(properties_view().headers().has_value());
}

TEST(properties, cut_anywhere_are_a_fault_of_the_content_only)
{
    auto raw = bytes("FFFC 01'a' 01'b' 00000004 01'k''t'01 02 09 01'c' 01'd' 01'e' 01'f' "
                     "0000000000000001 01'g' 01'h' "
                     "01'i' 01'j'");
    EXPECT_EQ(decoded(raw).cluster_id, "j");
    for (std::size_t size = 1; size < raw.size(); ++size) {
        buffer part(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(size));
        properties out;
        EXPECT_EQ(properties_view(part).decode(out),
                  failure(fault::truncated, fault_scope::content))
            << size;
        EXPECT_FALSE(out.cluster_id.has_value());
        EXPECT_EQ(out.content_type.has_value(), size >= 4) << "what came before the fault is kept";
    }
}

TEST(properties, come_back_from_the_wire_in_every_combination)
{
    seeded random;
    std::vector<std::string> strings;
    for (int i = 0; i < 10; ++i)
        strings.push_back(random.string(255));
    auto t = table().set("k", static_cast<std::int64_t>(random.bits()));
    for (unsigned flags = 0; flags < 1u << 14; ++flags) {
        auto has = [&](unsigned bit) { return (flags >> bit & 1) != 0; };
        auto text = [&](unsigned bit, std::size_t n) {
            return has(bit) ? std::optional<std::string_view>(strings[n]) : std::nullopt;
        };
        properties props{.content_type = text(0, 0), .content_encoding = text(1, 1)};
        if (has(2))
            props.headers = t;
        if (has(3))
            props.delivery_mode = std::uint8_t{2};
        if (has(4))
            props.priority = std::uint8_t{255};
        props.correlation_id = text(5, 2);
        props.reply_to = text(6, 3);
        props.expiration = text(7, 4);
        props.message_id = text(8, 5);
        if (has(9))
            props.timestamp = timestamp{flags};
        props.type = text(10, 6);
        props.user_id = text(11, 7);
        props.app_id = text(12, 8);
        props.cluster_id = text(13, 9);

        auto frame = header_frame_of(2, flags, props);
        ASSERT_EQ(frame.size(), header_frame_size(props));
        content_header header;
        ASSERT_TRUE(decode(std::span(frame).subspan(7, frame.size() - 8), header).ok());
        ASSERT_EQ(header.body_size, flags);
        auto back = decoded(header.props.raw());
        ASSERT_TRUE(back.content_type == props.content_type &&
                    back.content_encoding == props.content_encoding &&
                    back.delivery_mode == props.delivery_mode && back.priority == props.priority &&
                    back.correlation_id == props.correlation_id &&
                    back.reply_to == props.reply_to && back.expiration == props.expiration &&
                    back.message_id == props.message_id && back.timestamp == props.timestamp &&
                    back.type == props.type && back.user_id == props.user_id &&
                    back.app_id == props.app_id && back.cluster_id == props.cluster_id)
            << flags;
        ASSERT_EQ(back.headers.has_value(), has(2));
        if (has(2)) {
            ASSERT_TRUE(std::ranges::equal(back.headers->raw(), t.raw()));
        }
    }
}

TEST(content_header, is_passed_on_byte_for_byte)
{
    auto raw = bytes("8001 0000 01'a' DEAD"); // a second flag word, and bytes nobody knows
    buffer out(header_frame_size(properties_view(raw)));
    ASSERT_EQ(encode_header_frame(out, 3, 4, properties_view(raw)), out.size());
    EXPECT_EQ(hex(out),
              hex(raw_frame(frame_header, 3, join({bytes("003C 0000 0000000000000004"), raw}))));
    // No properties at all stand for an empty flag word.
    buffer empty(header_frame_size(properties_view()));
    ASSERT_EQ(encode_header_frame(empty, 3, 0, properties_view()), empty.size());
    EXPECT_EQ(hex(empty),
              hex(raw_frame(frame_header, 3, bytes("003C 0000 0000000000000000 0000"))));
}

TEST(content_header, shorter_than_its_fixed_part_is_a_connection_fault)
{
    auto payload = bytes("003C 0000 0000000000000004 0000");
    for (std::size_t size = 0; size < payload.size(); ++size) {
        buffer part(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size));
        content_header header;
        EXPECT_EQ(decode(part, header), failure(fault::truncated)) << size;
    }
    content_header header;
    EXPECT_TRUE(decode(payload, header).ok());
    EXPECT_EQ(header.class_id, class_basic);
    EXPECT_EQ(header.body_size, 4u);
}

TEST(content_header, does_not_encode_what_does_not_fit)
{
    properties props{.content_type = "text/plain"};
    for (std::size_t size = 0; size < header_frame_size(props); ++size) {
        std::vector<std::byte> exact(size);
        EXPECT_EQ(encode_header_frame(exact, 1, 0, props), 0u);
    }
    std::string too_long(256, 'x');
    buffer out(1024);
    EXPECT_EQ(encode_header_frame(out, 1, 0, properties{.message_id = too_long}), 0u);
}

} // namespace
} // namespace acquit::amqp::wire
