/// The settlement ledger of one channel: which deliveries are open, which are decided, and the
/// fewest frames that tell the broker.
///
/// It is pure: no clock, no file descriptor. When to flush is decided beside it (flush_policy.h),
/// who decides an outcome is above it (subscription). Every consumer of a channel shares its ledger,
/// since they share its tag space.
///
///     ledger open{256};
///     open.delivered(1); open.delivered(2); open.delivered(3);
///     open.settle(2, disposition::reject);
///     open.settle(1, disposition::ack);
///     open.settle(3, disposition::ack);
///     std::byte out[3 * 21];
///     open.flush(out, channel);            // basic.reject 2, then basic.ack 3 multiple
///
/// States of a tag:
///
///     delivered()        settle()               flush()
///     ----------> open ----------> acked -----------------> gone
///                  |  \----------> rejected, requeued ----^  ^
///                  \--------- give_back() --------------------/
///     skipped() ------------------------------------> skipped      (never settled: no_ack)
///
/// A ring holds one byte per tag of the window between the oldest and the newest outstanding
/// delivery, at index tag modulo a power of two. When one old delivery stays open while many newer
/// ones come and go, the ring does not grow with the distance: the old one moves to a short side
/// list of stragglers. So memory is proportional to what is outstanding (which prefetch bounds), not
/// to how long a handler takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace acquit::settle {

/// What the broker is told of one delivery. reject is basic.reject requeue=0, requeue is requeue=1;
/// neither is ever a basic.nack (RabbitMQ 4.3: a nack does not count toward a quorum queue's
/// delivery limit).
/// The values are the states that a tag takes: one bit each (see ledger.cc).
enum class disposition : std::uint8_t { reject = 2, requeue = 4, ack = 8 };

enum class settled : std::uint8_t {
    done,  // recorded; the next flush tells the broker
    stale, // nothing is known of this tag: another epoch, never delivered, or long gone. Nothing is
           /// written
    already, // decided before; the first decision stands
};

struct flush_result {
    std::size_t bytes = 0;     // written to the span
    std::uint32_t frames = 0;  // in these bytes
    std::uint64_t settled = 0; // deliveries that these frames settle
    bool complete = true;      // false: the span ended first; call again with more room
};

class ledger {
public:
    /// window_hint: deliveries expected to be outstanding at once (the prefetch). The only
    /// allocations are here and in delivered()/skipped(), when more turn out to be outstanding.
    explicit ledger(std::uint32_t window_hint);

    /// A delivery arrived. Tags of a channel ascend by one (AMQP 0-9-1 1.8.3.13, RabbitMQ). False:
    /// this tag is not the next one, nothing was recorded; the peer is broken, close the channel.
    [[nodiscard]] bool delivered(std::uint64_t tag) { return append(tag, state_open); }

    /// The same for a delivery that needs no settlement: of a no_ack consumer on the same channel.
    [[nodiscard]] bool skipped(std::uint64_t tag)
    {
        if (!append(tag, state_skipped))
            return false;
        ++gone_;
        return true;
    }

    /// Decides one delivery. Never throws, never allocates, writes nothing.
    settled settle(std::uint64_t tag, disposition how) noexcept
    {
        if (tag < base_ || tag >= next_ || state_of(tag) != state_open) [[unlikely]]
            return settle_rare(tag, how);
        state_of(tag) = static_cast<std::uint8_t>(how);
        if (tag < dirty_low_)
            dirty_low_ = tag;
        ++unflushed_;
        return settled::done;
    }

    /// The same by a token that remembers its epoch: stale when the channel is another one now.
    settled settle(std::uint32_t epoch, std::uint64_t tag, disposition how) noexcept
    {
        return epoch == epoch_ ? settle(tag, how) : settled::stale;
    }

    /// Bytes that are enough for flush() to say everything.
    [[nodiscard]] std::size_t flush_size() const noexcept;

    /// Writes settlement frames for everything decided, in ascending tag order, and forgets what it
    /// wrote. With a short span it writes the frames that fit; what remains is valid and comes with
    /// the next call.
    flush_result flush(std::span<std::byte> out, std::uint16_t channel) noexcept;

    /// Gives back what no handler ever saw, uncounted (from RabbitMQ 4.3 on; a quorum queue before
    /// that counts any return): every open tag of [first, last] goes as
    /// basic.nack requeue=1 (the one use of basic.nack). One frame with multiple=1 when nothing else
    /// is outstanding up to last, singles otherwise: so flush() first. Decided tags in the range
    /// keep their decision. The caller answers for it that no open tag of the range is in a handler.
    flush_result give_back(std::span<std::byte> out, std::uint16_t channel, std::uint64_t first,
                           std::uint64_t last) noexcept;

    /// Which channel incarnation this is: 1, 2, ... A token of epoch 0 is always stale.
    [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }

    /// The channel is gone: whatever was open or unflushed is forgotten (the broker requeues it),
    /// every token is stale, and tags start at 1 again.
    void reset() noexcept;

    /// Delivered, no decision yet.
    [[nodiscard]] std::uint64_t unsettled() const noexcept { return outstanding() - unflushed_; }
    /// Decided, not written yet.
    [[nodiscard]] std::uint64_t unflushed() const noexcept { return unflushed_; }
    /// What the broker counts against the prefetch: the sum of both.
    [[nodiscard]] std::uint64_t outstanding() const noexcept { return next_ - 1 - gone_; }
    /// The oldest delivery without a decision, 0 if there is none. For metrics: walks the window.
    [[nodiscard]] std::uint64_t oldest_unsettled_tag() const noexcept;
    /// The tag that the next delivery will have.
    [[nodiscard]] std::uint64_t next_tag() const noexcept { return next_; }

    /// Tags that the ring can hold now. For tests and metrics.
    [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

private:
    struct straggler {
        std::uint64_t tag;
        std::uint8_t state;
    };
    struct low_run;
    class frame_writer;

    static constexpr std::uint8_t state_open = 1;
    static constexpr std::uint8_t state_skipped = 16;

    [[nodiscard]] bool append(std::uint64_t tag, std::uint8_t state)
    {
        if (tag != next_) [[unlikely]]
            return false;
        if (next_ == full_) [[unlikely]]
            make_room();
        state_of(tag) = state;
        ++next_;
        return true;
    }
    void make_room();
    void grow();
    void move_low_half_to_stragglers();
    settled settle_rare(std::uint64_t tag, disposition how) noexcept;

    [[nodiscard]] low_run find_low_run() const noexcept;
    bool write_low_run(frame_writer& out) noexcept;
    bool write_singles(frame_writer& out, std::uint64_t until, std::uint8_t states) noexcept;
    void forget_gone() noexcept;
    void set_base(std::uint64_t tag) noexcept
    {
        base_ = tag;
        full_ = tag + capacity();
    }

    [[nodiscard]] std::uint64_t find(std::uint64_t from, std::uint64_t to,
                                     std::uint8_t states) const noexcept;
    [[nodiscard]] std::uint8_t& state_of(std::uint64_t tag) noexcept { return ring_[tag & mask_]; }

    std::unique_ptr<std::uint8_t[]> ring_;
    std::uint64_t mask_;
    std::uint64_t base_ = 1; // every tag below is gone, skipped or a straggler
    std::uint64_t next_ = 1; // every tag from here on is unknown
    std::uint64_t full_;     // base_ + capacity(): the first tag that has no place
    std::uint64_t gone_ = 0; // how many tags the broker was told of, or that need no settlement
    std::uint64_t unflushed_ = 0; // how many are acked, rejected or requeued, stragglers included
    std::uint64_t dirty_low_ = ~std::uint64_t{0}; // no decided tag of the ring is below
    std::vector<straggler> stragglers_;           // ascending, below base_, outstanding each
    std::uint32_t epoch_ = 1;
};

} // namespace acquit::settle
