#include <acquit/amqp/channel.h>
#include <acquit/settle/detail/argument_conflict.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <utility>

namespace acquit::settle::detail {

namespace {

// More than a queue can have.
constexpr int questions_max = 16;
constexpr std::string_view none = "none";
// RabbitMQ: how a text ends that is longer than a short string.
constexpr std::string_view cut = "...";

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

/// As the broker would write it.
std::string shown(const queue_description& queue, std::string_view argument)
{
    if (argument == "durable")
        return queue.durable ? "true" : "false";
    if (argument == "auto_delete")
        return queue.auto_delete ? "true" : "false";
    if (argument == "exclusive")
        return queue.exclusive ? "true" : "false";
    const auto value = queue.arguments.view().find(argument);
    if (!value)
        return std::string(none);
    if (const auto text = value->as_string())
        return std::string(*text);
    if (const auto number = value->as_int64())
        return std::to_string(*number);
    if (const auto flag = value->as_bool())
        return *flag ? "true" : "false";
    amqp::wire::table one;
    one.set_raw(argument, *value);
    return amqp::wire::describe(one.view());
}

/// Those that the broker refuses on a queue of that type, and so does not compare.
std::vector<std::string_view> foreign_to(std::string_view type)
{
    if (type == settle::name(queue_kind::classic))
        return {"x-delivery-limit",     "x-quorum-initial-group-size", "x-dead-letter-strategy",
                "x-delayed-retry-type", "x-delayed-retry-min",         "x-delayed-retry-max"};
    return {"x-max-priority", "x-queue-mode", "x-queue-version"};
}

std::string or_quotes(const std::string& value)
{
    return value.empty() ? "''" : value;
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
    // One that queues of the broker's type do not have, or not beside the others.
    if (const auto unknown = between(text, "invalid arg '", "'"))
        return argument_conflict{std::string(*unknown), std::string(none)};
    const auto argument = between(text, "inequivalent arg '", "'");
    if (!argument)
        return std::nullopt;
    argument_conflict conflict{std::string(*argument), {}};
    const auto current = between(text, " but current is ", {});
    if (current && !current->ends_with(cut))
        conflict.theirs = value_in(*current);
    return conflict;
}

bool take_over(queue_description& queue, const argument_conflict& conflict)
{
    if (!conflict.theirs)
        return false;
    const std::string& theirs = *conflict.theirs;
    if (conflict.argument == "durable")
        return take_over_flag(queue.durable, theirs);
    if (conflict.argument == "auto_delete")
        return take_over_flag(queue.auto_delete, theirs);
    if (conflict.argument == "exclusive")
        return take_over_flag(queue.exclusive, theirs);
    if (conflict.argument.size() > argument_name_max)
        return false;
    auto& arguments = queue.arguments;
    if (theirs == none) // no argument of RabbitMQ has this value
        return arguments.remove(conflict.argument);
    const auto before = arguments;
    if (const auto number = number_in(theirs))
        arguments.set(conflict.argument, *number);
    else if (theirs == "true" || theirs == "false")
        arguments.set(conflict.argument, theirs == "true");
    else
        arguments.set(conflict.argument, theirs);
    return arguments != before;
}

runtime::task<queue_differences> find_differences(amqp::connection& c, queue_description ours)
{
    queue_differences result;
    result.theirs = ours;
    const auto add = [&](std::string argument, std::string theirs) {
        auto shown_ours = shown(ours, argument);
        result.found.push_back({std::move(argument), std::move(shown_ours), std::move(theirs)});
    };
    std::string left_out; // to make room for the broker's value
    for (int asked = 0; asked < questions_max; ++asked) {
        const auto refusal = co_await refusal_of(c, result.theirs);
        const auto conflict = refusal ? conflict_in(*refusal) : std::nullopt;
        if (!left_out.empty() && (!conflict || conflict->argument != left_out))
            add(std::exchange(left_out, {}), std::string(none));
        result.complete = !refusal;
        if (!conflict)
            break;
        if (!conflict->theirs) {
            if (left_out.empty() && result.theirs.arguments.remove(conflict->argument)) {
                left_out = conflict->argument;
                continue;
            }
            add(conflict->argument, "something else");
            break;
        }
        left_out.clear();
        if (!take_over(result.theirs, *conflict))
            break;
        add(conflict->argument, *conflict->theirs);
        if (conflict->argument == "x-queue-type") {
            for (const auto argument : foreign_to(*conflict->theirs)) {
                if (result.theirs.arguments.remove(argument))
                    add(std::string(argument), std::string(none));
            }
        }
    }
    co_return result;
}

std::string describe(const queue_differences& differences)
{
    std::vector<std::string> each;
    each.reserve(differences.found.size());
    for (const auto& one : differences.found)
        each.push_back(fmt::format("{} is {} there and {} here", one.argument,
                                   or_quotes(one.theirs), or_quotes(one.ours)));
    const auto list = fmt::format("{}", fmt::join(each, "; "));
    if (!differences.complete)
        return "the one that exists differs at least in this: " + list;
    return fmt::format("the one that exists has, as far as the broker tells, arguments {}: {}",
                       amqp::wire::describe(differences.theirs.arguments.view()), list);
}

} // namespace acquit::settle::detail
