#include <acquit/amqp/channel.h>
#include <acquit/settle/delay_topology.h>
#include <acquit/settle/detail/spare_channel.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace acquit::settle {

using detail::on_spare_channel;

namespace {

constexpr std::string_view delayed_exchange_type = "x-delayed-message";
// RabbitMQ: without Mnesia, which the plugin needs.
constexpr server_version no_plugin_since{4, 3, 0};

/// A queue that waits for nobody once its origin is gone.
bool lasts(const queue_description& origin) noexcept
{
    return origin.durable && !origin.exclusive && !origin.auto_delete;
}

queue_description waiting_queue(const queue_description& origin, const std::string& origin_name,
                                const delay& waiting, std::string name)
{
    queue_description queue;
    queue.name = std::move(name);
    queue.kind =
        waiting.waiting_kind().value_or(lasts(origin) ? queue_kind::quorum : queue_kind::classic);
    queue.set_argument("x-queue-type", settle::name(queue.kind));
    queue.set_argument("x-dead-letter-exchange", std::string_view{});
    queue.set_argument("x-dead-letter-routing-key", origin_name);
    if (queue.kind == queue_kind::quorum) {
        queue.set_argument("x-dead-letter-strategy", "at-least-once");
        // Without it the strategy is ignored silently; without a length nothing is ever refused.
        queue.set_argument("x-overflow", settle::name(overflow_policy::reject_publish));
    } else {
        queue.durable = origin.durable;
        queue.exclusive = origin.exclusive;
        // auto_delete means nothing here: no consumer ever leaves a waiting queue.
    }
    return queue;
}

const delay* parking_of(const delay& waiting) noexcept
{
    return waiting.overflow() != nullptr ? waiting.overflow() : &waiting;
}

std::string plugin_missing(const std::string& origin)
{
    return fmt::format(
        "delay::plugin_dme for queue \"{}\": the broker knows no exchange type {}: install the "
        "plugin rabbitmq_delayed_message_exchange (RabbitMQ 3.10 to 4.2) and enable it, or use "
        "delay::dlx_ttl() or delay::buckets()",
        origin, delayed_exchange_type);
}

/// Without asking the broker.
void refuse_by_version(const amqp::connection& c, const std::string& origin, const delay& waiting)
{
    const auto version = version_of(c);
    if (waiting.kind() == delay::mode::plugin_dme && version >= no_plugin_since)
        throw start_error(fmt::format(
            "delay::plugin_dme for queue \"{}\": the plugin rabbitmq_delayed_message_exchange does "
            "not exist for RabbitMQ {} (nor for any from 4.3 on): use delay::dlx_ttl(), "
            "delay::buckets(), or delay::native() on a quorum queue",
            origin, version.text()));
    if (waiting.kind() == delay::mode::native && version < delayed_retry_since)
        throw start_error(fmt::format("delay::native for queue \"{}\": {}", origin,
                                      needs_delayed_retry(version)));
}

runtime::task<> declare_delayed_exchange(amqp::connection& c, const queue_description& origin,
                                         std::string origin_name, std::string exchange)
{
    amqp::wire::table arguments;
    arguments.set("x-delayed-type", "direct");
    try {
        co_await on_spare_channel(
            c,
            detail::declared_as(fmt::format("{} exchange", delayed_exchange_type), exchange,
                                arguments),
            [&](amqp::channel& spare) -> runtime::task<> {
                try {
                    co_await spare.declare_exchange(
                        {.exchange = exchange,
                         .type = delayed_exchange_type,
                         .durable = origin.durable,
                         // With its last binding, that is, with the queue.
                         .auto_delete = origin.exclusive || origin.auto_delete,
                         .arguments = arguments.view()});
                } catch (const amqp::channel_error& refused) {
                    if (refused.text().find("unknown exchange type") == std::string::npos)
                        throw;
                    throw start_error(plugin_missing(origin_name));
                }
            });
    } catch (const amqp::connection_error& refused) { // RabbitMQ 3.x
        if (refused.text().find("unknown exchange type") == std::string::npos)
            throw;
        throw start_error(plugin_missing(origin_name));
    }
    co_await on_spare_channel(
        c, fmt::format("bind queue \"{}\" to exchange \"{}\" by its name", origin_name, exchange),
        [&](amqp::channel& spare) -> runtime::task<> {
            co_await spare.bind_queue(
                {.queue = origin_name, .exchange = exchange, .routing_key = origin_name});
        });
}

/// False where the broker says 404.
runtime::task<bool> exchange_exists(amqp::connection& c, std::string exchange)
{
    bool there = true;
    co_await on_spare_channel(
        c, fmt::format("look for exchange \"{}\"", exchange),
        [&](amqp::channel& spare) -> runtime::task<> {
            try {
                co_await spare.declare_exchange(
                    {.exchange = exchange, .type = delayed_exchange_type, .passive = true});
            } catch (const amqp::channel_error& refused) {
                if (refused.code() != 404)
                    throw;
                there = false;
            }
        });
    co_return there;
}

std::string missing_target(std::string_view what, const std::string& target,
                           const std::string& origin, const delay& waiting,
                           const amqp::wire::table& arguments)
{
    return fmt::format(
        "{} \"{}\" of delay::{} for queue \"{}\" is not there (404 NOT_FOUND), and the "
        "broker would drop what is sent to it: use declare_topology(true), or "
        "declare it with arguments {}",
        what, target, name(waiting.kind()), origin, amqp::wire::describe(arguments.view()));
}

} // namespace

std::vector<queue_description> waiting_queues(const queue_description& origin,
                                              const std::string& origin_name, const delay& waiting)
{
    const delay& parking = *parking_of(waiting);
    std::vector<queue_description> queues;
    if (parking.kind() == delay::mode::dlx_ttl)
        queues.push_back(waiting_queue(origin, origin_name, parking, parking.target(origin_name)));
    if (parking.kind() == delay::mode::buckets) {
        for (const auto step : parking.steps()) {
            auto queue =
                waiting_queue(origin, origin_name, parking, parking.bucket(origin_name, step));
            queue.set_argument("x-message-ttl", std::int64_t{step.count()});
            queues.push_back(std::move(queue));
        }
    }
    return queues;
}

runtime::task<> declare_delay(amqp::connection& c, const queue_description& origin,
                              std::string origin_name, const delay& waiting)
{
    refuse_by_version(c, origin_name, waiting);
    if (waiting.kind() == delay::mode::plugin_dme)
        co_await declare_delayed_exchange(c, origin, origin_name, waiting.target(origin_name));
    const auto queues = waiting_queues(origin, origin_name, waiting);
    for (const auto& queue : queues)
        (void)co_await detail::declare_one(c, queue, queue.arguments);
}

runtime::task<> check_delay(amqp::connection& c, const queue_description& origin,
                            std::string origin_name, const delay& waiting)
{
    refuse_by_version(c, origin_name, waiting);
    if (waiting.kind() == delay::mode::plugin_dme) {
        const auto exchange = waiting.target(origin_name);
        amqp::wire::table arguments;
        arguments.set("x-delayed-type", "direct");
        if (!co_await exchange_exists(c, exchange))
            throw start_error(missing_target(fmt::format("{} exchange", delayed_exchange_type),
                                             exchange, origin_name, waiting, arguments) +
                              ", and bind the queue to it by the queue's name");
    }
    const auto queues = waiting_queues(origin, origin_name, waiting);
    for (const auto& queue : queues) {
        if (!co_await queue_exists(c, queue.name))
            throw start_error(missing_target("waiting queue", queue.name, origin_name,
                                             *parking_of(waiting), queue.arguments));
    }
}

} // namespace acquit::settle
