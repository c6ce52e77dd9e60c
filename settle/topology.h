#pragma once

#include <acquit/amqp/connection.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/delay.h>
#include <acquit/settle/exchange.h>
#include <acquit/settle/queue_description.h>
#include <acquit/settle/topology_arguments.h>

#include <string>
#include <vector>

/// Making the broker's side as described, or checking that it is there. Everything happens on
/// channels that are thrown away: a passive declare of something that is missing costs its channel.
namespace acquit::settle {

/// A service could not start: what, where, and what to do.
class start_error : public runtime::error {
public:
    using error::error;
    explicit start_error(const std::vector<std::string>& problems);
};

/// The version that the server says it has; 0.0.0 if it is not RabbitMQ.
[[nodiscard]] server_version version_of(const amqp::connection& c);

/// False where the broker says 404; a queue that may not be looked at is a start_error.
[[nodiscard]] runtime::task<bool> queue_exists(amqp::connection& c, std::string queue);

/// Declares the exchanges that may be declared, then their bindings to sources.
[[nodiscard]] runtime::task<> declare_exchanges(amqp::connection& c,
                                                const std::vector<exchange_description>& exchanges);

/// Declares queue, bindings and dead-letter queue; a queue that is only named is checked. Returns
/// the queue's name, which is the server's choice for "". What `delay::native` needs are arguments of
/// the queue; for other delays see delay_topology.h. A queue that exists with other arguments (406)
/// is a start_error that shows both sides'.
[[nodiscard]] runtime::task<std::string> declare_queue(amqp::connection& c,
                                                       const queue_description& queue,
                                                       const retry_limit& limit,
                                                       delay waiting = {});

/// Checks that the queue exists, and its dead-letter queue where one is named.
[[nodiscard]] runtime::task<std::string>
check_queue(amqp::connection& c, const queue_description& queue, const retry_limit& limit);

} // namespace acquit::settle
