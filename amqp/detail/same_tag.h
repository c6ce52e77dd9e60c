#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace acquit::amqp::detail {

/// `a == b` for consumer tags, once per message: those of 8 to 16 characters, which ours are, take
/// two comparisons of words and no call.
[[nodiscard]] inline bool same_tag(std::string_view a, std::string_view b) noexcept
{
    const std::size_t size = a.size();
    if (size != b.size())
        return false;
    if (size < 8 || size > 16) [[unlikely]]
        return a == b;
    const auto word = [](const char* from) {
        std::uint64_t value = 0;
        std::memcpy(&value, from, sizeof value);
        return value;
    };
    return word(a.data()) == word(b.data()) &&
           word(a.data() + size - 8) == word(b.data() + size - 8);
}

} // namespace acquit::amqp::detail
