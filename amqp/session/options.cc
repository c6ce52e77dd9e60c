#include <acquit/amqp/session/options.h>

#include <fmt/format.h>

namespace acquit::amqp {

namespace {

constexpr const char* our_version = "0.1.0";

// The user's fields stand over ours; a `capabilities` of the user's replaces ours as a whole.
wire::table over(wire::table ours, const wire::table& theirs)
{
    for (auto [name, value] : theirs.view()) {
        ours.set_raw(name, value);
    }
    return ours;
}

} // namespace

wire::table client_properties(const client_options& options)
{
    wire::table capabilities;
    // RabbitMQ changes what it does by these: a refused login is said and not just cut off, a
    // deleted queue is announced, a memory alarm is announced.
    capabilities.set("authentication_failure_close", true)
        .set("basic.nack", true)
        .set("connection.blocked", true)
        .set("consumer_cancel_notify", true)
        .set("exchange_exchange_bindings", true)
        .set("publisher_confirms", true);
    wire::table ours;
    ours.set("product", "acquit")
        .set("version", our_version)
        .set("platform", "C++, Linux io_uring")
        .set("capabilities", capabilities);
    if (!options.connection_name.empty()) {
        ours.set("connection_name", options.connection_name);
    }
    return over(std::move(ours), options.properties);
}

wire::table server_properties(const server_options& options)
{
    wire::table capabilities;
    capabilities.set("publisher_confirms", true)
        .set("exchange_exchange_bindings", true)
        .set("basic.nack", true)
        .set("consumer_cancel_notify", true)
        .set("connection.blocked", true)
        .set("consumer_priorities", true)
        .set("authentication_failure_close", true)
        .set("per_consumer_qos", true)
        .set("direct_reply_to", true);
    wire::table ours;
    ours.set("capabilities", capabilities)
        .set("cluster_name", "acquit@localhost")
        .set("platform", "acquit")
        .set("product", options.product)
        .set("version", options.version);
    return over(std::move(ours), options.properties);
}

std::string describe(const client_options& options)
{
    return fmt::format("user {}, vhost {}, frame_size_max {}, channel_max {}, heartbeat {} s",
                       options.user, options.vhost, options.frame_size_max, options.channel_max,
                       options.heartbeat_s);
}

void wipe(std::string& secret) noexcept
{
    volatile char* at = secret.data();
    for (std::size_t i = 0; i < secret.size(); ++i) {
        at[i] = 0;
    }
    secret.clear();
}

} // namespace acquit::amqp
