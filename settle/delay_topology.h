/// The broker's side of delayed retries: waiting queues for `delay::dlx_ttl` and `delay::buckets`, the
/// exchange of `delay::plugin_dme`. Declared, or looked for, before a subscription consumes: a copy to
/// a target that is missing would be dropped by the broker without a word.
///
///     orders.retry         x-queue-type              quorum
///                          x-dead-letter-exchange    ""
///                          x-dead-letter-routing-key orders
///                          x-dead-letter-strategy    at-least-once
///                          x-overflow                reject-publish
///     orders.retry.60000   the same, and
///                          x-message-ttl             60000
///
/// No waiting queue has x-expires: the broker deletes such a queue with the messages in it, also a
/// quorum queue that was declared again in the meantime (rabbitmq-server #5894).
#pragma once

#include <acquit/amqp/connection.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/delay.h>
#include <acquit/settle/queue_description.h>

#include <string>
#include <vector>

namespace acquit::settle {

/// The waiting queues of `dlx_ttl` and `buckets`, also where `hold` overflows to them; none for other
/// modes. `origin_name` is the name that the server knows. Quorum with at-least-once dead-lettering
/// beside an origin that lasts (durable, or only named), else classic, gone when the origin is;
/// `waiting_in` outweighs that.
[[nodiscard]] std::vector<queue_description> waiting_queues(const queue_description& origin,
                                                            const std::string& origin_name,
                                                            const delay& waiting);

/// Declares what the delay needs beside its queue; call it when the queue exists. A conflict with what
/// is there, and a server that cannot do it, is a start_error. RabbitMQ 3.x answers `plugin_dme`
/// without the plugin by closing the connection: that is a start_error here, while `run()` of the
/// connection ends with the broker's 503.
[[nodiscard]] runtime::task<> declare_delay(amqp::connection& c, const queue_description& origin,
                                            std::string origin_name, const delay& waiting);

/// Checks that it is there, creating nothing; a missing target is a start_error that names it. That
/// it leads back to the queue is not seen.
[[nodiscard]] runtime::task<> check_delay(amqp::connection& c, const queue_description& origin,
                                          std::string origin_name, const delay& waiting);

} // namespace acquit::settle
