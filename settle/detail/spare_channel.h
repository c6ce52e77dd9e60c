// Verbs on channels that are thrown away, since a refused one costs its channel, and declaring queues
// by them.
#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/amqp/wire/table.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/queue_description.h>
#include <acquit/settle/topology_arguments.h>

#include <functional>
#include <string>
#include <string_view>

namespace acquit::settle::detail {

// Runs `verbs` on a channel of its own. A refusal, or no answer in time, is a start_error: `what`, and
// the words of the broker.
runtime::task<> on_spare_channel(amqp::connection& c, std::string what,
                                 std::function<runtime::task<>(amqp::channel&)> verbs);

// declare quorum queue "orders" with arguments {...}
[[nodiscard]] std::string declared_as(std::string_view kind, std::string_view name,
                                      const amqp::wire::table& arguments);

// Throws the problems, logs the warnings.
void refuse_or_warn(const declared_arguments& arguments);

// Declares the queue with these arguments and binds it; gives its name. A conflict with a queue that
// exists is a start_error that shows the arguments of both (argument_conflict.h).
runtime::task<std::string> declare_one(amqp::connection& c, const queue_description& queue,
                                       const amqp::wire::table& arguments);

} // namespace acquit::settle::detail
