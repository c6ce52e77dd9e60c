#include <acquit/amqp/channel.h>
#include <acquit/settle/detail/argument_conflict.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

namespace acquit::settle::detail {

namespace {

// More than a queue can have.
constexpr int questions_max = 16;
constexpr std::string_view none = "none";

/// What stands between two parts of the text; nothing if either is missing.
std::optional<std::string_view> between(std::string_view text, std::string_view before,
                                        std::string_view after)
{
    const auto at = text.find(before);
    if (at == std::string_view::npos)
        return std::nullopt;
    text.remove_prefix(at + before.size());
    if (after.empty())
        return text;
    const auto end = text.find(after);
    if (end == std::string_view::npos)
        return std::nullopt;
    return text.substr(0, end);
}

/// none | '10' | the value '10' of type 'signedint'
std::string value_in(std::string_view said)
{
    constexpr std::string_view with_type = "the value '";
    if (said.starts_with(with_type)) {
        said.remove_prefix(with_type.size());
        if (const auto type = said.rfind("' of type '"); type != std::string_view::npos)
            said = said.substr(0, type);
    } else if (said.size() >= 2 && said.front() == '\'' && said.back() == '\'') {
        said = said.substr(1, said.size() - 2);
    }
    return std::string(said);
}

std::optional<std::int64_t> number_in(std::string_view text) noexcept
{
    std::int64_t number = 0;
    const auto* const end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, number);
    return failed == std::errc{} && stop == end && !text.empty() ? std::optional(number)
                                                                 : std::nullopt;
}

bool take_over_flag(bool& ours, std::string_view theirs)
{
    if (theirs != "true" && theirs != "false")
        return false;
    return std::exchange(ours, theirs == "true") != ours;
}

/// An argument that queues of the other type do not know, refused by name.
std::optional<argument_conflict> unknown_argument_in(std::string_view text)
{
    const auto argument = between(text, "invalid arg '", "'");
    if (!argument)
        return std::nullopt;
    return argument_conflict{std::string(*argument), {}, std::string(none)};
}

runtime::task<std::optional<std::string>> refusal_of(amqp::connection& c,
                                                     const queue_description& queue)
{
    amqp::channel spare(c);
    std::optional<std::string> refusal;
    try {
        co_await spare.open();
        (void)co_await spare.declare_queue({.queue = queue.name, .passive = true});
        (void)co_await spare.declare_queue({.queue = queue.name,
                                            .durable = queue.durable,
                                            .exclusive = queue.exclusive,
                                            .auto_delete = queue.auto_delete,
                                            .arguments = queue.arguments.view()});
        co_await spare.close();
    } catch (const amqp::channel_error& refused) {
        refusal = refused.text();
    } catch (const runtime::timed_out& late) {
        refusal = late.what();
    }
    co_return refusal;
}

} // namespace

std::optional<argument_conflict> conflict_in(std::string_view text)
{
    const auto argument = between(text, "inequivalent arg '", "'");
    const auto received = between(text, ": received ", " but current is ");
    const auto current = between(text, " but current is ", {});
    if (!argument || !received || !current)
        return std::nullopt;
    return argument_conflict{std::string(*argument), value_in(*received), value_in(*current)};
}

bool take_over(queue_description& queue, const argument_conflict& conflict)
{
    if (conflict.argument == "durable")
        return take_over_flag(queue.durable, conflict.theirs);
    if (conflict.argument == "auto_delete")
        return take_over_flag(queue.auto_delete, conflict.theirs);
    if (conflict.argument == "exclusive")
        return take_over_flag(queue.exclusive, conflict.theirs);
    if (conflict.argument.size() > argument_name_max)
        return false;
    auto& arguments = queue.arguments;
    if (conflict.theirs == none) // no argument of RabbitMQ has this value
        return arguments.remove(conflict.argument);
    const auto before = arguments;
    if (const auto number = number_in(conflict.theirs))
        arguments.set(conflict.argument, *number);
    else if (conflict.theirs == "true" || conflict.theirs == "false")
        arguments.set(conflict.argument, conflict.theirs == "true");
    else
        arguments.set(conflict.argument, conflict.theirs);
    return arguments != before;
}

runtime::task<queue_differences> find_differences(amqp::connection& c, queue_description ours,
                                                  std::optional<argument_conflict> first)
{
    queue_differences result;
    result.theirs = std::move(ours);
    auto conflict = std::move(first);
    for (int asked = 0; asked < questions_max; ++asked) {
        if (conflict) {
            const bool taken = take_over(result.theirs, *conflict);
            result.found.push_back(std::move(*conflict));
            if (!taken)
                break;
        }
        const auto refusal = co_await refusal_of(c, result.theirs);
        if (!refusal) {
            result.complete = true;
            break;
        }
        conflict = conflict_in(*refusal);
        if (!conflict)
            conflict = unknown_argument_in(*refusal);
        if (!conflict)
            break;
        if (conflict->ours.empty()) {
            const auto value = result.theirs.arguments.view().find(conflict->argument);
            if (!value)
                break;
            amqp::wire::table one;
            one.set_raw(conflict->argument, *value);
            conflict->ours = amqp::wire::describe(one.view());
        }
    }
    co_return result;
}

std::string describe(const queue_differences& differences)
{
    std::vector<std::string> each;
    each.reserve(differences.found.size());
    for (const auto& one : differences.found)
        each.push_back(
            fmt::format("{} is {} there and {} here", one.argument, one.theirs, one.ours));
    const auto list = fmt::format("{}", fmt::join(each, "; "));
    if (!differences.complete)
        return "the one that exists differs at least in this: " + list;
    return fmt::format("the one that exists has arguments {}: {}",
                       amqp::wire::describe(differences.theirs.arguments.view()), list);
}

} // namespace acquit::settle::detail
