#include "wire_support.h"

#include <deque>
#include <set>

namespace acquit::amqp::wire {
namespace {

using namespace testing;

template <class... M, class F>
void for_each_method(method_list<M...>, F&& f)
{
    (f(M{}), ...);
}

// Fills the fields of any method with random values; keeps what their views refer to.
class random_fields {
public:
    explicit random_fields(seeded& random) : random_(random) {}

    void u8(std::uint8_t& value) { value = static_cast<std::uint8_t>(random_.bits()); }
    void u16(std::uint16_t& value) { value = static_cast<std::uint16_t>(random_.bits()); }
    void u32(std::uint32_t& value) { value = static_cast<std::uint32_t>(random_.bits()); }
    void u64(std::uint64_t& value) { value = random_.bits(); }
    void bit(bool& value) { value = random_.coin(); }
    void shortstr(std::string_view& value) { value = strings_.emplace_back(random_.string(255)); }
    void longstr(std::string_view& value) { value = strings_.emplace_back(random_.string(1000)); }
    void table(table_view& value)
    {
        auto& made = tables_.emplace_back();
        for (auto n = random_.below(4); n > 0; --n)
            made.set(random_.string(255), static_cast<std::int64_t>(random_.bits()));
        value = made;
    }
    void reserved_u16() {}
    void reserved_shortstr() {}
    void reserved_longstr() {}
    void reserved_bit() {}

private:
    seeded& random_;
    std::deque<std::string> strings_;
    std::deque<wire::table> tables_;
};

TEST(methods, have_an_id_and_a_name_of_their_own)
{
    std::set<method_id> ids;
    std::set<std::string> names;
    std::size_t count = 0;
    for_each_method(all_methods{}, [&]<class M>(const M&) {
        ids.insert(id_of<M>);
        names.insert(M::name);
        ++count;
    });
    EXPECT_EQ(count, 14u + 6 + 8 + 10 + 18 + 6 + 2);
    EXPECT_EQ(ids.size(), count);
    EXPECT_EQ(names.size(), count);
    EXPECT_STREQ(method_name({60, 61}), "unknown");
    EXPECT_STREQ(method_name({}), "unknown");
}

TEST(methods, with_content_are_publish_return_deliver_and_get_ok)
{
    std::set<std::string> names;
    for_each_method(all_methods{}, [&]<class M>(const M&) {
        if (M::content)
            names.insert(M::name);
    });
    EXPECT_EQ(names, (std::set<std::string>{"basic.publish", "basic.return", "basic.deliver",
                                            "basic.get-ok"}));
}

TEST(methods, come_back_from_the_wire_with_the_same_fields)
{
    seeded random;
    for (int round = 0; round < 50; ++round) {
        for_each_method(all_methods{}, [&]<class M>(M value) {
            SCOPED_TRACE(M::name);
            random_fields fill(random);
            M::fields(value, fill);
            auto channel = static_cast<std::uint16_t>(random.bits());
            auto encoded = frame_of(channel, value);
            ASSERT_EQ(encoded.size(), encoded_size(value));
            frame_view frame;
            ASSERT_TRUE(parse_frame(encoded, 1 << 20, frame).complete());
            EXPECT_EQ(frame.type, frame_method);
            EXPECT_EQ(frame.channel, channel);
            auto seen = visit(frame.payload);
            EXPECT_TRUE(seen.result.ok());
            EXPECT_EQ(seen.id, id_of<M>);
            EXPECT_EQ(seen.fields, printed(value));
        });
    }
}

TEST(methods, cut_short_anywhere_are_truncated_and_never_visited)
{
    seeded random;
    for_each_method(all_methods{}, [&]<class M>(M value) {
        SCOPED_TRACE(M::name);
        random_fields fill(random);
        M::fields(value, fill);
        auto encoded = frame_of(1, value);
        auto payload = std::span<const std::byte>(encoded).subspan(frame_head_size);
        payload = payload.first(payload.size() - 1);
        for (std::size_t size = 0; size < payload.size(); ++size) {
            // A copy of exactly this size, so that a read beyond it is seen by a sanitizer.
            buffer part(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size));
            auto seen = visit(part);
            ASSERT_EQ(seen.result, failure(fault::truncated)) << size << " of " << payload.size();
            ASSERT_EQ(seen.id, method_id{}) << "visited";
        }
    });
}

TEST(methods, with_bytes_after_the_last_argument_are_understood)
{
    basic::ack ack;
    EXPECT_TRUE(decode(bytes("0000000000000005 01 AABBCC"), ack).ok());
    EXPECT_EQ(ack.delivery_tag, 5u);
    EXPECT_TRUE(ack.multiple);
}

TEST(methods, with_unknown_ids_are_reported)
{
    auto seen = visit(bytes("003C 003D 00"));
    EXPECT_EQ(seen.id, method_id{}) << "visited";
    auto result = seen.result;
    EXPECT_EQ(result, failure(fault::unknown_method));
    EXPECT_EQ(result.code, reply_code::command_invalid);
    EXPECT_EQ(result.scope, fault_scope::connection);
}

TEST(methods, ignore_what_is_in_reserved_fields)
{
    connection::open open;
    auto open_bytes = bytes("02'vh' 03'cap' 01");
    EXPECT_TRUE(decode(open_bytes, open).ok());
    EXPECT_EQ(open.virtual_host, "vh");
    basic::publish publish;
    auto publish_bytes = bytes("BEEF 01'e' 01'k' FE");
    EXPECT_TRUE(decode(publish_bytes, publish).ok());
    EXPECT_EQ(publish.routing_key, "k");
    EXPECT_FALSE(publish.mandatory);
    EXPECT_TRUE(publish.immediate);
}

TEST(methods, are_not_written_where_they_do_not_fit)
{
    basic::deliver deliver{
        .consumer_tag = "tag", .delivery_tag = 1, .exchange = "x", .routing_key = "k"};
    buffer out(encoded_size(deliver));
    for (std::size_t size = 0; size < out.size(); ++size) {
        std::vector<std::byte> exact(size);
        EXPECT_EQ(encode_frame(exact, 1, deliver), 0u) << size;
    }
    EXPECT_EQ(encode_frame(out, 1, deliver), out.size());
}

TEST(methods, refuse_a_short_string_of_256_bytes)
{
    std::string longest(255, 'k');
    EXPECT_EQ(frame_of(1, basic::publish{.routing_key = longest}).size(),
              encoded_size(basic::publish{.routing_key = longest}));
    std::string too_long(256, 'k');
    buffer out(2048);
    EXPECT_EQ(encode_frame(out, 1, basic::publish{.routing_key = too_long}), 0u);
}

TEST(methods, ids_order_by_class_first)
{
    EXPECT_LT((method_id{10, 51}), (method_id{20, 10}));
    EXPECT_LT(id_of<basic::ack>, id_of<basic::nack>);
    EXPECT_EQ(id_of<basic::ack>, (method_id{60, 80}));
}

TEST(reply_codes, have_the_names_servers_use)
{
    EXPECT_STREQ(reply_name(406), "PRECONDITION_FAILED");
    EXPECT_STREQ(reply_name(reply_code::access_refused), "ACCESS_REFUSED");
    EXPECT_STREQ(reply_name(599), "UNKNOWN");
}

} // namespace
} // namespace acquit::amqp::wire
