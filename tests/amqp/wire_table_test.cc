#include "wire_support.h"

#include <limits>

namespace acquit::amqp::wire {
namespace {

using namespace testing;

// ---------------------------------------------------------------- building

template <class V>
std::string set_one(const V& value)
{
    return hex(table().set("n", value).raw());
}

std::string expected(std::string_view value)
{
    return hex(join({bytes("01'n'"), bytes(value)}));
}

TEST(table, encodes_each_type_under_the_letter_rabbitmq_reads)
{
    EXPECT_EQ(set_one(true), expected("'t' 01"));
    EXPECT_EQ(set_one(false), expected("'t' 00"));
    EXPECT_EQ(set_one(std::int8_t{-2}), expected("'b' FE"));
    EXPECT_EQ(set_one(std::uint8_t{254}), expected("'B' FE"));
    EXPECT_EQ(set_one(std::int16_t{-2}), expected("'s' FFFE"));
    EXPECT_EQ(set_one(std::uint16_t{65534}), expected("'u' FFFE"));
    EXPECT_EQ(set_one(std::int32_t{-2}), expected("'I' FFFFFFFE"));
    EXPECT_EQ(set_one(std::uint32_t{0xFFFFFFFE}), expected("'i' FFFFFFFE"));
    EXPECT_EQ(set_one(std::int64_t{-2}), expected("'l' FFFFFFFFFFFFFFFE"));
    EXPECT_EQ(set_one(-2LL), expected("'l' FFFFFFFFFFFFFFFE"));
    EXPECT_EQ(set_one(std::uint64_t{7}), expected("'l' 0000000000000007"));
    EXPECT_EQ(set_one(1.5f), expected("'f' 3FC00000"));
    EXPECT_EQ(set_one(-1.5), expected("'d' BFF8000000000000"));
    EXPECT_EQ(set_one(decimal{.scale = 2, .value = -314}), expected("'D' 02 FFFFFEC6"));
    EXPECT_EQ(set_one(std::string_view("text")), expected("'S' 00000004 'text'"));
    EXPECT_EQ(set_one("text"), expected("'S' 00000004 'text'"));
    EXPECT_EQ(set_one(std::string("te\0t", 4)), expected("'S' 00000004 'te'00't'"));
    const char* pointer = "text";
    EXPECT_EQ(set_one(pointer), expected("'S' 00000004 'text'"))
        << "a pointer is a text, not a bool";
    EXPECT_EQ(set_one(byte_view(bytes("00FF"))), expected("'x' 00000002 00FF"));
    EXPECT_EQ(set_one(timestamp{1700000000}), expected("'T' 000000006553F100"));
    EXPECT_EQ(set_one(void_t{}), expected("'V'"));
    EXPECT_EQ(set_one(table().set("a", true)), expected("'F' 00000004 01'a' 't' 01"));
    EXPECT_EQ(set_one(array().add(std::int8_t{1}).add("x")),
              expected("'A' 00000008 'b' 01 'S' 00000001 'x'"));
    EXPECT_EQ(set_one(table()), expected("'F' 00000000"));
    EXPECT_EQ(set_one(array()), expected("'A' 00000000"));
}

TEST(table, replaces_a_field_where_it_stands)
{
    table t;
    t.set("a", 1).set("b", 2).set("c", 3);
    t.set("b", "two");
    EXPECT_EQ(describe(t), "{a=I:1, b=S:\"two\", c=I:3}");
    t.set("a", void_t{});
    EXPECT_EQ(describe(t), "{a=V, b=S:\"two\", c=I:3}");
    EXPECT_EQ(t.encoded_size(), 4 + t.raw().size());
}

TEST(table, removes_every_field_of_a_name)
{
    table t(table_view(bytes("01'a' 't' 01 01'b' 't' 00 01'a' 'V'")));
    EXPECT_TRUE(t.contains("a"));
    EXPECT_TRUE(t.remove("a"));
    EXPECT_FALSE(t.contains("a"));
    EXPECT_FALSE(t.remove("a"));
    EXPECT_EQ(hex(t.raw()), hex(bytes("01'b' 't' 00")));
    t.clear();
    EXPECT_TRUE(t.empty());
}

TEST(table, compares_by_bytes)
{
    EXPECT_EQ(table().set("a", 1).set("b", 2), table().set("a", 1).set("b", 2));
    EXPECT_NE(table().set("a", 1).set("b", 2), table().set("b", 2).set("a", 1));
    EXPECT_NE(table().set("a", 1), table().set("a", std::int64_t{1}));
}

TEST(table, copies_values_byte_for_byte)
{
    // `L` and `U` are never written by us, a boolean of 5 neither: a copy keeps them as they are.
    table from(table_view(bytes("01'a' 'L' 0000000000000001 01'b' 'U' 0001 01'c' 't' 05")));
    table to;
    for (auto [name, value] : from.view())
        to.set_raw(name, value);
    EXPECT_EQ(to, from);
    to.set_raw("d", field_value{});
    EXPECT_EQ(to, from) << "no value, no field";
}

TEST(table, may_be_given_views_of_itself)
{
    table t;
    t.set("name", "value");
    t.set((*t.view().begin()).name, 5);
    EXPECT_EQ(describe(t), "{name=I:5}");
    t.set_raw("copy", *t.view().find("name"));
    t.set("self", t.view());
    EXPECT_EQ(describe(t), "{name=I:5, copy=I:5, self={name=I:5, copy=I:5}}");
    array a;
    a.add(1).add(a.view());
    EXPECT_EQ(hex(a.raw()), hex(bytes("'I' 00000001 'A' 00000005 'I' 00000001")));
}

TEST(table, adds_before_what_cannot_be_read)
{
    table t(table_view(bytes("01'a' 't' 01 01'z' 'Z' 1234")));
    t.set("b", true);
    EXPECT_TRUE(t.contains("b"));
    EXPECT_EQ(hex(t.raw()), hex(bytes("01'a' 't' 01 01'b' 't' 01 01'z' 'Z' 1234")));
    EXPECT_TRUE(t.remove("a"));
    EXPECT_EQ(hex(t.raw()), hex(bytes("01'b' 't' 01 01'z' 'Z' 1234")));
}

TEST(table_death_test, asserts_on_a_name_that_has_no_encoding)
{
    EXPECT_DEBUG_DEATH(
        {
            table t;
            t.set(std::string(256, 'n'), 1);
            EXPECT_TRUE(t.empty());
        },
        "length octet");
}

TEST(table_death_test, asserts_on_a_number_beyond_int64)
{
    EXPECT_DEBUG_DEATH(
        {
            table t;
            t.set("n", std::uint64_t{1} << 63);
            EXPECT_EQ(t.view().find("n")->as_int64(), std::numeric_limits<std::int64_t>::max());
        },
        "unsigned 64-bit");
}

// ---------------------------------------------------------------- reading

field_value only(const buffer& raw)
{
    auto found = table_view(raw).find("n");
    EXPECT_TRUE(found.has_value());
    return found.value_or(field_value{});
}

buffer named(std::string_view value)
{
    return join({bytes("01'n'"), bytes(value)});
}

TEST(table_view, reads_every_integer_type_as_int64)
{
    EXPECT_EQ(only(named("'b' 80")).as_int64(), -128);
    EXPECT_EQ(only(named("'B' 80")).as_int64(), 128);
    EXPECT_EQ(only(named("'s' 8000")).as_int64(), -32768);
    EXPECT_EQ(only(named("'U' 8000")).as_int64(), -32768);
    EXPECT_EQ(only(named("'u' 8000")).as_int64(), 32768);
    EXPECT_EQ(only(named("'I' 80000000")).as_int64(), std::numeric_limits<std::int32_t>::min());
    EXPECT_EQ(only(named("'i' 80000000")).as_int64(), 2147483648);
    EXPECT_EQ(only(named("'l' 8000000000000000")).as_int64(),
              std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(only(named("'L' 7FFFFFFFFFFFFFFF")).as_int64(),
              std::numeric_limits<std::int64_t>::max());
}

TEST(table_view, answers_nothing_for_another_type)
{
    auto boolean_bytes = named("'t' 01");
    auto boolean = only(boolean_bytes);
    EXPECT_EQ(boolean.as_int64(), std::nullopt);
    EXPECT_EQ(boolean.as_string(), std::nullopt);
    EXPECT_EQ(boolean.as_double(), std::nullopt);
    EXPECT_EQ(boolean.as_timestamp(), std::nullopt);
    EXPECT_EQ(boolean.as_decimal(), std::nullopt);
    EXPECT_FALSE(boolean.as_table().has_value());
    EXPECT_FALSE(boolean.as_array().has_value());
    EXPECT_FALSE(boolean.is_void());
    EXPECT_EQ(boolean.as_bool(), true);
    auto number_bytes = named("'I' 00000001");
    EXPECT_EQ(only(number_bytes).as_bool(), std::nullopt);
    field_value none;
    EXPECT_EQ(none.type(), field_type::none);
    EXPECT_EQ(none.as_int64(), std::nullopt);
    EXPECT_EQ(none.as_string(), std::nullopt);
    EXPECT_EQ(none.as_bool(), std::nullopt);
    EXPECT_FALSE(none.as_table().has_value());
}

TEST(table_view, reads_the_other_types)
{
    EXPECT_EQ(only(named("'f' 3FC00000")).as_double(), 1.5);
    EXPECT_EQ(only(named("'d' BFF8000000000000")).as_double(), -1.5);
    EXPECT_EQ(only(named("'D' 02 FFFFFEC6")).as_decimal(), (decimal{2, -314}));
    EXPECT_EQ(only(named("'T' 000000006553F100")).as_timestamp(), timestamp{1700000000});
    EXPECT_EQ(only(named("'S' 00000003 'a'00'b'")).as_string()->size(), 3u);
    EXPECT_TRUE(only(named("'V'")).is_void());
    EXPECT_EQ(hex(only(named("'V'")).raw()), "56");
    EXPECT_EQ(only(named("'F' 00000003 01'a''V'")).as_table()->find("a")->type(),
              field_type::void_);
}

TEST(table_view, stops_at_a_field_cut_anywhere_and_says_so)
{
    table whole;
    whole.set("bool", true)
        .set("text", "some")
        .set("list", array().add(1).add("x"))
        .set("last", timestamp{1});
    std::vector<std::size_t> field_ends{0};
    for (auto it = whole.view().begin(); it != std::default_sentinel; ++it)
        field_ends.push_back(field_ends.back() + 1 + it->name.size() + it->value.raw().size());
    for (std::size_t size = 0; size <= whole.raw().size(); ++size) {
        buffer part(whole.raw().begin(), whole.raw().begin() + static_cast<std::ptrdiff_t>(size));
        table_view view(part);
        std::size_t fields = 0;
        auto it = view.begin();
        for (; it != std::default_sentinel; ++it)
            ++fields;
        auto complete = static_cast<std::size_t>(std::ranges::count_if(
                            field_ends, [&](auto end) { return end <= size; })) -
                        1;
        bool at_a_field_end = std::ranges::count(field_ends, size) == 1;
        EXPECT_EQ(fields, complete) << size;
        EXPECT_EQ(it.undecodable(), !at_a_field_end) << size;
        EXPECT_EQ(view.undecodable(), !at_a_field_end) << size;
        EXPECT_EQ(view.inspect(), at_a_field_end ? fault::none : fault::truncated) << size;
    }
}

TEST(table_view, inspects_what_is_nested)
{
    // The inner table is cut: its field claims more than there is. The outer one can be walked all
    // the same.
    auto raw = bytes("01'n' 'F' 00000008 01'a' 'S' 00000009 'x' 01'm' 't' 01");
    table_view view(raw);
    EXPECT_FALSE(view.undecodable());
    EXPECT_EQ(view.inspect(), fault::truncated);
    EXPECT_FALSE(view.valid());
    EXPECT_EQ(view.find("m")->as_bool(), true);
    EXPECT_TRUE(view.find("n")->as_table()->undecodable());
}

buffer nested_tables(std::size_t levels)
{
    table inner;
    for (std::size_t n = 0; n < levels; ++n)
        inner = table().set("t", inner);
    return {inner.raw().begin(), inner.raw().end()};
}

TEST(table_view, follows_nesting_up_to_its_bound)
{
    EXPECT_EQ(table_view(nested_tables(nesting_max)).inspect(), fault::none);
    EXPECT_EQ(table_view(nested_tables(nesting_max + 1)).inspect(), fault::nesting_too_deep);
}

TEST(array_view, iterates_values_of_any_type)
{
    array made;
    made.add(1).add("two").add(3.0).add(table().set("four", 4)).add(void_t{});
    std::vector<field_type> types;
    for (field_value value : made.view())
        types.push_back(value.type());
    EXPECT_EQ(types, (std::vector{field_type::int32, field_type::string, field_type::float64,
                                  field_type::table, field_type::void_}));
    EXPECT_TRUE(made.view().valid());
    auto cut = made.raw().first(3);
    EXPECT_TRUE(array_view(cut).undecodable());
    EXPECT_EQ(array_view(cut).inspect(), fault::truncated);
    EXPECT_TRUE(array_view().empty());
    EXPECT_TRUE(array_view().valid());
}

// ---------------------------------------------------------------- describing

TEST(describe, shows_letters_values_and_nesting)
{
    table t;
    t.set("n", 5)
        .set("s", "a\"b\x01")
        .set("d", 0.5)
        .set("t", timestamp{9})
        .set("f", decimal{1, 15})
        .set("b", true)
        .set("v", void_t{})
        .set("x-death", array().add(table().set("count", std::int64_t{2})));
    EXPECT_EQ(describe(t), "{n=I:5, s=S:\"a\\\"b\\x01\", d=d:0.5, t=T:9, f=D:15e-1, b=t:true, v=V, "
                           "x-death=[{count=l:2}]}");
    EXPECT_EQ(describe(table_view{}), "{}");
    EXPECT_EQ(describe(table_view(bytes("01'a' 't' 01 01'z' 'Z'"))), "{a=t:true, ...?}");
}

TEST(describe, is_bounded)
{
    table t;
    t.set("long", std::string(100000, 'x')).set("next", 1);
    EXPECT_LT(describe(t).size(), 5000u);
    EXPECT_LT(describe(t, 50).size(), 100u);
}

// ---------------------------------------------------------------- random tables

field_value at(const array& values, std::size_t index)
{
    for (auto value : values.view())
        if (index-- == 0)
            return value;
    return {};
}

void add_random(seeded& random, array& to, int depth)
{
    switch (random.below(depth > 0 ? 16 : 14)) {
    case 0:
        to.add(random.coin());
        break;
    case 1:
        to.add(static_cast<std::int8_t>(random.bits()));
        break;
    case 2:
        to.add(static_cast<std::uint8_t>(random.bits()));
        break;
    case 3:
        to.add(static_cast<std::int16_t>(random.bits()));
        break;
    case 4:
        to.add(static_cast<std::uint16_t>(random.bits()));
        break;
    case 5:
        to.add(static_cast<std::int32_t>(random.bits()));
        break;
    case 6:
        to.add(static_cast<std::uint32_t>(random.bits()));
        break;
    case 7:
        to.add(static_cast<std::int64_t>(random.bits()));
        break;
    case 8:
        to.add(static_cast<float>(random.bits()));
        break;
    case 9:
        to.add(static_cast<double>(random.bits()));
        break;
    case 10:
        to.add(random.string(300));
        break;
    case 11:
        to.add(timestamp{random.bits()});
        break;
    case 12:
        to.add(decimal{static_cast<std::uint8_t>(random.bits()),
                       static_cast<std::int32_t>(random.bits())});
        break;
    case 13:
        to.add(void_t{});
        break;
    case 14: {
        array nested;
        for (auto n = random.below(4); n > 0; --n)
            add_random(random, nested, depth - 1);
        to.add(nested);
        break;
    }
    default: {
        array values;
        table nested;
        for (auto n = random.below(4); n > 0; --n) {
            add_random(random, values, depth - 1);
            nested.set_raw(random.string(255), at(values, 0));
            values = {};
        }
        to.add(nested);
    }
    }
}

TEST(table, comes_back_field_by_field_as_it_was_set)
{
    seeded random;
    for (int round = 0; round < 300; ++round) {
        table made;
        std::vector<std::pair<std::string, buffer>> model; // what a plain list of fields would hold
        for (auto n = random.below(12); n > 0; --n) {
            array value;
            add_random(random, value, 4);
            auto name = random.string(random.coin() ? 1 : 255);
            made.set_raw(name, at(value, 0));
            buffer raw(value.raw().begin(), value.raw().end());
            auto same = std::ranges::find(model, name, &std::pair<std::string, buffer>::first);
            if (same != model.end())
                same->second = raw;
            else
                model.emplace_back(name, raw);
        }
        ASSERT_TRUE(made.view().valid());
        std::size_t index = 0;
        for (auto [name, value] : made.view()) {
            ASSERT_LT(index, model.size());
            EXPECT_EQ(name, model[index].first);
            EXPECT_EQ(hex(value.raw()), hex(model[index].second));
            EXPECT_EQ(hex(made.view().find(name)->raw()), hex(value.raw()));
            ++index;
        }
        EXPECT_EQ(index, model.size());
        EXPECT_FALSE(describe(made).empty());

        // Cut or damaged anywhere, it is walked without harm (the sanitizers judge) and to an end.
        buffer damaged(made.raw().begin(), made.raw().end());
        if (!damaged.empty()) {
            damaged[random.below(damaged.size())] = static_cast<std::byte>(random.bits());
            damaged.resize(random.below(damaged.size()) + 1);
            table_view view(damaged);
            EXPECT_LE(static_cast<std::size_t>(std::ranges::distance(view.begin(), view.end())),
                      damaged.size());
            describe(view);
            view.inspect();
        }
    }
}

} // namespace
} // namespace acquit::amqp::wire
