#include "client.h"

#include <fmt/format.h>

#include <algorithm>

/// Settlements, as a broker takes them (AMQP 0-9-1 1.8.3.13 and on): each must name a delivery of
/// this channel that is open.
namespace acquit::firehose {

// False: no channel of ours; the session says what is wrong.
bool client::settle(const settlement& s)
{
    channel* const c = find(s.channel);
    if (c == nullptr)
        return false;
    ++shared_.seen.settlement_frames;
    shared_.seen.multiple_frames += s.multiple ? 1 : 0;
    auto& open = c->open;
    // RabbitMQ: tag 0 with multiple settles all there is, be it nothing.
    const auto tag = s.multiple && s.tag == 0 ? open.next_tag() - 1 : s.tag;
    const auto found = s.multiple && s.tag == 0 ? unsettled::finding::open : open.find(tag);
    if (found != unsettled::finding::open) {
        refuse_settlement(*c, s, found);
        if (!shared_.how.lenient || !s.multiple || found == unsettled::finding::unknown)
            return true;
    }
    if (shared_.pace.active())
        note_latency(*c, s.multiple ? open.low() : tag, tag);
    if (s.multiple)
        open.settle_up_to(
            tag, [&](std::uint8_t slot, std::uint64_t count) { settled(*c, slot, count, s.how); });
    else
        settled(*c, open.settle(tag), 1, s.how);
    if (c->shared_prefetch != 0) { // what one consumer settled, another may get
        for (const auto& each : c->consumers)
            offer(*each);
    }
    return true;
}

void client::settled(channel& c, std::uint8_t slot, std::uint64_t count, verdict how)
{
    auto& seen = shared_.seen;
    consumer& to = *c.consumers[slot - 1u];
    to.outstanding -= count;
    shared_.unsettled -= count;
    switch (how) {
    case verdict::ack:
        seen.acked += count;
        break;
    case verdict::reject:
        seen.rejected += count;
        break;
    case verdict::nack:
        seen.nacked += count;
        break;
    case verdict::requeue:
        seen.requeued += count;
        give_back(*to.from, count);
        break;
    case verdict::nack_requeue:
        seen.given_back += count;
        give_back(*to.from, count);
        break;
    }
    offer(to);
}

void client::note_latency(const channel& c, std::uint64_t first, std::uint64_t last)
{
    const auto now = clock_ns();
    if (c.open.next_tag() > sent_times)
        first = std::max(first, c.open.next_tag() - sent_times);
    for (auto tag = first; tag <= last; ++tag) {
        if (c.open.find(tag) == unsettled::finding::open)
            shared_.seen.settlement_latency.record(
                std::chrono::nanoseconds(now - c.sent_at[tag % sent_times]));
    }
}

void client::refuse_settlement(channel& c, const settlement& s, unsettled::finding found)
{
    auto& seen = shared_.seen;
    ++(found == unsettled::finding::twice ? seen.settled_twice : seen.unknown_tags);
    if (shared_.how.lenient)
        return;
    const std::uint16_t method = s.how == verdict::ack ? wire::basic::ack::method_id
                                 : s.how == verdict::nack || s.how == verdict::nack_requeue
                                     ? wire::basic::nack::method_id
                                     : wire::basic::reject::method_id;
    refuse(c, wire::reply_code::precondition_failed,
           fmt::format("PRECONDITION_FAILED - unknown delivery tag {}", s.tag),
           {wire::class_basic, method});
}

void client::give_back(queue& q, std::uint64_t count)
{
    if (count == 0)
        return;
    q.returned += count;
    for (consumer* const each : q.consumers)
        each->owner->offer(*each);
}

// What was open goes back to its queue; bytes that stand in the batch still go.
void client::end_channel(std::uint16_t number)
{
    channel* const c = find(number);
    if (c == nullptr)
        return;
    shared_.seen.left_unsettled += c->open.open();
    shared_.unsettled -= c->open.open();
    for (const auto& each : c->consumers) {
        if (!each->cancelled)
            std::erase(each->from->consumers, each.get());
        each->cancelled = true;
        each->waiting = false;
        std::erase(waiting_, each.get());
        --consumers_;
    }
    for (const auto& each : c->consumers)
        give_back(*each->from, each->outstanding);
    retired_.push_back(std::move(channels_[number]));
    if (batch_.empty())
        forget_retired();
}

void client::forget_retired() noexcept
{
    for (const auto& c : retired_) {
        for (const auto& each : c->consumers)
            drop_block(*each);
    }
    retired_.clear();
}

} // namespace acquit::firehose
