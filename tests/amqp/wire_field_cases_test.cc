#include "wire_support.h"

// What went wrong in other AMQP clients, each with the input that did it.

namespace acquit::amqp::wire {
namespace {

using namespace testing;

fault parsed(std::span<const std::byte> input, std::uint32_t frame_max = 131072)
{
    frame_view frame;
    return parse_frame(input, frame_max, frame).error.what;
}

TEST(field_case_c28, a_frame_smaller_than_its_type_needs_is_refused_at_its_head)
{
    EXPECT_EQ(parsed(bytes("02 0001 00000003 003C00 CE")), fault::frame_too_small);
    for (std::uint8_t size = 0; size < 4; ++size) {
        buffer payload(size);
        auto frame = raw_frame(frame_method, 0, payload);
        EXPECT_EQ(parsed(frame), fault::frame_too_small) << int{size};
        EXPECT_EQ(parsed(std::span(frame).first(frame_head_size)), fault::frame_too_small)
            << int{size};
    }
}

TEST(field_case_c29, a_frame_length_near_2_to_the_32_neither_wraps_nor_is_waited_for)
{
    for (auto type : {"01", "02", "03", "08"}) {
        for (auto length : {"FFFFFFFF", "FFFFFFF8", "FFFFFFF7", "80000000"})
            EXPECT_EQ(parsed(bytes(std::string(type) + "0001" + length)), fault::frame_too_large);
    }
    // Where even that was agreed on, the whole frame is counted in 64 bits.
    frame_view frame;
    auto status = parse_frame(bytes("03 0001 FFFFFFFF 00 CE"), 0xFFFFFFFF, frame);
    ASSERT_TRUE(status.need_more());
    if constexpr (sizeof(std::size_t) == 8) {
        EXPECT_EQ(status.wanted, 0x1'0000'0007u);
    }
    delivery_frames out;
    auto deliver = frame_of(1, basic::deliver{});
    auto header = header_frame_of(1, 0xFFFFFFFF, {});
    EXPECT_FALSE(
        parse_delivery(join({deliver, header, bytes("03 0001 FFFFFFFF 00 CE")}), 0xFFFFFFFF, out));
}

TEST(field_case_c31, a_string_length_near_2_to_the_32_is_compared_with_what_remains)
{
    auto input = bytes("FFFFFFFF 'abc'");
    reader in(input);
    EXPECT_EQ(in.longstr(), "");
    EXPECT_FALSE(in.ok());
    connection::secure secure;
    EXPECT_EQ(decode(input, secure), failure(fault::truncated));
    auto value = bytes("01'n' 'S' FFFFFFFF 'abc'");
    EXPECT_EQ(table_view(value).inspect(), fault::truncated);
    auto start = bytes("00 09 FFFFFFFB 01'k' 't' 01");
    connection::start method;
    EXPECT_EQ(decode(start, method), failure(fault::truncated));
}

TEST(field_case_c32, a_body_frame_beyond_frame_max_is_not_written)
{
    constexpr std::uint32_t frame_max = 8192;
    buffer out(2 * frame_max);
    buffer body(frame_max + 1);
    EXPECT_EQ(encode_body_frame(out, 1, body, frame_max), 0u);
    EXPECT_EQ(encode_body_frame(out, 1, std::span(body).first(frame_max - 7), frame_max), 0u);
    EXPECT_EQ(encode_body_frame(out, 1, std::span(body).first(frame_max - 8), frame_max),
              frame_max);
    EXPECT_EQ(encode_body_frame(std::span(out).first(100), 1, std::span(body).first(93), frame_max),
              0u);
}

TEST(field_case_c34, bodies_around_frame_max_are_read)
{
    constexpr std::uint32_t frame_max = 8192;
    for (std::size_t size : {frame_max - 9, frame_max - 8, frame_max - 7, frame_max}) {
        buffer payload(size, std::byte{0xCE});
        auto input = raw_frame(frame_body, 1, payload);
        frame_view frame;
        ASSERT_TRUE(parse_frame(input, frame_max, frame).complete()) << size;
        EXPECT_EQ(frame.payload.size(), size);
        delivery_frames out;
        auto whole = join({frame_of(1, basic::deliver{}), header_frame_of(1, size, {}), input});
        ASSERT_TRUE(parse_delivery(whole, frame_max, out));
        EXPECT_EQ(out.body.size(), size);
    }
    EXPECT_EQ(parsed(raw_frame(frame_body, 1, buffer(frame_max + 1)), frame_max),
              fault::frame_too_large);
    // A content of n times what one frame takes: n frames of exactly frame_max.
    buffer content(3 * body_payload_max(frame_max));
    buffer out(3 * frame_max);
    std::size_t written = 0;
    for (std::size_t at = 0; at < content.size(); at += body_payload_max(frame_max))
        written += encode_body_frame(std::span(out).subspan(written), 1,
                                     std::span(content).subspan(at, body_payload_max(frame_max)),
                                     frame_max);
    EXPECT_EQ(written, out.size());
}

TEST(field_case_c36, a_body_size_beyond_32_bits_is_kept)
{
    for (std::uint64_t size : {std::uint64_t{3} << 30, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
        auto frame = header_frame_of(1, size, {});
        content_header header;
        ASSERT_TRUE(decode(std::span(frame).subspan(7, frame.size() - 8), header).ok());
        EXPECT_EQ(header.body_size, size);
        delivery_frames out; // low 32 bits alone would match this body frame
        auto low = raw_frame(frame_body, 1, buffer(static_cast<std::size_t>(size & 0xFF)));
        EXPECT_FALSE(
            parse_delivery(join({frame_of(1, basic::deliver{}), frame, low}), 131072, out));
    }
}

TEST(field_case_c42, a_body_is_a_span_that_needs_no_terminator)
{
    auto body = bytes("'ab'00'cd'");
    auto input = join({frame_of(1, basic::deliver{}), header_frame_of(1, body.size(), {}),
                       raw_frame(frame_body, 1, body)});
    delivery_frames out;
    ASSERT_TRUE(parse_delivery(input, 8192, out));
    EXPECT_EQ(text(out.body), std::string_view("ab\0cd", 5));
    EXPECT_EQ(out.body.data() + out.body.size() + 1, input.data() + input.size())
        << "a view, not a copy";
}

TEST(field_case_c43, the_letter_s_is_an_int16)
{
    auto raw = bytes("01'x' 's' 0080 04'list' 'A' 00000006 's' 0001 's' FFFF 04'next' 't' 01");
    table_view view(raw);
    EXPECT_TRUE(view.valid());
    EXPECT_EQ(view.find("x")->as_int64(), 128);
    std::vector<std::int64_t> numbers;
    auto list = view.find("list")->as_array().value();
    for (auto value : list)
        numbers.push_back(value.as_int64().value());
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, -1}));
    EXPECT_EQ(view.find("next")->as_bool(), true);
}

TEST(field_case_c45, a_byte_array_is_read_as_bytes)
{
    auto raw = bytes("01'b' 'x' 00000004 00FF00CE 01'n' 'I' 00000001");
    table_view view(raw);
    EXPECT_TRUE(view.valid());
    EXPECT_EQ(view.find("b")->type(), field_type::bytes);
    EXPECT_EQ(hex(detail::as_bytes(*view.find("b")->as_string())), "00FF00CE");
    EXPECT_EQ(view.find("n")->as_int64(), 1);
}

TEST(field_case_c46, arrays_of_tables_are_encoded_as_servers_send_x_death)
{
    table death;
    death.set("count", std::int64_t{1})
        .set("reason", "expired")
        .set("time", timestamp{1700000000})
        .set("routing-keys", array().add("a").add("b"));
    table headers;
    headers.set("x-death", array().add(death));
    auto expected = bytes("07'x-death' 'A' 00000053 'F' 0000004E"
                          " 05'count' 'l' 0000000000000001"
                          " 06'reason' 'S' 00000007'expired'"
                          " 04'time' 'T' 000000006553F100"
                          " 0C'routing-keys' 'A' 0000000C 'S' 00000001'a' 'S' 00000001'b'");
    EXPECT_EQ(hex(headers.raw()), hex(expected));
    auto deaths = table_view(expected).find("x-death")->as_array();
    ASSERT_TRUE(deaths && deaths->valid());
    auto first = (*deaths->begin()).as_table();
    EXPECT_EQ(first->find("reason")->as_string(), "expired");
    EXPECT_EQ((*first->find("routing-keys")->as_array()->begin()).as_string(), "a");
}

TEST(field_case_c47, an_unknown_letter_spoils_its_table_and_nothing_else)
{
    auto raw = bytes("01'a' 'I' 00000005 01'z' 'Z' 01020304 01'b' 'I' 00000006");
    properties props{.content_type = "text/plain", .headers = table_view(raw), .message_id = "id"};
    auto frame = header_frame_of(1, 0, props);
    content_header header;
    ASSERT_TRUE(decode(std::span(frame).subspan(7, frame.size() - 8), header).ok());
    properties back;
    ASSERT_TRUE(header.props.decode(back).ok());
    EXPECT_EQ(back.message_id, "id") << "what follows the table is not lost";
    EXPECT_TRUE(back.headers->undecodable());
    EXPECT_EQ(back.headers->inspect(), fault::bad_field);
    EXPECT_EQ(back.headers->find("a")->as_int64(), 5) << "what stands before it can be read";
    EXPECT_FALSE(back.headers->find("b").has_value());
    EXPECT_EQ(hex(back.headers->raw()), hex(raw)) << "and the bytes are there";
    delivery_frames out;
    EXPECT_TRUE(parse_delivery(join({frame_of(1, basic::deliver{}), frame}), 8192, out));
}

TEST(field_case_c48, the_letters_of_the_specification_and_of_rabbitmq_are_all_read)
{
    struct letter {
        const char* value;
        std::int64_t number;
    };
    for (auto [value, number] :
         {letter{"'b' FF", -1}, letter{"'B' FF", 255}, letter{"'U' FFFF", -1},
          letter{"'u' FFFF", 65535}, letter{"'s' FFFF", -1}, letter{"'I' FFFFFFFF", -1},
          letter{"'i' FFFFFFFF", 4294967295}, letter{"'l' FFFFFFFFFFFFFFFF", -1},
          letter{"'L' FFFFFFFFFFFFFFFF", -1}}) {
        auto raw = join({bytes("01'n'"), bytes(value), bytes("01'e' 't' 01")});
        EXPECT_EQ(table_view(raw).find("n")->as_int64(), number) << value;
        EXPECT_EQ(table_view(raw).find("e")->as_bool(), true) << value;
    }
    for (auto value :
         {"'t' 01", "'f' 00000000", "'d' 0000000000000000", "'D' 0000000000", "'S' 00000000",
          "'A' 00000000", "'T' 0000000000000000", "'F' 00000000", "'V'", "'x' 00000000"}) {
        auto raw = join({bytes("01'n'"), bytes(value), bytes("01'e' 't' 01")});
        EXPECT_TRUE(table_view(raw).valid() && table_view(raw).find("e").has_value()) << value;
    }
    std::string known = "bBUusIilLtfdDSATFVx";
    for (int c = 0; c < 256; ++c) {
        buffer raw{std::byte{0}, static_cast<std::byte>(c)};
        raw.resize(2 + 16);
        bool is_read = table_view(raw).find("").has_value();
        EXPECT_EQ(is_read, known.find(static_cast<char>(c)) != std::string::npos) << c;
    }
}

TEST(field_case_c49, thirty_thousand_nested_arrays_are_a_fault_and_no_stack_overflow)
{
    constexpr std::uint32_t levels = 30000;
    buffer raw = bytes("01'a'");
    for (std::uint32_t level = 0; level < levels; ++level) {
        buffer head(5);
        head[0] = std::byte{'A'};
        detail::store_u32(head.data() + 1, (levels - level - 1) * 5);
        raw.insert(raw.end(), head.begin(), head.end());
    }
    auto frame = header_frame_of(1, 0, {.headers = table_view(raw)});
    frame_view view;
    ASSERT_TRUE(parse_frame(frame, 131072, view).complete());
    content_header header;
    ASSERT_TRUE(decode(view.payload, header).ok());
    auto headers = header.props.headers();
    ASSERT_TRUE(headers.has_value());
    EXPECT_EQ(headers->inspect(), fault::nesting_too_deep);
    EXPECT_FALSE(headers->undecodable()) << "the table itself has one field, and it is an array";
    EXPECT_LT(describe(*headers).size(), 1000u);
    std::uint32_t walked = 0;
    for (auto array = headers->find("a")->as_array(); array && !array->empty(); ++walked)
        array = (*array->begin()).as_array();
    EXPECT_EQ(walked, levels - 1);
}

TEST(field_case_c87, a_binary_body_is_written_and_read_whole)
{
    buffer body;
    for (int i = 0; i < 1024; ++i)
        body.push_back(static_cast<std::byte>(i % 7 == 0 ? 0 : i));
    buffer out(body.size() + frame_overhead);
    ASSERT_EQ(encode_body_frame(out, 1, body, 8192), out.size());
    frame_view frame;
    ASSERT_TRUE(parse_frame(out, 8192, frame).complete());
    EXPECT_TRUE(std::ranges::equal(frame.payload, body));
}

} // namespace
} // namespace acquit::amqp::wire
