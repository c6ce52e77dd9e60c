#pragma once

#include <acquit/runtime/error.h>
#include <acquit/runtime/offload.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/settle.h>

/// Everything for a service that consumes, and the names that it uses daily, without their rooms:
///
///     #include <acquit/acquit.h>
///     using namespace acquit;
///
/// Publishers and others who speak AMQP themselves include <acquit/amqp/publisher.h> or
/// <acquit/amqp/channel.h> as well.
namespace acquit {

using runtime::error;
using runtime::io_error;
using runtime::offload;
using runtime::operation_cancelled;
using runtime::scope;
using runtime::sleep;
using runtime::task;
using runtime::timed_out;
using runtime::with_scope;
using runtime::with_timeout;
using runtime::worker_pool;

using amqp::channel_error;
using amqp::connection_error;
using amqp::publish_error;

using settle::ack;
using settle::backoff;
using settle::classic_queue;
using settle::consistent_hash_exchange;
using settle::copies;
using settle::deferred_delivery;
using settle::delay;
using settle::deliveries;
using settle::delivery;
using settle::direct_exchange;
using settle::drain_policy;
using settle::drop;
using settle::exchange;
using settle::existing_queue;
using settle::fanout_exchange;
using settle::headers_exchange;
using settle::message;
using settle::on_failure;
using settle::outcome;
using settle::owned_delivery;
using settle::quorum_queue;
using settle::report;
using settle::retry;
using settle::retry_after;
using settle::run;
using settle::service;
using settle::start_error;
using settle::subscription;
using settle::timers_at_drain;
using settle::topic_exchange;

using namespace std::chrono_literals; // NOLINT: 60s, in the program of every user

} // namespace acquit
