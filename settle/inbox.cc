#include <acquit/amqp/connection.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/inbox.h>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace acquit::settle {

namespace {

/// A delivery that goes back to the free list keeps at most this much memory of its own.
constexpr std::size_t kept_bytes_max = 4096;

void trim(std::vector<std::byte>& bytes) noexcept
{
    if (bytes.capacity() > kept_bytes_max)
        std::vector<std::byte>().swap(bytes);
    else
        bytes.clear();
}

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
    if (!expected) {
        channel_->owner().protocol_violation(
            fmt::format("delivery tag {} on channel {} out of order", content.delivery_tag,
                        channel_->number()));
        return;
    }
    if (direct_ != nullptr) {
        passing_delivery passing;
        passing.read(content, settler_.epoch());
        passing.counter_header_ = counter_header_;
        if (direct_(object_, passing))
            return;
    }
    held_delivery& d = hold(content, segment);
    if (head_ == nullptr && !takers_.empty()) {
        auto& taker = static_cast<take_op&>(takers_.pop_front());
        taker.taken_ = &d;
        ++taken_;
        taker.resume_now();
        return;
    }
    push(d);
    if (no_ack_)
        regulate();
}

held_delivery& inbox::hold(const amqp::content_event& content, const runtime::segment_ref& segment)
{
    if (free_ == nullptr)
        free_ = &storage_.emplace_back();
    held_delivery& d = *std::exchange(free_, free_->next_);
    d.next_ = nullptr;
    d.read(content, settler_.epoch());
    d.counter_header_ = counter_header_;

    auto& connection = channel_->owner();
    const bool crowded = connection.input().held_segments() >= held_segments_max;
    if (!content.body_in_input && !content.body.empty()) {
        d.own_body_ = connection.session().take_body();
        d.body_ = d.own_body_;
    } else if (crowded) {
        d.own_body_.assign(content.body.begin(), content.body.end());
        d.body_ = d.own_body_;
    }
    if (!content.head_in_input || crowded)
        copy_head(d);
    if (!crowded)
        d.segment_ = segment;
    return d;
}

void inbox::copy_head(held_delivery& d)
{
    d.own_.resize(d.exchange_.size() + d.routing_key_.size() + d.properties_.size());
    std::byte* at = d.own_.data();
    const auto copy = [&at](const void* from, std::size_t size) {
        std::byte* const to = at;
        if (size != 0)
            std::memcpy(to, from, size);
        at += size;
        return to;
    };
    d.exchange_ = {reinterpret_cast<const char*>(copy(d.exchange_.data(), d.exchange_.size())),
                   d.exchange_.size()};
    d.routing_key_ = {
        reinterpret_cast<const char*>(copy(d.routing_key_.data(), d.routing_key_.size())),
        d.routing_key_.size()};
    d.properties_ = {copy(d.properties_.data(), d.properties_.size()), d.properties_.size()};
}

void inbox::push(held_delivery& d) noexcept
{
    (tail_ == nullptr ? head_ : tail_->next_) = &d;
    tail_ = &d;
    ++backlog_size_;
    backlog_bytes_ += d.body_.size();
}

held_delivery* inbox::pop() noexcept
{
    held_delivery* const d = head_;
    if (d == nullptr)
        return nullptr;
    head_ = std::exchange(d->next_, nullptr);
    if (head_ == nullptr)
        tail_ = nullptr;
    --backlog_size_;
    backlog_bytes_ -= d->body_.size();
    ++taken_;
    if (paused_)
        regulate();
    return d;
}

void inbox::release(held_delivery& d) noexcept
{
    --taken_;
    d.segment_.reset();
    trim(d.own_);
    trim(d.own_body_);
    d.next_ = std::exchange(free_, &d);
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
    if (!no_ack_)
        (void)withdraw_backlog();
    if (std::exchange(paused_, false))
        channel_->owner().resume_reading();
    channel_ = nullptr;
    return dropped;
}

inbox::tag_range inbox::withdraw_backlog() noexcept
{
    tag_range range;
    while (held_delivery* d = pop()) {
        if (range.count++ == 0)
            range.first = d->tag();
        range.last = d->tag();
        release(*d);
    }
    return range;
}

void inbox::close() noexcept
{
    closed_ = true;
    while (!takers_.empty())
        runtime::loop::current().make_ready(takers_.pop_front());
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
