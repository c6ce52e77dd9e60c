#pragma once

#include <acquit/amqp/connection_options.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/backoff.h>
#include <acquit/settle/copy_publisher.h>
#include <acquit/settle/exchange.h>
#include <acquit/settle/handler.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/report.h>
#include <acquit/settle/subscription_steps.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::settle {

/// Consumes from any number of queues until it is told to stop, then drains.
///
///     service orders{"amqp://guest:guest@localhost"};
///     orders.declare_topology(true);
///     orders.consume(quorum_queue{"orders"}.prefetch(256), on_order).concurrency(32);
///     return run(orders);
///
/// Start: connect; per subscription exchanges, queue, bindings and dead-letter queue are declared or
/// checked, then qos and consume. What fails at the start ends `run()` with an error that names the
/// cause. Once it runs, a lost connection is made again with backoff, for ever; whatever was open
/// then is delivered again by the broker, and outcomes that come too late are stale and reported.
///
/// Copies of messages (retries with a limit on classic queues, most delays) are published on a
/// connection of their own, in confirm mode; their originals are settled when the broker has them.
///
/// Drain, on `stop()`: consumers are cancelled, what was received is handled (or given back, by
/// policy), delays that this process keeps come to their end, copies are confirmed, settlements are
/// written, a round trip proves that the broker has them, and channels and
/// connection close with their handshakes. One deadline bounds it; `abort()` ends it early.
class service {
public:
    /// Throws `amqp::connection_error` for an address that cannot be read.
    explicit service(std::string_view address);
    explicit service(amqp::connection_options connection);
    ~service();
    service(const service&) = delete;
    service& operator=(const service&) = delete;

    // What it consists of; before it runs.

    /// True: exchanges, queues and bindings are declared. False (default): nothing is created, and
    /// what is needed is checked.
    service& declare_topology(bool yes);
    service& exchange(exchange_description e);
    /// The steps of the result (`concurrency`, `max_attempts`, ...) belong to this subscription; see
    /// subscription_steps.h. A queue that is only named is taken as it is.
    template <handler H>
    quorum_subscription& consume(quorum_queue queue, H handler)
    {
        return add<quorum_subscription>(std::move(queue), erase_handler(std::move(handler)));
    }
    template <handler H>
    classic_subscription& consume(classic_queue queue, H handler)
    {
        return add<classic_subscription>(std::move(queue), erase_handler(std::move(handler)));
    }
    template <handler H>
    existing_subscription& consume(existing_queue queue, H handler)
    {
        return add<existing_subscription>(std::move(queue), erase_handler(std::move(handler)));
    }
    template <handler H>
    existing_subscription& consume(std::string queue, H handler)
    {
        return consume(existing_queue(std::move(queue)), std::move(handler));
    }
    service& drain(drain_policy policy);
    service& drain_timers(timers_at_drain policy);
    /// How long a drain may take. Default 30 s.
    service& drain_deadline(std::chrono::nanoseconds limit);
    /// How long the first connection may be refused or silent before the start fails. Default 30 s;
    /// a refused login or vhost fails at once.
    service& start_deadline(std::chrono::nanoseconds limit);
    service& reconnect_backoff(backoff policy);
    /// Shown by the broker's tools.
    service& name(std::string connection_name);

    // Running.

    /// Serves until `stop()` and the drain. Throws `start_error` or `connection_error` when it could
    /// not start; later troubles are in the report.
    [[nodiscard]] runtime::task<report> run();
    /// From any thread, any number of times, at any moment: before the start, during it, while
    /// reconnecting.
    void stop();
    /// Ends a drain at once: handlers are cancelled, what they held is reported. From any thread.
    void abort();
    /// Returns once every subscription consumes (again); at once if they do. Throws `start_error` if the
    /// service ended before it ever consumed.
    [[nodiscard]] runtime::task<> started();

    [[nodiscard]] std::size_t size() const noexcept { return subscriptions_.size(); }
    [[nodiscard]] subscription& operator[](std::size_t i) noexcept { return *subscriptions_[i]; }
    /// Connections that were made anew and consume again.
    [[nodiscard]] std::uint64_t reconnects() const noexcept { return reconnects_; }

private:
    enum class phase : std::uint8_t {
        connecting,
        starting,
        consuming,
        stopping,
        draining,
        closing
    };

    template <class Subscription>
    Subscription& add(queue_description queue, std::unique_ptr<any_handler> handler)
    {
        auto made = std::make_unique<Subscription>(std::move(queue), std::move(handler));
        Subscription& added = *made;
        add(std::move(made));
        return added;
    }
    void add(std::unique_ptr<subscription> made);
    void refuse_problems() const;
    void find_shared_waiting_queues(std::vector<std::string>& problems) const;
    runtime::task<> serve();
    runtime::task<> one_connection();
    /// `refused`: what made the start fail, if it did.
    runtime::task<> serve_on(amqp::connection& c, std::exception_ptr& refused);
    runtime::task<> start_on(amqp::connection& c);
    runtime::task<> connect_for_copies();
    runtime::task<> consume_until_stopped(amqp::connection& c);
    /// What waits in this process comes to its end within the drain.
    void finish_up() noexcept;
    runtime::task<> drain_subscriptions();
    runtime::task<> drain_within_deadline();
    runtime::task<> wait_until_done();
    /// Until it is done, the drain's deadline is over, or somebody aborts.
    runtime::task<> until_cut_short(runtime::task<> what);
    runtime::task<> abortable(runtime::task<> what);
    runtime::task<> cancel_when_stopped(runtime::scope& starting);
    /// A verb that nobody answers holds a stop no longer than the drain may take.
    runtime::task<> leave_when_late();
    runtime::task<> pause_before_reconnect(std::uint32_t attempt);
    [[nodiscard]] bool worth_another_attempt(const std::exception_ptr& why) const;
    void request_stop(std::exception_ptr why) noexcept;
    void ask(bool abort);
    void begin_to_stop() noexcept;
    void cut_short() noexcept;
    /// Without a goodbye.
    void leave() noexcept;
    /// What is left of the one deadline.
    [[nodiscard]] std::chrono::nanoseconds time_to_drain() const noexcept;
    /// The same, but never nothing; little after an abort.
    [[nodiscard]] std::chrono::nanoseconds time_to_say_goodbye() const noexcept;
    [[nodiscard]] report make_report() const;

    amqp::connection_options connection_;
    std::vector<exchange_description> exchanges_;
    std::vector<std::unique_ptr<subscription>> subscriptions_;
    backoff reconnect_backoff_ = backoff::exponential({});
    std::chrono::nanoseconds drain_deadline_ = std::chrono::seconds(30);
    std::chrono::nanoseconds start_deadline_ = std::chrono::seconds(30);
    std::unique_ptr<copy_publisher> copies_; // while it runs
    drain_policy drain_policy_ = drain_policy::finish_received;
    timers_at_drain drain_timers_ = timers_at_drain::wait;
    bool declare_topology_ = false;

    runtime::event stop_;
    runtime::event started_;
    runtime::scope* connected_ = nullptr; // everything that lives on the connection of now
    runtime::scope* draining_ = nullptr;
    runtime::random_source random_;
    runtime::time_point first_attempt_{};
    std::exception_ptr error_;
    std::chrono::nanoseconds drain_time_{};
    std::uint64_t reconnects_ = 0;
    runtime::time_point last_start_{};
    runtime::time_point drain_until_{};
    phase phase_ = phase::connecting;
    bool ran_ = false;
    bool over_ = false;
    bool started_once_ = false;
    bool cut_short_ = false;
    bool left_ = false; // by an abort that ended the connection without a goodbye

    // Between `stop()` on any thread and the loop's thread.
    std::mutex asked_mutex_;
    runtime::loop* loop_ = nullptr;
    // This, until `run` is over: what was posted to the loop may outlive the service. Pointed-to: the
    // loop's thread only.
    std::shared_ptr<service*> running_;
    bool asked_to_stop_ = false;
    bool asked_to_abort_ = false;
};

/// Runs the service on a loop of its own until SIGINT or SIGTERM, drains, prints the report to
/// stderr, and returns an exit status: 0 after a clean drain. A second signal cuts the drain short.
[[nodiscard]] int run(service& s);

} // namespace acquit::settle
