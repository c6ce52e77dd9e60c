#include <acquit/amqp/connection.h>
#include <acquit/amqp/wire/settle_frames.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/settler.h>

#include <algorithm>
#include <limits>

namespace acquit::settle {

settler::settler(const flush_policy& policy, std::uint16_t prefetch)
    : turn_hook(runtime::turn_phase::settle), ledger_(prefetch), clock_(policy, prefetch),
      prefetch_(prefetch), credits_(std::size_t{prefetch} + 1)
{
}

std::uint64_t settler::detach() noexcept
{
    const std::uint64_t unwritten = ledger_.unflushed();
    channel_ = nullptr;
    end_run(ledger_.next_tag());
    run_begin_ = run_end_ = 0;
    receives_ = &no_receives;
    ledger_.reset();
    credit_head_ = credit_count_ = 0;
    measured_from_ = 0;
    settled_in_epoch_ = 0;
    timer::cancel();
    turn_hook::take_back();
    paused_ = false;
    return unwritten;
}

void settler::first_decided() noexcept
{
    auto& loop = runtime::loop::current();
    if (ledger_.unflushed() == 1)
        oldest_decided_ = loop.precise_now();
    if (!turn_hook::queued())
        loop.at_turn_end(*this);
}

void settler::at_turn_end() noexcept
{
    if (ledger_.unflushed() == 0 || !writable() || paused_)
        return;
    auto& loop = runtime::loop::current();
    if (clock_.due(loop.now(), ledger_.unflushed(), ledger_.unsettled())) {
        flush();
    } else if (!timer::armed()) {
        timer::arm(loop, clock_.next_deadline(ledger_.unflushed()));
    }
}

void settler::resume() noexcept
{
    paused_ = false;
    at_turn_end();
}

void settler::flush() noexcept
{
    if (ledger_.unflushed() == 0 || !writable())
        return;
    const auto room = channel_->owner().output().reserve(ledger_.flush_size());
    const flush_result written = ledger_.flush(room, channel_->number());
    channel_->owner().output().commit(written.bytes);
    channel_->owner().output_written();

    auto& loop = runtime::loop::current();
    const auto now = loop.precise_now();
    clock_.flushed(loop.now());
    timer::cancel();
    ++metrics_.flushes;
    metrics_.frames += written.frames;
    metrics_.settled += written.settled;
    metrics_.hold_time.record(now - oldest_decided_);
    note_credit(written.settled, now);
}

void settler::give_back(std::uint64_t first, std::uint64_t last) noexcept
{
    if (!writable() || last < first)
        return;
    flush();
    const auto room =
        channel_->owner().output().reserve((last - first + 1) * amqp::wire::settle_frame_size);
    const flush_result written = ledger_.give_back(room, channel_->number(), first, last);
    channel_->owner().output().commit(written.bytes);
    channel_->owner().output_written();
    metrics_.given_back += written.settled;
}

void settler::measure_anew() noexcept
{
    end_run(ledger_.next_tag());
    run_begin_ = run_end_ = 0;
    credit_head_ = credit_count_ = 0;
    measured_from_ = ledger_.next_tag() + prefetch_;
}

void settler::note_credit(std::uint64_t settled, runtime::time_point now) noexcept
{
    settled_in_epoch_ += settled;
    if (credit_count_ == credits_.size() || ledger_.next_tag() < measured_from_)
        return;
    credits_[(credit_head_ + credit_count_) % credits_.size()] = {settled_in_epoch_, now};
    ++credit_count_;
    if (run_begin_ == 0)
        run_end_ = 0; // there is something to measure by now
}

void settler::end_run(std::uint64_t end) const noexcept
{
    if (run_begin_ == 0 || end <= run_begin_)
        return;
    metrics_.settlement_latency.record(run_latency_, end - run_begin_);
    run_begin_ = end;
}

void settler::begin_run(std::uint64_t tag) noexcept
{
    end_run(tag);
    run_begin_ = 0;
    run_receive_ = *receives_;
    run_end_ = run_allowed_to(tag);
}

// Where the run that begins with this tag ends.
std::uint64_t settler::run_allowed_to(std::uint64_t tag) noexcept
{
    if (tag <= prefetch_ || tag < measured_from_)
        return std::max(prefetch_ + 1, measured_from_);
    // The delivery with this tag could be sent once tag - prefetch others were settled.
    const std::uint64_t needed = tag - prefetch_;
    while (credit_count_ != 0 && credits_[credit_head_].until < needed) {
        credit_head_ = (credit_head_ + 1) % credits_.size();
        --credit_count_;
    }
    if (credit_count_ == 0)
        return std::numeric_limits<std::uint64_t>::max(); // until a flush
    run_begin_ = tag;
    run_latency_ = runtime::loop::current().now() - credits_[credit_head_].handed_over;
    return credits_[credit_head_].until + prefetch_ + 1;
}

} // namespace acquit::settle
