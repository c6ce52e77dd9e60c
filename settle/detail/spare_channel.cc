#include <acquit/runtime/log.h>
#include <acquit/settle/detail/argument_conflict.h>
#include <acquit/settle/detail/spare_channel.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>

#include <utility>

namespace acquit::settle::detail {

namespace {

std::string refused(const std::string& what, const amqp::channel_error& e)
{
    return fmt::format("{}: {} ({})", what, e.text(), e.code());
}

runtime::task<std::string> declare_and_name(amqp::connection& c, const queue_description& queue,
                                            const amqp::wire::table& arguments)
{
    const auto what =
        declared_as(fmt::format("{} queue", settle::name(queue.kind)), queue.name, arguments);
    std::string name;
    std::string conflict;
    co_await on_spare_channel(c, what, [&](amqp::channel& spare) -> runtime::task<> {
        try {
            auto made = co_await spare.declare_queue({.queue = queue.name,
                                                      .durable = queue.durable,
                                                      .exclusive = queue.exclusive,
                                                      .auto_delete = queue.auto_delete,
                                                      .arguments = arguments.view()});
            name = std::move(made.name);
        } catch (const amqp::channel_error& e) {
            if (e.text().find("inequivalent arg") == std::string::npos)
                throw;
            conflict = refused(what, e);
        }
    });
    if (!conflict.empty()) {
        queue_description ours = queue;
        ours.arguments = arguments;
        const auto differences = co_await find_differences(c, std::move(ours));
        throw start_error(fmt::format("{}. Of this queue {}. Describe it as it is, or delete it",
                                      conflict, describe(differences)));
    }
    co_return name;
}

} // namespace

runtime::task<> on_spare_channel(amqp::connection& c, std::string what,
                                 std::function<runtime::task<>(amqp::channel&)> verbs)
{
    amqp::channel spare(c);
    try {
        co_await spare.open();
        co_await verbs(spare);
        co_await spare.close();
    } catch (const amqp::channel_error& e) {
        throw start_error(refused(what, e));
    } catch (const runtime::timed_out& late) {
        throw start_error(fmt::format("{}: {}", what, late.what()));
    }
}

std::string declared_as(std::string_view kind, std::string_view name,
                        const amqp::wire::table& arguments)
{
    return fmt::format("declare {} \"{}\" with arguments {}", kind, name,
                       amqp::wire::describe(arguments.view()));
}

void refuse_or_warn(const declared_arguments& arguments)
{
    if (!arguments.problems.empty())
        throw start_error(arguments.problems);
    for (const auto& warning : arguments.warnings)
        runtime::log(runtime::log_level::warning, warning);
}

runtime::task<std::string> declare_one(amqp::connection& c, const queue_description& queue,
                                       const amqp::wire::table& arguments)
{
    std::string name = co_await declare_and_name(c, queue, arguments);
    for (const auto& b : queue.bindings) {
        co_await on_spare_channel(
            c,
            fmt::format("bind queue \"{}\" to exchange \"{}\" by \"{}\"", name, b.exchange, b.key),
            [&](amqp::channel& spare) -> runtime::task<> {
                co_await spare.bind_queue({.queue = name,
                                           .exchange = b.exchange,
                                           .routing_key = b.key,
                                           .arguments = b.arguments.view()});
            });
    }
    co_return name;
}

} // namespace acquit::settle::detail
