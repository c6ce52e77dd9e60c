#include <acquit/settle/detail/argument_conflict.h>
#include <acquit/settle/detail/spare_channel.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace acquit::settle {

using detail::declare_one;
using detail::declared_as;
using detail::on_spare_channel;
using detail::refuse_or_warn;

namespace {

// RabbitMQ: the limit of a quorum queue that was declared without one, from 4.0 on.
constexpr std::int64_t default_delivery_limit = 20;

runtime::task<> check_exists(amqp::connection& c, std::string what, std::string queue)
{
    if (!co_await queue_exists(c, queue)) {
        throw start_error(fmt::format(
            "{} \"{}\" is not there (404 NOT_FOUND; declare_topology(true) would declare it)", what,
            queue));
    }
}

/// The broker tells a queue's limit only when it refuses another one.
runtime::task<> warn_of_limit(amqp::connection& c, std::string name, server_version version)
{
    queue_description unlimited;
    unlimited.name = std::move(name);
    unlimited.kind = queue_kind::quorum;
    unlimited.set_argument("x-queue-type", settle::name(unlimited.kind));
    unlimited.set_argument("x-delivery-limit", std::int64_t{-1});
    const auto differences = co_await detail::find_differences(c, unlimited);
    const auto& dead = differences.theirs;
    if (text_argument(dead.arguments, "x-queue-type") != settle::name(queue_kind::quorum))
        co_return;
    for (const auto& one : differences.found) {
        if (one.argument != "x-delivery-limit")
            continue;
        if (dead.arguments.contains("x-delivery-limit")) {
            refuse_or_warn(dead_letter_arguments_of(dead, version));
        } else {
            queue_description limited = dead;
            limited.set_argument("x-delivery-limit", default_delivery_limit);
            refuse_or_warn(dead_letter_arguments_of(limited, version));
        }
    }
}

/// One that exists is taken as it is, whatever its type.
runtime::task<> declare_dead_letter_queue(amqp::connection& c, queue_kind origin, std::string name,
                                          server_version version)
{
    if (co_await queue_exists(c, name)) {
        // Copies, which bring no count, are all that a classic queue sends there.
        if (origin == queue_kind::quorum && version >= count_travels_since)
            co_await warn_of_limit(c, std::move(name), version);
        co_return;
    }
    const auto dead = default_dead_letter_queue(std::move(name));
    const auto arguments = dead_letter_arguments_of(dead, version);
    refuse_or_warn(arguments);
    (void)co_await declare_one(c, dead, arguments.table);
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
                                         const retry_limit& limit, delay waiting)
{
    if (queue.kind == queue_kind::existing)
        co_return co_await check_queue(c, queue, limit);
    const auto version = version_of(c);
    const auto arguments = arguments_of(queue, limit, version, waiting);
    refuse_or_warn(arguments);
    // First, so that nothing can be dead-lettered before there is somewhere to go.
    if (limit.dead_letter)
        co_await declare_dead_letter_queue(c, queue.kind, *limit.dead_letter, version);
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
