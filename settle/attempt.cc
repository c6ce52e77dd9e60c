#include <acquit/settle/attempt.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace acquit::settle {
namespace {

constexpr std::uint32_t count_max = std::numeric_limits<std::uint32_t>::max();

// Returns counted by the server; 0 when it counted none.
std::uint32_t returns_counted(amqp::wire::table_view headers) noexcept
{
    const auto value = headers.find(server_counter_header);
    if (!value)
        return 0;
    const std::int64_t count = value->as_int64().value_or(0);
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 0, count_max));
}

} // namespace

std::uint32_t copies_counted(amqp::wire::table_view headers,
                             std::string_view counter_header) noexcept
{
    const auto value = headers.find(counter_header);
    if (!value || value->type() != amqp::wire::field_type::string)
        return 0;
    const std::string_view text = value->as_string().value_or("");
    const char* const end = text.data() + text.size();
    std::uint32_t count = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, count);
    if (text.empty() || stop != end)
        return 0;
    return error == std::errc{} ? count : error == std::errc::result_out_of_range ? count_max : 0;
}

std::uint32_t attempt_of(amqp::wire::table_view headers, bool redelivered,
                         std::string_view counter_header) noexcept
{
    std::uint32_t before = copies_counted(headers, counter_header);
    if (redelivered)
        before = std::max(before, returns_counted(headers));
    return before == count_max ? count_max : before + 1;
}

} // namespace acquit::settle
