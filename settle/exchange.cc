#include <acquit/settle/detail/descriptor_text.h>
#include <acquit/settle/exchange.h>

#include <fmt/format.h>

namespace acquit::settle {

bool is_predeclared_exchange(std::string_view name) noexcept
{
    return name.empty() || name.starts_with("amq.");
}

bool exchange_description::declarable() const noexcept
{
    return !is_predeclared_exchange(name);
}

std::vector<std::string> exchange_description::problems() const
{
    std::vector<std::string> found;
    const auto add = [&](std::string_view what) {
        found.push_back(fmt::format("{}: {}", detail::quoted("exchange", name), what));
    };
    if (name.size() > detail::short_string_max)
        add(fmt::format("its name has {} bytes, AMQP allows {}: choose a shorter one", name.size(),
                        detail::short_string_max));
    found.insert(found.end(), step_problems.begin(), step_problems.end());
    if (declarable()) {
        if (type.empty() || type.size() > detail::short_string_max)
            add(fmt::format("its type has {} bytes: name a type of 1 to {}", type.size(),
                            detail::short_string_max));
    } else if (!durable || auto_delete || internal || !arguments.empty()) {
        add("it belongs to the server and is never declared: leave its properties and arguments "
            "alone, or choose a name that does not begin with amq.");
    }
    for (const exchange_binding& each : bindings) {
        if (each.source.empty() || name.empty())
            add("the default exchange cannot be bound: name another one");
        if (each.source.size() > detail::short_string_max)
            add(fmt::format("is bound to an exchange whose name has {} bytes, AMQP allows {}",
                            each.source.size(), detail::short_string_max));
        if (each.key.size() > detail::short_string_max)
            add(fmt::format("is bound by a key of {} bytes, AMQP allows {}", each.key.size(),
                            detail::short_string_max));
    }
    return found;
}

exchange::exchange(std::string name, std::string type)
{
    description_.name = std::move(name);
    description_.type = std::move(type);
}

exchange& exchange::durable(bool yes)
{
    description_.durable = yes;
    return *this;
}

exchange& exchange::auto_delete(bool yes)
{
    description_.auto_delete = yes;
    return *this;
}

exchange& exchange::internal(bool yes)
{
    description_.internal = yes;
    return *this;
}

exchange& exchange::bind_to(std::string source, std::string key, amqp::wire::table arguments)
{
    description_.bindings.push_back({std::move(source), std::move(key), std::move(arguments)});
    return *this;
}

void exchange::merge_argument(std::string_view argument, const amqp::wire::table& one)
{
    const std::string problem = detail::merge_argument(description_.arguments, argument, one);
    if (!problem.empty())
        description_.step_problems.push_back(
            fmt::format("{}: {}", detail::quoted("exchange", description_.name), problem));
}

} // namespace acquit::settle
