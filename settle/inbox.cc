#include <acquit/amqp/connection.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/inbox.h>

#include <fmt/format.h>

#include <utility>

namespace acquit::settle {

namespace {

/// Exchange, routing key and properties of most messages.
constexpr std::size_t head_bytes_usual = 256;

} // namespace

inbox::~inbox()
{
    ACQUIT_ASSERT(taken_ == 0, "inbox destroyed while {} deliveries are being handled", taken_);
    if (paused_)
        channel_->owner().resume_reading();
}

void inbox::on_delivery(const amqp::content_event& content,
                        const runtime::segment_ref& segment) noexcept
{
    ++received_;
    redelivered_ += content.redelivered ? 1 : 0;
    const bool expected =
        no_ack_ ? settler_.skipped(content.delivery_tag) : settler_.delivered(content.delivery_tag);
    if (!expected) [[unlikely]]
        return out_of_order(content.delivery_tag);
    if (direct_ != nullptr) {
        passing_delivery passing;
        passing.read(content, settler_.epoch());
        passing.deferrals_ = deferrals_;
        passing.counter_header_ = counter_header_;
        if (direct_(object_, passing)) [[likely]]
            return;
    }
    held_delivery& d = hold(content, segment);
    if (head_ != nullptr || takers_.empty()) [[unlikely]]
        return keep_for_a_taker(d);
    auto& taker = static_cast<take_op&>(takers_.pop_front());
    taker.taken_ = &d;
    d.in_hand_ = true;
    ++taken_;
    taker.resume_now();
}

void inbox::keep_for_a_taker(held_delivery& d) noexcept
{
    push(d);
    if (no_ack_)
        regulate();
    if (batch_size_ != 0) {
        d.arrived_ = runtime::loop::current().now();
        if (backlog_size_ >= batch_size_)
            hand_out_batches();
        else
            arm_batch_timer();
    }
}

void inbox::out_of_order(std::uint64_t tag) noexcept
{
    channel_->owner().protocol_violation(
        fmt::format("delivery tag {} on channel {} out of order", tag, channel_->number()));
}

held_delivery& inbox::hold(const amqp::content_event& content, const runtime::segment_ref& segment)
{
    if (free_ == nullptr) [[unlikely]] {
        free_ = &storage_.emplace_back();
        // One head in some hundreds lies across two segments. Whichever place it comes to, no memory is
        // taken for it then.
        free_->own_.reserve(head_bytes_usual);
        free_->deferrals_ = deferrals_;
        free_->counter_header_ = counter_header_;
    }
    held_delivery& d = *std::exchange(free_, free_->next_);
    d.next_ = nullptr;
    d.read(content, settler_.epoch());

    const bool crowded = channel_->owner().input().held_segments() >= held_segments_max;
    if (crowded || !content.head_in_input || !content.body_in_input) [[unlikely]]
        own_what_passes(d, content, crowded);
    if (!crowded)
        d.segment_ = segment;
    return d;
}

void inbox::own_what_passes(held_delivery& d, const amqp::content_event& content, bool crowded)
{
    if (!content.body_in_input && !content.body.empty()) {
        d.own_body_ = channel_->owner().session().take_body();
        d.body_ = d.own_body_;
    } else if (crowded) {
        d.own_body_.assign(content.body.begin(), content.body.end());
        d.body_ = d.own_body_;
    }
    if (!content.head_in_input || crowded)
        d.keep_in(d.own_, false);
}

void inbox::push(held_delivery& d) noexcept
{
    (tail_ == nullptr ? head_ : tail_->next_) = &d;
    tail_ = &d;
    ++backlog_size_;
    backlog_bytes_ += d.body_.size();
}

held_delivery* inbox::pop_front() noexcept
{
    held_delivery* const d = head_;
    head_ = std::exchange(d->next_, nullptr);
    if (head_ == nullptr)
        tail_ = nullptr;
    --backlog_size_;
    backlog_bytes_ -= d->body_.size();
    ++taken_;
    d->in_hand_ = true;
    if (paused_)
        regulate();
    return d;
}

void inbox::take_in_batches(std::size_t size, runtime::duration within) noexcept
{
    ACQUIT_ASSERT(size != 0 && !no_ack_, "batches of {} deliveries", size);
    batch_size_ = size;
    batch_within_ = within;
}

bool inbox::batch_is_due() const noexcept
{
    return head_ != nullptr &&
           (backlog_size_ >= batch_size_ || no_more_ || closed_ ||
            runtime::loop::current().now() >= runtime::later(head_->arrived_, batch_within_));
}

std::size_t inbox::pop_batch(std::span<held_delivery*> into) noexcept
{
    ACQUIT_DEBUG_ASSERT(into.size() >= batch_size_, "room for {} deliveries in a batch of {}",
                        into.size(), batch_size_);
    std::size_t count = 0;
    while (count < batch_size_ && head_ != nullptr)
        into[count++] = pop();
    return count;
}

void inbox::hand_out_batches() noexcept
{
    while (!batch_takers_.empty() && batch_is_due()) {
        auto& taker = static_cast<take_batch_op&>(batch_takers_.pop_front());
        taker.count_ = pop_batch(taker.into_);
        taker.resume_now();
    }
    arm_batch_timer();
}

void inbox::arm_batch_timer() noexcept
{
    // While every taker is at work it would fire for nothing: whoever comes back looks by itself. And
    // it stays where it is when its delivery was taken with a full batch, rather than move with each.
    if (head_ != nullptr && !batch_takers_.empty() && !batch_timer_.armed())
        batch_timer_.arm(runtime::loop::current(), runtime::later(head_->arrived_, batch_within_));
}

void inbox::no_more() noexcept
{
    no_more_ = true;
    // Not on the caller's stack, which may be deep in anything.
    if (!batch_takers_.empty() && head_ != nullptr)
        batch_timer_.arm(runtime::loop::current(), runtime::loop::current().now());
}

void inbox::regulate() noexcept
{
    const bool full =
        backlog_size_ >= backlog_max_no_ack || backlog_bytes_ >= backlog_bytes_max_no_ack;
    const bool half =
        backlog_size_ <= backlog_max_no_ack / 2 && backlog_bytes_ <= backlog_bytes_max_no_ack / 2;
    if (!paused_ && full) {
        paused_ = true;
        channel_->owner().pause_reading();
    } else if (paused_ && half) {
        paused_ = false;
        channel_->owner().resume_reading();
    }
}

std::size_t inbox::detach() noexcept
{
    // Without acknowledgements the broker has forgotten them: they are still to be handled.
    const std::size_t dropped = no_ack_ ? 0 : backlog_size_;
    while (!no_ack_ && withdraw_run().count != 0) {
    }
    if (std::exchange(paused_, false))
        channel_->owner().resume_reading();
    channel_ = nullptr;
    return dropped;
}

inbox::tag_range inbox::withdraw_run() noexcept
{
    tag_range range;
    while (head_ != nullptr && (range.count == 0 || head_->tag() == range.last + 1)) {
        held_delivery& d = *pop();
        if (range.count++ == 0)
            range.first = d.tag();
        range.last = d.tag();
        release(d);
    }
    return range;
}

void inbox::close() noexcept
{
    closed_ = true;
    batch_timer_.cancel(); // it would outlive its loop
    while (!takers_.empty())
        runtime::loop::current().make_ready(takers_.pop_front());
    while (!batch_takers_.empty())
        runtime::loop::current().make_ready(batch_takers_.pop_front());
}

void inbox::on_server_cancel() noexcept
{
    if (notice_ != nullptr)
        notice_(notice_object_, nullptr);
}

void inbox::on_channel_lost(std::exception_ptr why) noexcept
{
    if (notice_ != nullptr)
        notice_(notice_object_, std::move(why));
}

} // namespace acquit::settle
