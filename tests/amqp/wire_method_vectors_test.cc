#include "wire_support.h"

// Each method as the specification draws it, byte by byte: what it encodes to, and that decoding
// loses nothing.

namespace acquit::amqp::wire {
namespace {

using namespace testing;

template <class M>
void expect_vector(const M& value, std::string_view payload_notation)
{
    SCOPED_TRACE(M::name);
    auto payload = bytes(payload_notation);
    auto expected = raw_frame(frame_method, 7, payload);
    EXPECT_EQ(hex(frame_of(7, value)), hex(expected));
    EXPECT_EQ(encoded_size(value), expected.size());

    frame_view frame;
    ASSERT_TRUE(parse_frame(expected, frame_size_min, frame).complete());
    EXPECT_EQ(method_of(frame.payload), id_of<M>);
    EXPECT_STREQ(method_name(method_of(frame.payload)), M::name);

    // Decoded and encoded again it is the same: every field went where it belongs.
    auto seen = visit(frame.payload);
    EXPECT_TRUE(seen.result.ok());
    EXPECT_EQ(seen.id, id_of<M>);
    EXPECT_EQ(hex(seen.frame), hex(expected));
}

table small_table()
{
    table out;
    out.set("k", 1);
    return out;
}
constexpr auto small_table_bytes = "00000007 01'k' 'I' 00000001";

std::string with_table(std::string before, std::string after = {})
{
    return before + " " + small_table_bytes + " " + after;
}

TEST(method_vectors, connection)
{
    auto t = small_table();
    expect_vector(connection::start{.server_properties = t,
                                    .mechanisms = "PLAIN EXTERNAL",
                                    .locales = "en_US"},
                  with_table("000A 000A 00 09", "0000000E'PLAIN EXTERNAL' 00000005'en_US'"));
    expect_vector(connection::start_ok{.client_properties = t,
                                       .mechanism = "PLAIN",
                                       .response = std::string_view("\0u\0p", 4),
                                       .locale = "en_US"},
                  with_table("000A 000B", "05'PLAIN' 00000004 00'u'00'p' 05'en_US'"));
    expect_vector(connection::secure{.challenge = "who"}, "000A 0014 00000003'who'");
    expect_vector(connection::secure_ok{.response = "me"}, "000A 0015 00000002'me'");
    expect_vector(connection::tune{.channel_max = 2047, .frame_max = 131072, .heartbeat = 60},
                  "000A 001E 07FF 00020000 003C");
    expect_vector(connection::tune_ok{.channel_max = 1, .frame_max = 8192, .heartbeat = 30},
                  "000A 001F 0001 00002000 001E");
    expect_vector(connection::open{.virtual_host = "/"}, "000A 0028 01'/' 00 00");
    expect_vector(connection::open_ok{}, "000A 0029 00");
    expect_vector(connection::close{.reply_code = 320,
                                    .reply_text = "bye",
                                    .failing_class_id = 60,
                                    .failing_method_id = 40},
                  "000A 0032 0140 03'bye' 003C 0028");
    expect_vector(connection::close_ok{}, "000A 0033");
    expect_vector(connection::blocked{.reason = "low on memory"}, "000A 003C 0D'low on memory'");
    expect_vector(connection::unblocked{}, "000A 003D");
    expect_vector(connection::update_secret{.new_secret = "token", .reason = "old"},
                  "000A 0046 00000005'token' 03'old'");
    expect_vector(connection::update_secret_ok{}, "000A 0047");
}

TEST(method_vectors, channel)
{
    expect_vector(channel::open{}, "0014 000A 00");
    expect_vector(channel::open_ok{}, "0014 000B 00000000");
    expect_vector(channel::flow{.active = true}, "0014 0014 01");
    expect_vector(channel::flow_ok{.active = false}, "0014 0015 00");
    expect_vector(channel::close{.reply_code = 406,
                                 .reply_text = "PRECONDITION_FAILED",
                                 .failing_class_id = 60,
                                 .failing_method_id = 80},
                  "0014 0028 0196 13'PRECONDITION_FAILED' 003C 0050");
    expect_vector(channel::close_ok{}, "0014 0029");
}

TEST(method_vectors, exchange)
{
    auto t = small_table();
    expect_vector(exchange::declare{.exchange = "e", .type = "topic", .arguments = t},
                  with_table("0028 000A 0000 01'e' 05'topic' 00"));
    expect_vector(
        exchange::declare{.exchange = "e", .type = "topic", .passive = true, .arguments = t},
        with_table("0028 000A 0000 01'e' 05'topic' 01"));
    expect_vector(
        exchange::declare{.exchange = "e", .type = "topic", .durable = true, .arguments = t},
        with_table("0028 000A 0000 01'e' 05'topic' 02"));
    expect_vector(
        exchange::declare{.exchange = "e", .type = "topic", .auto_delete = true, .arguments = t},
        with_table("0028 000A 0000 01'e' 05'topic' 04"));
    expect_vector(
        exchange::declare{.exchange = "e", .type = "topic", .internal = true, .arguments = t},
        with_table("0028 000A 0000 01'e' 05'topic' 08"));
    expect_vector(
        exchange::declare{.exchange = "e", .type = "topic", .no_wait = true, .arguments = t},
        with_table("0028 000A 0000 01'e' 05'topic' 10"));
    expect_vector(exchange::declare_ok{}, "0028 000B");
    expect_vector(exchange::delete_{.exchange = "e", .if_unused = true}, "0028 0014 0000 01'e' 01");
    expect_vector(exchange::delete_{.exchange = "e", .no_wait = true}, "0028 0014 0000 01'e' 02");
    expect_vector(exchange::delete_ok{}, "0028 0015");
    expect_vector(
        exchange::bind{
            .destination = "d", .source = "s", .routing_key = "k", .no_wait = true, .arguments = t},
        with_table("0028 001E 0000 01'd' 01's' 01'k' 01"));
    expect_vector(exchange::bind_ok{}, "0028 001F");
    expect_vector(
        exchange::unbind{.destination = "d", .source = "s", .routing_key = "k", .arguments = t},
        with_table("0028 0028 0000 01'd' 01's' 01'k' 00"));
    expect_vector(exchange::unbind_ok{}, "0028 0033");
}

TEST(method_vectors, queue)
{
    auto t = small_table();
    expect_vector(queue::declare{.queue = "q", .passive = true, .arguments = t},
                  with_table("0032 000A 0000 01'q' 01"));
    expect_vector(queue::declare{.queue = "q", .durable = true, .arguments = t},
                  with_table("0032 000A 0000 01'q' 02"));
    expect_vector(queue::declare{.queue = "q", .exclusive = true, .arguments = t},
                  with_table("0032 000A 0000 01'q' 04"));
    expect_vector(queue::declare{.queue = "q", .auto_delete = true, .arguments = t},
                  with_table("0032 000A 0000 01'q' 08"));
    expect_vector(queue::declare{.queue = "q", .no_wait = true, .arguments = t},
                  with_table("0032 000A 0000 01'q' 10"));
    expect_vector(queue::declare_ok{.queue = "q", .message_count = 3, .consumer_count = 2},
                  "0032 000B 01'q' 00000003 00000002");
    expect_vector(queue::bind{.queue = "q", .exchange = "e", .routing_key = "k", .arguments = t},
                  with_table("0032 0014 0000 01'q' 01'e' 01'k' 00"));
    expect_vector(queue::bind_ok{}, "0032 0015");
    expect_vector(queue::purge{.queue = "q", .no_wait = true}, "0032 001E 0000 01'q' 01");
    expect_vector(queue::purge_ok{.message_count = 4}, "0032 001F 00000004");
    expect_vector(queue::delete_{.queue = "q", .if_unused = true}, "0032 0028 0000 01'q' 01");
    expect_vector(queue::delete_{.queue = "q", .if_empty = true}, "0032 0028 0000 01'q' 02");
    expect_vector(queue::delete_{.queue = "q", .no_wait = true}, "0032 0028 0000 01'q' 04");
    expect_vector(queue::delete_ok{.message_count = 5}, "0032 0029 00000005");
    expect_vector(queue::unbind{.queue = "q", .exchange = "e", .routing_key = "k", .arguments = t},
                  with_table("0032 0032 0000 01'q' 01'e' 01'k'"));
    expect_vector(queue::unbind_ok{}, "0032 0033");
}

TEST(method_vectors, basic)
{
    auto t = small_table();
    expect_vector(basic::qos{.prefetch_size = 0, .prefetch_count = 256, .global = true},
                  "003C 000A 00000000 0100 01");
    expect_vector(basic::qos_ok{}, "003C 000B");
    expect_vector(
        basic::consume{.queue = "q", .consumer_tag = "t", .no_local = true, .arguments = t},
        with_table("003C 0014 0000 01'q' 01't' 01"));
    expect_vector(basic::consume{.queue = "q", .consumer_tag = "t", .no_ack = true, .arguments = t},
                  with_table("003C 0014 0000 01'q' 01't' 02"));
    expect_vector(
        basic::consume{.queue = "q", .consumer_tag = "t", .exclusive = true, .arguments = t},
        with_table("003C 0014 0000 01'q' 01't' 04"));
    expect_vector(
        basic::consume{.queue = "q", .consumer_tag = "t", .no_wait = true, .arguments = t},
        with_table("003C 0014 0000 01'q' 01't' 08"));
    expect_vector(basic::consume_ok{.consumer_tag = "t"}, "003C 0015 01't'");
    expect_vector(basic::cancel{.consumer_tag = "t", .no_wait = true}, "003C 001E 01't' 01");
    expect_vector(basic::cancel_ok{.consumer_tag = "t"}, "003C 001F 01't'");
    expect_vector(basic::publish{.exchange = "e", .routing_key = "k", .mandatory = true},
                  "003C 0028 0000 01'e' 01'k' 01");
    expect_vector(basic::publish{.exchange = "e", .routing_key = "k", .immediate = true},
                  "003C 0028 0000 01'e' 01'k' 02");
    expect_vector(
        basic::return_{
            .reply_code = 312, .reply_text = "NO_ROUTE", .exchange = "e", .routing_key = "k"},
        "003C 0032 0138 08'NO_ROUTE' 01'e' 01'k'");
    expect_vector(basic::deliver{.consumer_tag = "t",
                                 .delivery_tag = 0x0102030405060708,
                                 .redelivered = true,
                                 .exchange = "e",
                                 .routing_key = "k"},
                  "003C 003C 01't' 0102030405060708 01 01'e' 01'k'");
    expect_vector(basic::get{.queue = "q", .no_ack = true}, "003C 0046 0000 01'q' 01");
    expect_vector(basic::get_ok{.delivery_tag = 9,
                                .redelivered = true,
                                .exchange = "e",
                                .routing_key = "k",
                                .message_count = 6},
                  "003C 0047 0000000000000009 01 01'e' 01'k' 00000006");
    expect_vector(basic::get_empty{}, "003C 0048 00");
    expect_vector(basic::ack{.delivery_tag = 10, .multiple = true},
                  "003C 0050 000000000000000A 01");
    expect_vector(basic::reject{.delivery_tag = 11, .requeue = true},
                  "003C 005A 000000000000000B 01");
    expect_vector(basic::recover_async{.requeue = true}, "003C 0064 01");
    expect_vector(basic::recover{.requeue = true}, "003C 006E 01");
    expect_vector(basic::recover_ok{}, "003C 006F");
    expect_vector(basic::nack{.delivery_tag = 12, .multiple = true, .requeue = false},
                  "003C 0078 000000000000000C 01");
    expect_vector(basic::nack{.delivery_tag = 12, .multiple = false, .requeue = true},
                  "003C 0078 000000000000000C 02");
}

TEST(method_vectors, tx_and_confirm)
{
    expect_vector(tx::select{}, "005A 000A");
    expect_vector(tx::select_ok{}, "005A 000B");
    expect_vector(tx::commit{}, "005A 0014");
    expect_vector(tx::commit_ok{}, "005A 0015");
    expect_vector(tx::rollback{}, "005A 001E");
    expect_vector(tx::rollback_ok{}, "005A 001F");
    expect_vector(confirm::select{.no_wait = true}, "0055 000A 01");
    expect_vector(confirm::select_ok{}, "0055 000B");
}

} // namespace
} // namespace acquit::amqp::wire
