#pragma once

#include <acquit/settle/queue_description.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::settle {

/// How a subscription keeps the delay of `retry_after(d)`: a new delivery no sooner than d.
///
///     orders.consume(classic_queue{"orders"}, on_order).delay(delay::dlx_ttl());
///
/// | mode | where a message waits | lost when |
/// |---|---|---|
/// | none, classic queue | in this process; the original is gone from the broker | the process dies |
/// | none, quorum queue | nowhere: retried at once, with a warning | |
/// | `hold(budget)` | in its own queue, unsettled | never |
/// | `dlx_ttl()` | in a queue `<queue>.retry`, by expiration | never |
/// | `buckets()` | in queues `<queue>.retry.<ms>`, one per step | never |
/// | `plugin_dme()` | in an exchange of the delayed-message plugin | its node is lost |
/// | `native(min, max)` | in its own quorum queue, by the server (RabbitMQ 4.3) | never |
///
/// "Never" holds while the waiting queue is durable, as we declare it, and the message persistent.
class delay {
public:
    enum class mode : std::uint8_t { none, hold, dlx_ttl, buckets, plugin_dme, native };

    [[nodiscard]] static delay none() { return {}; }
    /// The original stays unsettled until its time has come. Each uses a slot of the prefetch
    /// window: `budget` (at least 1, below the prefetch) bounds how many. A delivery past it, and
    /// one whose delay is beyond three quarters of the broker's delivery acknowledgement timeout
    /// (`x-consumer-timeout` of the queue or consumer, at most 30 min), waits as `overflow_to` says;
    /// without that the delay is cut, with a warning.
    [[nodiscard]] static delay hold(std::uint32_t budget);
    /// One waiting queue. Expired messages leave a queue only from its head: a short delay behind a
    /// long one waits for it.
    [[nodiscard]] static delay dlx_ttl(std::string waiting_queue = {});
    /// One waiting queue per step, so that delays of different length do not block each other. A
    /// delay between steps is reached by hops over the queue itself: never early, and late by less
    /// than the smallest step (beside the time that it waits behind others in the queue at each hop).
    /// Steps ascend, each at least 1 ms; eight from 1 s to 1 h unless given.
    [[nodiscard]] static delay buckets(std::vector<std::chrono::milliseconds> steps = {});
    /// The plugin rabbitmq_delayed_message_exchange: RabbitMQ 3.10 to 4.2. It delays by 2^32 - 1 ms
    /// (49 days) at most; a longer delay is cut to that, with a warning.
    [[nodiscard]] static delay plugin_dme(std::string exchange = {});
    /// The server delays failed messages itself, from `min` growing by `min` with each failure, at
    /// most `max`: quorum queues on RabbitMQ 4.3. It delays `retry()`; the duration of `retry_after`
    /// is not the server's to know.
    [[nodiscard]] static delay native(std::chrono::milliseconds min, std::chrono::milliseconds max);

    /// For `hold`: where deliveries wait that it cannot keep; `dlx_ttl` or `buckets`.
    [[nodiscard]] delay overflow_to(const delay& beyond) const;
    /// For `dlx_ttl` and `buckets`: the type of the waiting queues. Default: quorum with
    /// at-least-once dead-lettering, which loses nothing when the broker is killed while a message
    /// moves back to its queue; classic beside a queue that is not durable.
    [[nodiscard]] delay waiting_in(queue_kind kind) const;

    [[nodiscard]] mode kind() const noexcept { return mode_; }
    [[nodiscard]] std::uint32_t budget() const noexcept { return budget_; }
    [[nodiscard]] const delay* overflow() const noexcept { return overflow_.get(); }
    [[nodiscard]] std::optional<queue_kind> waiting_kind() const noexcept { return waiting_kind_; }
    /// The waiting queue, its prefix for buckets, or the exchange: as named, else by the queue's name
    /// (of one that the server has named: without its "amq.").
    [[nodiscard]] std::string target(const std::string& queue) const;
    [[nodiscard]] std::string bucket(const std::string& queue,
                                     std::chrono::milliseconds step) const;
    [[nodiscard]] const std::vector<std::chrono::milliseconds>& steps() const noexcept
    {
        return steps_;
    }
    [[nodiscard]] std::chrono::milliseconds min() const noexcept { return min_; }
    [[nodiscard]] std::chrono::milliseconds max() const noexcept { return max_; }
    /// Copies are published for it, by this mode or where it overflows to.
    [[nodiscard]] bool copies() const noexcept;

    /// The step for a message that has `left` to wait: the largest that does not overshoot, else the
    /// smallest one.
    [[nodiscard]] std::chrono::milliseconds step_for(std::chrono::nanoseconds left) const;
    /// Why it cannot be used with this queue, or nothing. Needs no connection.
    [[nodiscard]] std::optional<std::string> problem(const queue_description& queue,
                                                     bool declare_topology) const;

private:
    [[nodiscard]] std::optional<std::string> target_problem(const queue_description& queue) const;

    mode mode_ = mode::none;
    std::optional<queue_kind> waiting_kind_;
    std::uint32_t budget_ = 0;
    std::string name_;
    std::vector<std::chrono::milliseconds> steps_;
    std::chrono::milliseconds min_{};
    std::chrono::milliseconds max_{};
    std::shared_ptr<const delay> overflow_;
};

/// RabbitMQ refuses an expiration beyond ten years.
inline constexpr std::uint64_t expiration_max_ms = 315'360'000'000;

[[nodiscard]] std::string_view name(delay::mode m) noexcept;

/// Milliseconds as the broker wants them in `expiration`: never sooner than asked, 1 at least
/// (RabbitMQ: "0" expires at once), expiration_max_ms at most.
[[nodiscard]] std::uint64_t expiration_ms(std::chrono::nanoseconds d) noexcept;

} // namespace acquit::settle
