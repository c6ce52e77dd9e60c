#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/attempt.h>
#include <acquit/settle/backoff.h>
#include <acquit/settle/batch.h>
#include <acquit/settle/copy_publisher.h>
#include <acquit/settle/deferred.h>
#include <acquit/settle/delay.h>
#include <acquit/settle/flush_policy.h>
#include <acquit/settle/handler.h>
#include <acquit/settle/inbox.h>
#include <acquit/settle/queue_description.h>
#include <acquit/settle/retrier.h>
#include <acquit/settle/settler.h>
#include <acquit/settle/topology_arguments.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace acquit::settle {

/// What becomes of a delivery whose handler threw.
enum class on_failure : std::uint8_t {
    retry,
    drop,
    stop, ///< leave it unsettled, drain the service, and let `run()` report the error
};

/// What a drain does with deliveries that no handler has begun.
enum class drain_policy : std::uint8_t {
    finish_received, ///< handle them all (default)
    give_back,       ///< return them to the queue, uncounted where the broker can do so
};

/// What a drain does with messages that wait in this process for their delay to end.
enum class timers_at_drain : std::uint8_t {
    /// Each is published when its time comes (default). Those whose time is beyond the deadline are
    /// published shortly before it: early instead of lost.
    wait,
    publish_now,
};

/// Where a subscription stands.
enum class health : std::uint8_t {
    idle,
    starting,
    consuming,
    reconnecting,
    draining,
    stopped,
    failed
};

[[nodiscard]] const char* name(health h) noexcept;

struct subscription_metrics {
    std::uint64_t received = 0;
    std::uint64_t redelivered = 0;
    std::uint64_t acked = 0;
    std::uint64_t dropped = 0;
    std::uint64_t retried = 0;   ///< `retry()` and `retry_after`, at the limit too
    std::uint64_t failed = 0;    ///< handlers that threw; counted by outcome as well
    std::uint64_t undecided = 0; ///< tokens destroyed unsettled; counted by outcome as well
    std::uint64_t given_back = 0;
    std::uint64_t stale =
        0; ///< outcomes that came after their channel was gone: nothing is written
    std::uint64_t dropped_unhandled =
        0; ///< received, then the channel was lost before a handler took them
    std::uint64_t abandoned =
        0; ///< left unsettled by a drain that was cut short, or by on_failure::stop
    std::uint64_t in_handler = 0; ///< or deferred, and not settled yet
    std::uint64_t waiting = 0;    ///< received, not yet in a handler
    std::uint64_t reopened = 0;   ///< channels and consumers re-established
    retry_metrics retries;
    settlement_metrics settlement;
};

/// What the steps of a subscription say.
struct subscription_settings {
    retry_limit limit;
    settle::delay delay;
    std::optional<settle::backoff> pause; ///< before `retry()`
    settle::copies order = settle::copies::confirmed;
    std::string counter_header{default_counter_header};
    flush_policy flush;
    std::uint32_t concurrency = 1;
    /// Of a batch handler.
    std::optional<batch_options> batch;
    /// For handlers that throw; nothing: `on_failure::stop`.
    std::optional<outcome> failure = retry();
};

/// One consumer of one queue: its handler, its limits, its ledger. Made by `service::consume`, which
/// also says how it lives; the steps are chained on what that returns (subscription_steps.h).
class subscription {
public:
    subscription(queue_description queue, std::unique_ptr<any_handler> handler);
    virtual ~subscription();
    subscription(const subscription&) = delete;
    subscription& operator=(const subscription&) = delete;

    [[nodiscard]] const queue_description& queue() const noexcept { return queue_; }
    [[nodiscard]] health state() const noexcept { return health_; }
    [[nodiscard]] subscription_metrics metrics() const;

    // For the service.

    /// It publishes copies from its first retry on, so that their connection belongs to the start.
    [[nodiscard]] bool publishes_copies() const noexcept;
    /// Names of the queues where its delayed messages wait, as far as they are known before the start.
    [[nodiscard]] std::vector<std::string> waits_in() const;
    /// Everything that is wrong with it; empty: it may start.
    [[nodiscard]] std::vector<std::string> problems(bool declare_topology) const;
    /// Declares or checks the topology, then consumes. Throws what went wrong, with the queue's name.
    [[nodiscard]] runtime::task<> start(amqp::connection& c, bool declare_topology);
    /// Consumes again after the broker ended the consumer or closed the channel. Until cancelled.
    [[nodiscard]] runtime::task<> keep_consuming(amqp::connection& c, bool declare_topology);
    /// Handles deliveries until the inbox is closed. One of `workers()`.
    [[nodiscard]] runtime::task<> work();
    [[nodiscard]] std::uint32_t workers() const noexcept;
    /// Until the inbox is closed and no thread with a token can reach the loop. One, beside the
    /// workers.
    [[nodiscard]] runtime::task<> keep_tokens();
    /// No message waits in this process beyond `until`.
    void finish_up(runtime::time_point until, timers_at_drain timers) noexcept
    {
        retrier_->finish_up(until, timers == timers_at_drain::publish_now);
    }
    /// Cancels the consumer, finishes by policy, settles, and closes the channel.
    [[nodiscard]] runtime::task<> drain(drain_policy policy);
    /// The drain was cut short: writes what is decided; what is not stays with the broker. Handlers
    /// that are cancelled from here on leave their delivery unsettled.
    void abandon();
    /// What `abandon` found open.
    [[nodiscard]] const std::vector<settle::unfinished>& left_unfinished() const noexcept
    {
        return unfinished_;
    }
    /// Until no handler runs, nothing waits for one, and no copy or delay is open.
    [[nodiscard]] runtime::task<> wait_until_done();
    /// The connection is gone.
    void lose() noexcept;
    /// Before the workers begin.
    void prepare(copy_publisher& publisher);
    void close_inbox() noexcept;

    /// Called (once) when `on_failure::stop` applies.
    using stop_request = void (*)(void* service, std::exception_ptr why) noexcept;
    void on_stop(stop_request request, void* service) noexcept
    {
        stop_request_ = request;
        stop_object_ = service;
    }

protected:
    subscription_settings settings_;

private:
    runtime::task<> declare_or_check(amqp::connection& c, bool declare_topology);
    runtime::task<> consume_on_new_channel(amqp::connection& c);
    runtime::task<> consume();
    runtime::task<> consume_again(amqp::connection& c, bool declare_topology);
    runtime::task<> cancel_consumer();
    runtime::task<> settle_to_the_last();
    runtime::task<> work_in_batches();
    void finish_batch(std::span<delivery> all, const batch_outcomes& decided) noexcept;
    void batch_failed(std::span<delivery> all, const std::exception_ptr& why) noexcept;
    /// What a handler returned: for nothing where a token decides.
    void decide(delivery& d, outcome decided) noexcept;
    void token_decided(delivery& d, const outcome* decided) noexcept;
    void finish(delivery& d, outcome decided) noexcept;
    void refuse_oversized(delivery& d) noexcept;
    void handler_failed(delivery& d, std::exception_ptr why) noexcept;
    void apply_failure_policy(delivery& d, std::exception_ptr why) noexcept;
    void leave_unsettled(const delivery& d) noexcept;
    void handle_plain(passing_delivery& d) noexcept;
    /// What no handler shall see.
    bool disposed_of(delivery& d) noexcept;
    [[nodiscard]] std::vector<std::string> retry_problems(bool declare_topology) const;
    [[nodiscard]] std::uint32_t batch_size() const noexcept;
    /// Nothing waits for a handler, none runs, and no token is out.
    [[nodiscard]] bool nothing_in_hand() const noexcept;
    void interrupted(std::exception_ptr why) noexcept;
    void let_go_of_channel() noexcept;
    [[nodiscard]] bool no_ack() const noexcept { return no_ack_; }

    queue_description queue_;
    std::unique_ptr<any_handler> handler_;
    std::unique_ptr<settler> settler_;
    std::unique_ptr<retrier> retrier_;
    std::unique_ptr<inbox> inbox_;
    std::shared_ptr<deferrals> tokens_; // where there is something to settle
    std::unique_ptr<amqp::channel> channel_;
    std::string consumer_tag_;
    std::string queue_name_; // what the server named it, or the name
    runtime::event interrupted_;
    runtime::notifier idle_;
    stop_request stop_request_ = nullptr;
    void* stop_object_ = nullptr;
    subscription_metrics counts_;
    runtime::random_source random_;
    std::vector<settle::unfinished> unfinished_;
    health health_ = health::idle;
    bool cancelling_ = false;
    bool no_ack_;
    bool hops_ = false; // deliveries may have to be sent on
};

} // namespace acquit::settle
