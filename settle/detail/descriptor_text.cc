#include <acquit/settle/detail/descriptor_text.h>

#include <fmt/format.h>

#include <algorithm>

namespace acquit::settle::detail {
namespace {

bool same_value(amqp::wire::field_value a, amqp::wire::field_value b) noexcept
{
    if (const auto number = a.as_int64(); number && number == b.as_int64())
        return true;
    return std::ranges::equal(a.raw(), b.raw());
}

} // namespace

std::string quoted(std::string_view noun, std::string_view name)
{
    constexpr std::size_t shown_max = 64;
    return name.size() > shown_max ? fmt::format("{} '{}...'", noun, name.substr(0, shown_max))
                                   : fmt::format("{} '{}'", noun, name);
}

std::string merge_argument(amqp::wire::table& into, std::string_view argument,
                           const amqp::wire::table& one)
{
    const auto value = one.view().find(argument);
    if (!value) // not even the table took it
        return fmt::format("an argument's name has {} bytes, AMQP allows {}", argument.size(),
                           short_string_max);
    const auto before = into.view().find(argument);
    if (!before) {
        into.set_raw(argument, *value);
        return {};
    }
    if (same_value(*before, *value))
        return {};
    amqp::wire::table kept;
    kept.set_raw(argument, *before);
    return fmt::format("the argument {} is set twice, as {} and as {}: keep one", argument,
                       amqp::wire::describe(kept.view()), amqp::wire::describe(one.view()));
}

} // namespace acquit::settle::detail
