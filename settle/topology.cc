#include <acquit/amqp/channel.h>
#include <acquit/runtime/log.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <utility>

namespace acquit::settle {

namespace {

/// Runs `verbs` on a channel of its own, and puts `what` before the words of the broker.
runtime::task<> on_spare_channel(amqp::connection& c, std::string what,
                                 std::function<runtime::task<>(amqp::channel&)> verbs)
{
    amqp::channel spare(c);
    try {
        co_await spare.open();
        co_await verbs(spare);
        co_await spare.close();
    } catch (const amqp::channel_error& refused) {
        throw start_error(fmt::format("{}: {} ({})", what, refused.text(), refused.code()));
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

void report(const declared_arguments& arguments)
{
    if (!arguments.problems.empty())
        throw start_error(arguments.problems);
    for (const auto& warning : arguments.warnings)
        runtime::log(runtime::log_level::warning, warning);
}

runtime::task<> check_exists(amqp::connection& c, std::string what, std::string queue)
{
    if (!co_await queue_exists(c, queue)) {
        throw start_error(fmt::format(
            "{} \"{}\" is not there (404 NOT_FOUND; declare_topology(true) would declare it)", what,
            queue));
    }
}

runtime::task<std::string> declare_one(amqp::connection& c, const queue_description& queue,
                                       const amqp::wire::table& arguments)
{
    std::string name = queue.name;
    co_await on_spare_channel(
        c, declared_as(fmt::format("{} queue", settle::name(queue.kind)), queue.name, arguments),
        [&](amqp::channel& spare) -> runtime::task<> {
            auto made = co_await spare.declare_queue({.queue = queue.name,
                                                      .durable = queue.durable,
                                                      .exclusive = queue.exclusive,
                                                      .auto_delete = queue.auto_delete,
                                                      .arguments = arguments.view()});
            name = std::move(made.name);
        });
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

} // namespace

start_error::start_error(const std::vector<std::string>& problems)
    : error(fmt::format("{}", fmt::join(problems, "\n")))
{
}

runtime::task<bool> queue_exists(amqp::connection& c, std::string queue)
{
    bool there = true;
    co_await on_spare_channel(c, fmt::format("look for queue \"{}\"", queue),
                              [&](amqp::channel& spare) -> runtime::task<> {
                                  try {
                                      (void)co_await spare.declare_queue(
                                          {.queue = queue, .passive = true});
                                  } catch (const amqp::channel_error& refused) {
                                      if (refused.code() != 404)
                                          throw;
                                      there = false;
                                  }
                              });
    co_return there;
}

server_version version_of(const amqp::connection& c)
{
    if (c.session().server_product() != "RabbitMQ")
        return {};
    return server_version::parse(c.session().server_version());
}

runtime::task<> declare_exchanges(amqp::connection& c,
                                  const std::vector<exchange_description>& exchanges)
{
    for (const auto& e : exchanges) {
        if (!e.declarable())
            continue;
        co_await on_spare_channel(c, declared_as(e.type + " exchange", e.name, e.arguments),
                                  [&e](amqp::channel& spare) -> runtime::task<> {
                                      co_await spare.declare_exchange(
                                          {.exchange = e.name,
                                           .type = e.type,
                                           .durable = e.durable,
                                           .auto_delete = e.auto_delete,
                                           .internal = e.internal,
                                           .arguments = e.arguments.view()});
                                  });
    }
    for (const auto& e : exchanges) {
        for (const auto& b : e.bindings) {
            co_await on_spare_channel(
                c, fmt::format("bind exchange \"{}\" to \"{}\" by \"{}\"", e.name, b.source, b.key),
                [&](amqp::channel& spare) -> runtime::task<> {
                    co_await spare.bind_exchange({.destination = e.name,
                                                  .source = b.source,
                                                  .routing_key = b.key,
                                                  .arguments = b.arguments.view()});
                });
        }
    }
}

runtime::task<std::string> declare_queue(amqp::connection& c, const queue_description& queue,
                                         const retry_limit& limit)
{
    if (queue.kind == queue_kind::existing)
        co_return co_await check_queue(c, queue, limit);
    const auto version = version_of(c);
    const auto arguments = arguments_of(queue, limit, version);
    report(arguments);
    if (limit.dead_letter) {
        // First, so that nothing can be dead-lettered before there is somewhere to go. One that
        // exists is taken as it is, whatever its type.
        if (!co_await queue_exists(c, *limit.dead_letter)) {
            const auto dead = default_dead_letter_queue(*limit.dead_letter);
            const auto dead_arguments = dead_letter_arguments_of(dead, version);
            report(dead_arguments);
            (void)co_await declare_one(c, dead, dead_arguments.table);
        }
    }
    co_return co_await declare_one(c, queue, arguments.table);
}

runtime::task<std::string> check_queue(amqp::connection& c, const queue_description& queue,
                                       const retry_limit& limit)
{
    co_await check_exists(c, "queue", queue.name);
    if (limit.dead_letter)
        co_await check_exists(c, "dead-letter queue", *limit.dead_letter);
    co_return queue.name;
}

} // namespace acquit::settle
