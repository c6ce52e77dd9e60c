#pragma once

#include "options.h"

#include <acquit/amqp/connection.h>
#include <acquit/runtime/task.h>

#include <string>
#include <vector>

namespace acquit::bench {

/// Makes what a run needs at the broker, or checks that it is there (-p). Queues that the consumers'
/// service declares itself are left to it.
[[nodiscard]] runtime::task<> make_topology(amqp::connection& broker, const options& o);

/// Removes what belongs to this run alone: a queue without a name of the user's, and where its
/// messages waited for a retry.
[[nodiscard]] runtime::task<> remove_topology(amqp::connection& broker, const options& o);

} // namespace acquit::bench
