#include "wire_support.h"

namespace acquit::amqp::wire {
namespace {

using namespace testing;

std::vector<buffer> one_frame_of_each_type()
{
    table headers;
    headers.set("x-death", array().add(table().set("count", std::int64_t{3}).set("queue", "q")));
    return {
        frame_of(
            3, basic::deliver{.consumer_tag = "ctag", .delivery_tag = 7, .routing_key = "orders"}),
        header_frame_of(
            3, 5,
            {.content_type = "text/plain", .headers = headers, .delivery_mode = std::uint8_t{2}}),
        raw_frame(frame_body, 3, bytes("'he'00'lo' CE CE")),
        raw_frame(frame_body, 3, {}),
        raw_frame(frame_heartbeat, 0, {}),
        frame_of(1, channel::close_ok{}),
    };
}

TEST(frame, is_complete_at_its_last_byte_and_not_before)
{
    for (auto& whole : one_frame_of_each_type()) {
        SCOPED_TRACE(hex(whole));
        for (std::size_t size = 0; size < whole.size(); ++size) {
            buffer part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
            frame_view frame;
            auto status = parse_frame(part, frame_size_min, frame);
            ASSERT_TRUE(status.need_more()) << size;
            EXPECT_EQ(status.wanted, size < frame_head_size ? frame_overhead : whole.size());
            EXPECT_EQ(frame.size, 0u) << "written before it was complete";
        }
        for (auto& behind : {bytes(""), bytes("FF"), whole}) {
            auto input = join({whole, behind});
            frame_view frame;
            ASSERT_TRUE(parse_frame(input, frame_size_min, frame).complete());
            EXPECT_EQ(frame.size, whole.size());
            EXPECT_EQ(frame.type, std::to_integer<std::uint8_t>(whole[0]));
            EXPECT_EQ(frame.channel, detail::load_u16(whole.data() + 1));
            EXPECT_EQ(hex(frame.payload), hex(std::span(whole).subspan(7, whole.size() - 8)));
        }
    }
}

fault fault_of(std::span<const std::byte> input, std::uint32_t frame_max = frame_size_min)
{
    frame_view frame;
    auto status = parse_frame(input, frame_max, frame);
    EXPECT_EQ(status.failed(), !status.error.ok());
    if (status.failed()) {
        EXPECT_EQ(status.error.scope, fault_scope::connection);
        EXPECT_EQ(status.error.code, reply_code::frame_error);
    }
    return status.error.what;
}

TEST(frame, of_unknown_type_is_found_at_its_first_byte)
{
    for (int type = 0; type < 256; ++type) {
        buffer first{static_cast<std::byte>(type)};
        bool known = type == 1 || type == 2 || type == 3 || type == 8;
        EXPECT_EQ(fault_of(first), known ? fault::none : fault::unknown_frame_type) << type;
    }
}

TEST(frame, that_does_not_end_in_the_end_octet_is_refused)
{
    for (auto& whole : one_frame_of_each_type()) {
        auto broken = whole;
        broken.back() = std::byte{0xCD};
        EXPECT_EQ(fault_of(broken), fault::frame_end_missing);
    }
}

TEST(frame, size_is_judged_before_the_payload_is_waited_for)
{
    EXPECT_EQ(fault_of(bytes("08 0000 00000001")), fault::frame_too_large);
    EXPECT_EQ(fault_of(bytes("03 0001 00002001")), fault::frame_too_large);
    EXPECT_EQ(fault_of(bytes("03 0001 00002000")), fault::none);
    EXPECT_EQ(fault_of(bytes("01 0001 00002001")), fault::frame_too_large);
    EXPECT_EQ(fault_of(bytes("01 0001 00000003")), fault::frame_too_small);
    EXPECT_EQ(fault_of(bytes("02 0001 0000000D")), fault::frame_too_small);
    EXPECT_EQ(fault_of(bytes("02 0001 0000000E")), fault::none);
}

TEST(frame, with_a_content_header_may_be_larger_than_frame_max_up_to_its_own_bound)
{
    EXPECT_EQ(fault_of(bytes("02 0001 000FFFF8")), fault::none);
    EXPECT_EQ(fault_of(bytes("02 0001 000FFFF9")), fault::frame_too_large);
    // Where frame_max is the larger of the two, it is the bound.
    EXPECT_EQ(fault_of(bytes("02 0001 00200000"), 0x200000), fault::none);
    EXPECT_EQ(fault_of(bytes("02 0001 00200001"), 0x200000), fault::frame_too_large);
}

TEST(frame, max_of_zero_allows_no_body)
{
    EXPECT_EQ(fault_of(bytes("03 0001 00000001"), 0), fault::frame_too_large);
    EXPECT_EQ(body_payload_max(0), 0u);
    EXPECT_EQ(body_payload_max(8192), 8184u);
}

TEST(frame, begins_like_a_protocol_header_when_the_server_speaks_another_version)
{
    EXPECT_TRUE(begins_protocol_header(bytes("'A'")));
    EXPECT_TRUE(begins_protocol_header(bytes("'AMQP' 00 00 09 01")));
    EXPECT_TRUE(begins_protocol_header(bytes("'AMQP' 03 01 00 00")));
    EXPECT_FALSE(begins_protocol_header(bytes("")));
    EXPECT_FALSE(begins_protocol_header(bytes("'AMXP'")));
    EXPECT_FALSE(begins_protocol_header(bytes("'HTTP'")));
}

TEST(frame, of_a_heartbeat_is_eight_bytes_on_channel_zero)
{
    buffer out(8);
    ASSERT_EQ(encode_heartbeat(out), 8u);
    EXPECT_EQ(hex(out), "08000000000000CE");
    EXPECT_EQ(encode_heartbeat(std::span(out).first(7)), 0u);
}

TEST(frame, builder_sets_the_size_and_reports_what_does_not_fit)
{
    buffer out(12);
    auto two = [](writer& w) { w.u16(0xABCD); };
    EXPECT_EQ(build_frame(out, frame_body, 2, two), 10u);
    EXPECT_EQ(hex(std::span(out).first(10)), "03000200000002ABCDCE");
    EXPECT_EQ(build_frame(std::span(out).first(9), frame_body, 2, two), 0u);
    EXPECT_EQ(build_frame(out, frame_body, 2, [](writer& w) { w.fail(); }), 0u);
    EXPECT_EQ(build_frame({}, frame_body, 2, [](writer&) {}), 0u);
}

TEST(reader, gives_zeros_and_stays_failed_after_a_read_beyond_the_end)
{
    auto input = bytes("01 0203 04");
    reader in(input);
    EXPECT_EQ(in.u8(), 1);
    EXPECT_EQ(in.u16(), 0x0203);
    EXPECT_TRUE(in.ok());
    EXPECT_EQ(in.u16(), 0);
    EXPECT_FALSE(in.ok());
    EXPECT_EQ(in.u8(), 0) << "a later, smaller read may not succeed";
    EXPECT_EQ(in.remaining(), 0u);
}

TEST(reader, reads_signed_numbers)
{
    auto input = bytes("FF FFFE FFFFFFFD FFFFFFFFFFFFFFFC");
    reader in(input);
    EXPECT_EQ(in.i8(), -1);
    EXPECT_EQ(in.i16(), -2);
    EXPECT_EQ(in.i32(), -3);
    EXPECT_EQ(in.i64(), -4);
    EXPECT_TRUE(in.ok());
}

TEST(writer, writes_nothing_behind_a_gap)
{
    buffer out(3);
    writer w(out);
    w.u16(1);
    w.u16(2);
    EXPECT_FALSE(w.ok());
    w.u8(3);
    EXPECT_EQ(w.size(), 2u);
    EXPECT_EQ(hex(out), "000100");
}

TEST(writer, patches_only_what_has_been_written)
{
    buffer out(8);
    writer w(out);
    w.u32(0);
    w.patch_u32(0, 0x01020304);
    EXPECT_TRUE(w.ok());
    EXPECT_EQ(hex(std::span(out).first(4)), "01020304");
    w.patch_u32(1, 0);
    EXPECT_FALSE(w.ok());
}

} // namespace
} // namespace acquit::amqp::wire
