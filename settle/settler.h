#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/runtime/timer.h>
#include <acquit/runtime/turn_hook.h>
#include <acquit/settle/flush_policy.h>
#include <acquit/settle/histogram.h>
#include <acquit/settle/ledger.h>

#include <cstdint>
#include <vector>

namespace acquit::settle {

/// What settling cost, and how long it took.
struct settlement_metrics {
    std::uint64_t settled = 0; ///< deliveries whose settlement was written
    std::uint64_t frames = 0;  ///< basic.ack and basic.reject frames that carried them
    std::uint64_t flushes = 0;
    std::uint64_t given_back = 0; ///< returned uncounted in a drain (basic.nack)
    /// From handing over the bytes of the settlement that frees a slot of the prefetch window until the
    /// delivery that the slot allows has arrived: of each delivery but the first `prefetch`. It tells of
    /// settling only while the queue has a backlog; without one it holds the wait for messages too.
    /// Never compare it across different prefetch windows.
    histogram settlement_latency;
    /// From a handler's end until the bytes of its settlement are handed over; of each flush, the
    /// longest.
    histogram hold_time;
    // "Handed over" is when bytes enter the connection's output; they leave at the end of that turn, or
    // with the next send where one is in flight.
};

/// A ledger with its channel: decides by the clock when to flush, and writes into the connection's
/// output. It outlives the channel: on the next one the epoch is higher and old tokens are stale.
class settler final : private runtime::turn_hook, private runtime::timer {
public:
    settler(const flush_policy& policy, std::uint16_t prefetch);

    /// From here on settlements go to `c`, whose delivery tags begin at 1.
    void attach(amqp::channel& c) noexcept
    {
        channel_ = &c;
        receives_ = &c.owner().stats().receives;
    }
    /// The channel is gone; what was open on it is the broker's again. Returns how many deliveries
    /// were decided and not written yet: their settlements are stale.
    std::uint64_t detach() noexcept;
    [[nodiscard]] bool attached() const noexcept { return channel_ != nullptr; }

    /// False: the broker sent a tag that is not the next one.
    [[nodiscard]] bool delivered(std::uint64_t tag)
    {
        if (!ledger_.delivered(tag)) [[unlikely]]
            return false;
        if (tag >= run_end_ || *receives_ != run_receive_) [[unlikely]]
            begin_run(tag);
        return true;
    }
    [[nodiscard]] bool skipped(std::uint64_t tag) { return ledger_.skipped(tag); }

    /// Never throws, never allocates, makes no system call: the frame leaves at the end of a turn.
    settled settle(std::uint32_t epoch, std::uint64_t tag, disposition how) noexcept
    {
        const settled result = ledger_.settle(epoch, tag, how);
        if (result == settled::done && (ledger_.unflushed() == 1 || !turn_hook::queued()))
            [[unlikely]]
            first_decided();
        return result;
    }

    /// Keeps back what is decided, so that no slot of the window becomes free, until `resume`.
    void pause() noexcept { paused_ = true; }
    void resume() noexcept;
    /// The broker may send no more before something is settled.
    [[nodiscard]] bool window_full() const noexcept { return ledger_.outstanding() >= prefetch_; }

    /// Writes everything that is decided, now.
    void flush() noexcept;
    /// Returns [first, last] to the queue, uncounted. Nobody may have seen them.
    void give_back(std::uint64_t first, std::uint64_t last) noexcept;
    /// Another consumer begins on the same channel, with a window of its own: the slots of the one
    /// before are no measure for it.
    void measure_anew() noexcept;

    [[nodiscard]] std::uint32_t epoch() const noexcept { return ledger_.epoch(); }
    [[nodiscard]] std::uint64_t unsettled() const noexcept { return ledger_.unsettled(); }
    [[nodiscard]] std::uint64_t unflushed() const noexcept { return ledger_.unflushed(); }
    [[nodiscard]] const settlement_metrics& metrics() const noexcept
    {
        end_run(ledger_.next_tag());
        return metrics_;
    }

private:
    struct credit {
        std::uint64_t until = 0; // number of the last settlement of a flush
        runtime::time_point handed_over{};
    };

    void at_turn_end() noexcept override;
    void on_timer() noexcept override
    {
        if (!paused_)
            flush();
    }
    [[nodiscard]] bool writable() const noexcept
    {
        return channel_ != nullptr && channel_->is_open();
    }
    void note_credit(std::uint64_t settled, runtime::time_point now) noexcept;
    void first_decided() noexcept;
    void begin_run(std::uint64_t tag) noexcept;
    void end_run(std::uint64_t end) const noexcept;
    [[nodiscard]] std::uint64_t run_allowed_to(std::uint64_t tag) noexcept;

    ledger ledger_;
    flush_clock clock_;
    amqp::channel* channel_ = nullptr;
    std::uint64_t prefetch_;
    runtime::time_point oldest_decided_{}; // of what is not flushed
    // Flushes whose freed slots were not used yet: never more than slots.
    std::vector<credit> credits_;
    std::size_t credit_head_ = 0;
    std::size_t credit_count_ = 0;
    std::uint64_t settled_in_epoch_ = 0;
    std::uint64_t measured_from_ = 0; // no tag below is measured
    // Deliveries of one receive whose slots one flush has freed have one latency: they are measured
    // together, as a run of tags.
    mutable std::uint64_t run_begin_ =
        0;                      // first tag that is not recorded yet; 0: the run is not measured
    std::uint64_t run_end_ = 0; // the next run begins here, or with the next receive
    runtime::duration run_latency_{};
    std::uint64_t run_receive_ = 0;
    static constexpr std::uint64_t no_receives = 0;
    const std::uint64_t* receives_ = &no_receives; // of the connection
    mutable settlement_metrics metrics_; // also when somebody looks: a run is recorded late
    bool paused_ = false;
};

} // namespace acquit::settle
