#pragma once

#include <acquit/amqp/wire/wire.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::amqp::wire::testing {

using buffer = std::vector<std::byte>;

/// Bytes written down: hexadecimal digits, 'text' between quotes, blanks ignored.
///     bytes("01 0001 00000004 000A 0033 CE"), bytes("05'hello'")
inline buffer bytes(std::string_view notation)
{
    buffer out;
    int high = -1;
    bool quoted = false;
    for (char c : notation) {
        if (c == '\'') {
            quoted = !quoted;
        } else if (quoted) {
            out.push_back(static_cast<std::byte>(c));
        } else if (c != ' ') {
            int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
            if (digit < 0 || digit > 15)
                ADD_FAILURE() << "not a hexadecimal digit: " << c;
            if (high < 0) {
                high = digit;
            } else {
                out.push_back(static_cast<std::byte>(high << 4 | digit));
                high = -1;
            }
        }
    }
    EXPECT_TRUE(high < 0 && !quoted) << "unfinished: " << notation;
    return out;
}

inline std::string hex(std::span<const std::byte> of)
{
    std::ostringstream out;
    out << std::hex << std::uppercase << std::setfill('0');
    for (auto b : of)
        out << std::setw(2) << std::to_integer<int>(b);
    return out.str();
}

inline buffer join(std::initializer_list<std::span<const std::byte>> parts)
{
    buffer out;
    for (auto part : parts)
        out.insert(out.end(), part.begin(), part.end());
    return out;
}

/// A frame put together by hand, whatever its payload.
inline buffer raw_frame(std::uint8_t type, std::uint16_t channel,
                        std::span<const std::byte> payload)
{
    buffer out(frame_head_size);
    write_frame_head(out.data(), type, channel, static_cast<std::uint32_t>(payload.size()));
    out.insert(out.end(), payload.begin(), payload.end());
    out.push_back(std::byte{frame_end});
    return out;
}

/// The frame of a method, or an empty buffer when it cannot be encoded.
template <class M>
buffer frame_of(std::uint16_t channel, const M& value)
{
    buffer out(encoded_size(value));
    out.resize(encode_frame(out, channel, value));
    return out;
}

inline buffer header_frame_of(std::uint16_t channel, std::uint64_t body_size,
                              const properties& props)
{
    buffer out(header_frame_size(props));
    out.resize(encode_header_frame(out, channel, body_size, props));
    return out;
}

inline std::string_view text(std::span<const std::byte> of)
{
    return detail::as_text(of.data(), of.size());
}

/// What visit_method makes of a payload. One instantiation for all tests: a visitor per method and
/// test would take the compiler minutes.
struct visited {
    status result;
    method_id id;       ///< of the struct the visitor got, zeros when it was not called
    buffer frame;       ///< that struct as a frame on channel 7
    std::string fields; ///< that struct printed
};
visited visit(std::span<const std::byte> payload);

/// A method's fields as text, so that two can be compared field by field and told apart in a
/// message.
struct print_fields {
    std::string out;
    void u8(std::uint8_t value) { out += std::to_string(value) + " "; }
    void u16(std::uint16_t value) { out += std::to_string(value) + " "; }
    void u32(std::uint32_t value) { out += std::to_string(value) + " "; }
    void u64(std::uint64_t value) { out += std::to_string(value) + " "; }
    void bit(bool value) { out += value ? "true " : "false "; }
    void shortstr(std::string_view value) { out += hex(detail::as_bytes(value)) + " "; }
    void longstr(std::string_view value) { out += hex(detail::as_bytes(value)) + " "; }
    void table(table_view value) { out += hex(value.raw()) + " "; }
    void reserved_u16() {}
    void reserved_shortstr() {}
    void reserved_longstr() {}
    void reserved_bit() {}
};

template <class M>
std::string printed(const M& value)
{
    print_fields print;
    M::fields(value, print);
    return print.out;
}

/// A generator whose seed is printed with every failure; ACQUIT_SEED=n repeats a run.
class seeded {
public:
    seeded()
        : seed_(std::getenv("ACQUIT_SEED") ? std::strtoull(std::getenv("ACQUIT_SEED"), nullptr, 10)
                                           : std::random_device{}()),
          engine_(seed_), trace_(__FILE__, __LINE__, "ACQUIT_SEED=" + std::to_string(seed_))
    {
    }

    std::uint64_t bits() { return engine_(); }
    std::size_t below(std::size_t limit) { return engine_() % limit; }
    bool coin() { return (engine_() & 1) != 0; }

    /// Any bytes, NUL and 0xCE among them.
    std::string string(std::size_t longest)
    {
        std::string out(below(longest + 1), '\0');
        for (auto& c : out)
            c = static_cast<char>(engine_());
        return out;
    }

private:
    std::uint64_t seed_;
    std::mt19937_64 engine_;
    ::testing::ScopedTrace trace_;
};

} // namespace acquit::amqp::wire::testing
