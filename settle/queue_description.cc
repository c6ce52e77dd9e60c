#include <acquit/settle/detail/descriptor_text.h>
#include <acquit/settle/queue_description.h>

#include <fmt/format.h>

namespace acquit::settle {
namespace {

void find_name_problems(const queue_description& queue, std::vector<std::string>& problems)
{
    const auto add = [&](std::string_view what) {
        problems.push_back(fmt::format("{}: {}", detail::quoted("queue", queue.name), what));
    };
    if (queue.name.size() > detail::short_string_max)
        add(fmt::format("its name has {} bytes, AMQP allows {}: choose a shorter one",
                        queue.name.size(), detail::short_string_max));
    if (queue.name.empty() && queue.kind == queue_kind::existing)
        add("a queue that exists has a name: give it, or use classic_queue{\"\"} to let the "
            "server make a new one");
    if (queue.name.empty() && queue.kind == queue_kind::quorum)
        add("the server chooses no name for a quorum queue: give one, or use a classic queue");
    if (queue.name.starts_with("amq.") && queue.kind != queue_kind::existing)
        add("names that begin with amq. belong to the server: choose another one");
}

} // namespace

std::string_view name(queue_kind kind) noexcept
{
    switch (kind) {
    case queue_kind::existing:
        return "existing";
    case queue_kind::classic:
        return "classic";
    case queue_kind::quorum:
        return "quorum";
    }
    return "unknown";
}

std::string_view name(overflow_policy policy) noexcept
{
    switch (policy) {
    case overflow_policy::drop_head:
        return "drop-head";
    case overflow_policy::reject_publish:
        return "reject-publish";
    case overflow_policy::reject_publish_dlx:
        return "reject-publish-dlx";
    }
    return "unknown";
}

std::vector<std::string> queue_description::problems() const
{
    std::vector<std::string> found;
    find_name_problems(*this, found);
    found.insert(found.end(), step_problems.begin(), step_problems.end());
    const auto add = [&](std::string_view what) {
        found.push_back(fmt::format("{}: {}", detail::quoted("queue", name), what));
    };

    if (prefetch == 0)
        add("a prefetch of 0 means no limit to the server: give a number from 1 to 65535");
    if (arguments.contains("x-dead-letter-routing-key") &&
        !arguments.contains("x-dead-letter-exchange"))
        add("a dead_letter_routing_key needs a dead_letter_exchange: add it (\"\" is the default "
            "exchange)");
    for (const binding& each : bindings) {
        if (each.exchange.empty())
            add("nothing can be bound to the default exchange: remove the binding, each queue is "
                "reached there by its name");
        if (each.exchange.size() > detail::short_string_max)
            add(fmt::format("is bound to an exchange whose name has {} bytes, AMQP allows {}",
                            each.exchange.size(), detail::short_string_max));
        if (each.key.size() > detail::short_string_max)
            add(fmt::format("is bound by a key of {} bytes, AMQP allows {}", each.key.size(),
                            detail::short_string_max));
    }

    if (kind == queue_kind::quorum) {
        if (!durable || exclusive || auto_delete)
            add("a quorum queue is always durable, never exclusive or auto_delete: use a classic "
                "queue");
        if (arguments.contains("x-max-priority"))
            add("a quorum queue has no x-max-priority: remove it");
        if (text_argument(arguments, "x-overflow") ==
            settle::name(overflow_policy::reject_publish_dlx))
            add("a quorum queue has no overflow reject-publish-dlx: use reject_publish");
    } else if (kind == queue_kind::classic) {
        if (arguments.contains("x-delivery-limit"))
            add("a classic queue has no x-delivery-limit: use max_attempts, or a quorum queue");
    } else if (!arguments.empty() || !bindings.empty()) {
        add("a queue that exists is not declared: its arguments and bindings would be ignored");
    }
    return found;
}

void queue_description::add_problem(std::string_view what)
{
    step_problems.push_back(fmt::format("{}: {}", detail::quoted("queue", name), what));
}

void queue_description::merge_argument(amqp::wire::table& into, std::string_view argument,
                                       const amqp::wire::table& one)
{
    if (const std::string problem = detail::merge_argument(into, argument, one); !problem.empty())
        add_problem(problem);
}

std::optional<std::int64_t> integer_argument(const amqp::wire::table& arguments,
                                             std::string_view argument) noexcept
{
    const auto value = arguments.view().find(argument);
    return value ? value->as_int64() : std::nullopt;
}

std::optional<std::string_view> text_argument(const amqp::wire::table& arguments,
                                              std::string_view argument) noexcept
{
    const auto value = arguments.view().find(argument);
    return value ? value->as_string() : std::nullopt;
}

} // namespace acquit::settle
