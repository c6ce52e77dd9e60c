#pragma once

#include <acquit/settle/backoff.h>
#include <acquit/settle/batch.h>
#include <acquit/settle/deferred.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/exchange.h>
#include <acquit/settle/flush_policy.h>
#include <acquit/settle/handler.h>
#include <acquit/settle/histogram.h>
#include <acquit/settle/ledger.h>
#include <acquit/settle/message.h>
#include <acquit/settle/outcome.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/report.h>
#include <acquit/settle/service.h>
#include <acquit/settle/subscription.h>
#include <acquit/settle/topology.h>

/// From deliveries to settlements.
///
/// A broker that works with acknowledgements keeps every message it has sent until somebody answers
/// for it: take it off (`basic.ack`), take it off and dead-letter it (`basic.reject`), or put it
/// back. Answering is half of what a consumer sends, so how it is done decides how fast a queue
/// empties, and what is lost or done twice when a process ends. This room does it:
///
///     handler ----> outcome ----> ledger ----> frames           (one connection, one send per turn)
///      (user)      ack, drop,     (per channel: what is
///                  retry          decided, what is open)
///
/// * `outcome.h`: what a handler decides. It never names a frame.
/// * `ledger.h`, `flush_policy.h`, `settler.h`: decisions become the fewest frames, and when they
///   are written.
/// * `inbox.h`: deliveries wait for handlers, holding the bytes they point to.
/// * `batch.h`, `deferred.h`: many deliveries in one call; decisions made elsewhere.
/// * `deliveries.h`: for who writes the loop alone.
/// * `subscription.h`: one consumer with its handlers, limits and health.
/// * `service.h`: several subscriptions, from the start to the report after the drain.
/// * `queue.h`, `exchange.h`, `topology.h`: what must be on the broker, declared or checked.
///
/// It sees AMQP through `amqp::channel` and `amqp::connection`, and nothing of it sees a socket.
namespace acquit::settle {
}
