#include "topology.h"

#include "consumer.h"
#include "message.h"

#include <acquit/amqp/channel.h>

namespace acquit::bench {

using runtime::task;

namespace {

task<> check(amqp::channel& ch, const options& o)
{
    if (!o.exchange.empty())
        co_await ch.declare_exchange({.exchange = o.exchange, .passive = true});
    for (const auto& queue : o.queues())
        (void)co_await ch.declare_queue({.queue = queue, .passive = true});
}

task<> declare_queue(amqp::channel& ch, const options& o, const std::string& queue)
{
    amqp::wire::table arguments;
    arguments.set("x-queue-type", o.quorum ? "quorum" : "classic");
    for (const auto& [name, value] : o.queue_arguments)
        set_value(arguments, name, value);
    (void)co_await ch.declare_queue({.queue = queue,
                                     .durable = true,
                                     .auto_delete = o.auto_delete && !o.quorum,
                                     .arguments = arguments.view()});
    if (!o.exchange.empty()) {
        const std::string key = o.routing_key.value_or(queue);
        co_await ch.bind_queue({.queue = queue, .exchange = o.exchange, .routing_key = key});
    }
}

bool is_standard(const std::string& exchange)
{
    return exchange.empty() || exchange.starts_with("amq.");
}

} // namespace

task<> make_topology(amqp::connection& broker, const options& o)
{
    amqp::channel ch(broker);
    co_await ch.open();
    if (o.predeclared) {
        co_await check(ch, o);
    } else {
        if (!is_standard(o.exchange))
            co_await ch.declare_exchange(
                {.exchange = o.exchange, .type = o.exchange_type, .durable = true});
        if (!service_declares(o))
            for (const auto& queue : o.queues())
                co_await declare_queue(ch, o, queue);
    }
    co_await ch.close();
}

task<> remove_topology(amqp::connection& broker, const options& o)
{
    amqp::channel ch(broker);
    co_await ch.open();
    const auto& queue = o.queue;
    // RabbitMQ: deleting what is not there is no error.
    (void)co_await ch.delete_queue({.queue = queue});
    const settle::delay* const kept[] = {&o.delay, o.delay.overflow()};
    for (const auto* each : kept) {
        if (each == nullptr)
            continue;
        const std::string target = each->target(queue);
        if (each->kind() == settle::delay::mode::dlx_ttl) {
            (void)co_await ch.delete_queue({.queue = target});
        } else if (each->kind() == settle::delay::mode::plugin_dme) {
            co_await ch.delete_exchange({.exchange = target});
        }
        for (const auto step : each->steps()) {
            const std::string bucket = each->bucket(queue, step);
            (void)co_await ch.delete_queue({.queue = bucket});
        }
    }
    co_await ch.close();
}

} // namespace acquit::bench
