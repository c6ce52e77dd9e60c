#pragma once

#include <acquit/runtime/event.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/copy_publisher.h>
#include <acquit/settle/message.h>
#include <acquit/settle/retry_plan.h>
#include <acquit/settle/settler.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace acquit::settle {

/// When an original is settled whose copy is published.
enum class copies : std::uint8_t {
    /// After the broker has confirmed the copy: nothing is lost, whoever dies.
    confirmed,
    /// Before the copy is published, without waiting for its confirm: the slot of the prefetch
    /// window is free at once. Lost: copies that the broker had not confirmed when this process dies.
    /// While too many are open (`retrier::options::unconfirmed_max`), as `confirmed`.
    unconfirmed,
};

struct retry_metrics {
    std::uint64_t delays_dropped = 0; ///< delays that could not be kept, or not all of it
    std::uint64_t dead_lettered = 0;  ///< reached the limit
    std::uint64_t copies_confirmed = 0;
    std::uint64_t copies_failed = 0;  ///< returned, nacked, timed out, lost; tried or given back
    std::uint64_t copies_open = 0;    ///< submitted, not answered
    std::uint64_t hops = 0;           ///< buckets: deliveries that only changed their waiting queue
    std::uint64_t held = 0;           ///< delay::hold keeps these now
    std::uint64_t timers_pending = 0; ///< copies that wait in this process, their originals gone
    std::uint64_t timers_published = 0; ///< of these: published, and confirmed
    std::uint64_t timers_early = 0;     ///< of these: before their time, since the process ends
    /// Of these: neither published nor waiting any more. Messages that are LOST, unless they were
    /// on their way.
    std::uint64_t timers_lost = 0;
    std::uint64_t originals_left = 0; ///< decided, but left unsettled by a drain that was cut short
    std::uint64_t stale = 0; ///< decided, and their channel was gone before they could be settled
};

/// A delivery that was open when a drain was cut short, for the report.
struct unfinished {
    enum class stage : std::uint8_t { in_handler, retry };
    enum class fate : std::uint8_t {
        redelivered, ///< it is unsettled: the broker delivers it again
        lost,        ///< the original is gone, and its copy is not confirmed
    };
    stage where;
    fate what;
    std::string message_id;  ///< "" where it has none, or where nothing was kept of it
    std::string destination; ///< of a copy
};

namespace detail {
/// A place in the retrier's list.
struct retry_link : runtime::list_node {};
} // namespace detail

/// Carries out what becomes of deliveries: settles, publishes copies and settles when these are
/// confirmed, keeps delays. One per subscription; it outlives the subscription's channels.
class retrier {
public:
    struct options {
        retry_rules rules;
        settle::copies order = settle::copies::confirmed;
        std::string counter_header;
        /// Bounds of what waits in this process (D1); past them a delay is dropped, with a warning.
        std::size_t timers_max = 1'000'000;
        /// Of copies::unconfirmed; past it originals wait for their confirms, so that a broker that
        /// takes no copies stops the deliveries.
        std::size_t unconfirmed_max = 4096;
        /// Of all copies whose originals are gone.
        std::size_t alone_bytes_max = std::size_t{512} << 20;
    };

    retrier(options o, settler& settlements, copy_publisher& publisher);
    ~retrier();
    retrier(const retrier&) = delete;
    retrier& operator=(const retrier&) = delete;

    /// The server's name of the queue, where it chose one.
    void queue_name(std::string name) { options_.rules.queue = std::move(name); }

    /// Does what the outcome needs. `stale`: the channel is gone, nothing was done.
    settled decide(const delivery& d, outcome decided);
    /// buckets: sends a delivery that has still to wait on to its next waiting queue. False: it has
    /// not, and is for the handler.
    [[nodiscard]] bool send_on(const delivery& d);

    /// The channel is gone: what was open on it is the broker's again.
    void lose() noexcept;
    /// The process ends. What waits here is published when its time comes, and what cannot be by
    /// then shortly before `until`, early instead of lost; with `now` all of it at once.
    void finish_up(runtime::time_point until, bool now) noexcept;
    /// Returns once nothing is open.
    [[nodiscard]] runtime::task<> idle();
    /// Forgets what is open, and says what it was: the first `names_max` by name.
    [[nodiscard]] std::vector<unfinished> abandon();
    static constexpr std::size_t names_max = 100;

    [[nodiscard]] const retry_metrics& metrics() const noexcept { return counts_; }
    [[nodiscard]] std::size_t open() const noexcept { return open_; }

private:
    class item;
    friend class item;

    settled carry_out(const delivery& d, const retry_plan& plan);
    /// Its header fits a frame of the publisher's connection.
    [[nodiscard]] bool publishable(const copy_message& m) const noexcept;
    [[nodiscard]] bool room_for_timer(std::size_t bytes) const noexcept;
    [[nodiscard]] bool room_for_unconfirmed(std::size_t bytes) const noexcept;
    item& add(const delivery& d, const retry_plan& plan, bool with_copy);
    void remove(item& i) noexcept;
    void count_leaving(item& i) noexcept;
    void submit(item& i) noexcept;
    void settle(item& i, disposition how) noexcept;
    void wait_over(item& i) noexcept;
    void copy_done(item& i, copy_result result) noexcept;
    void rush() noexcept;
    void warn_of_failed_copy(const item& i, copy_result result) noexcept;
    void warn_of_dropped_delay() noexcept;
    [[nodiscard]] std::chrono::nanoseconds pause_after_failure() noexcept;
    [[nodiscard]] bool draining() const noexcept { return draining_; }

    options options_;
    settler& settler_;
    copy_publisher& publisher_;
    runtime::list_node items_; // all that is open, oldest first
    std::size_t open_ = 0;
    std::size_t alone_bytes_ = 0;
    std::size_t unconfirmed_ = 0; // originals gone, and no timers
    retry_metrics counts_;
    runtime::notifier idle_;
    runtime::callback_timer rush_timer_;
    runtime::random_source random_;
    runtime::time_point next_delay_warning_{};
    runtime::time_point next_copy_warning_{};
    runtime::time_point next_failure_step_{};
    std::uint32_t failures_ = 0; // in a row
    bool draining_ = false;
};

} // namespace acquit::settle
