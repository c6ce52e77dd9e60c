#pragma once

#include "load.h"

namespace acquit::bench {

/// Listens, hands everything on between each client and the target unchanged, and measures what it
/// sees: the settlement latency of other clients by the same rule as that of the load tool. Until its
/// time is over (-z) or a signal comes. A side that reads slowly slows the other one down; bytes that
/// are no AMQP 0-9-1 are handed on all the same, and that is said.
///
/// The client measures a little more than the proxy: the way between them, and what the proxy adds.
[[nodiscard]] runtime::task<result> run_proxy(const options& o, const watcher& seen);

} // namespace acquit::bench
