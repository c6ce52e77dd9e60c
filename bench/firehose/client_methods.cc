#include "client.h"

#include <fmt/format.h>

#include <algorithm>

/// Everything a client may say that is no settlement: all of it is granted.
namespace acquit::firehose {

namespace {

// On one connection. More are refused: each has a block of deliveries.
constexpr std::size_t consumers_max = 4096;
// For the blocks of one connection, about; the first consumers get larger ones than the last.
constexpr std::size_t blocks_size = 32 * 1024 * 1024;
constexpr std::size_t block_size_first = 128 * 1024;
constexpr std::size_t block_size_least = 4 * 1024;
// For those of all connections. A consumer beyond it is refused.
constexpr std::uint64_t all_blocks_size_max = std::uint64_t{2} << 30;

constexpr std::uint32_t key(wire::method_id id) noexcept
{
    return std::uint32_t{id.class_id} << 16 | id.method_id;
}

template <class M>
constexpr std::uint32_t key_of = key(wire::id_of<M>);

template <class M>
M decoded(const amqp::method_event& m) noexcept
{
    M method;
    (void)wire::decode(m.payload, method).ok(); // the session has checked it
    return method;
}

} // namespace

void client::handle(const amqp::event& e)
{
    switch (e.kind) {
    case amqp::event_kind::opened:
        deadline_ns_ = UINT64_MAX;
        break;
    case amqp::event_kind::channel_opened: {
        if (channels_.size() <= e.channel)
            channels_.resize(e.channel + std::size_t{1});
        channels_[e.channel] = std::make_unique<channel>();
        channels_[e.channel]->number = e.channel;
        ++shared_.seen.channels;
        break;
    }
    case amqp::event_kind::channel_closed:
    case amqp::event_kind::channel_close_ok:
        end_channel(e.channel);
        break;
    case amqp::event_kind::method:
        if (channel* const c = find(e.channel))
            answer(*c, session_.method());
        break;
    case amqp::event_kind::content:
        if (channel* const c = find(e.channel)) {
            ++shared_.seen.publishes;
            if (c->confirms && c->publishes++ == c->confirmed)
                to_confirm_.push_back(c->number);
        }
        break;
    case amqp::event_kind::failed:
        ++shared_.seen.protocol_errors;
        [[fallthrough]];
    case amqp::event_kind::closed:
        leave();
        break;
    default:
        break;
    }
    schedule(); // whatever it was, an answer may stand in the output
}

void client::refuse(channel& c, wire::reply_code code, std::string_view text,
                    wire::method_id offender)
{
    (void)session_.close_channel(c.number, code, text, offender);
    end_channel(c.number);
    schedule();
}

void client::confirm_publishes()
{
    for (const auto number : to_confirm_) {
        channel* const c = find(number);
        if (c == nullptr)
            continue;
        say(number, wire::basic::ack{.delivery_tag = c->publishes,
                                     .multiple = c->publishes - c->confirmed > 1});
        c->confirmed = c->publishes;
        schedule();
    }
    to_confirm_.clear();
}

void client::answer(channel& c, const amqp::method_event& m)
{
    switch (m.id.class_id) {
    case wire::class_queue:
        return answer_queue(c, m);
    case wire::class_exchange:
        return answer_exchange(c, m);
    case wire::class_basic:
        return answer_basic(c, m);
    case wire::class_channel:
        if (m.id == wire::id_of<wire::channel::flow>) {
            c.flowing = decoded<wire::channel::flow>(m).active;
            for (const auto& each : c.consumers)
                offer(*each);
        }
        return;
    case wire::class_confirm:
        c.confirms = true;
        if (!decoded<wire::confirm::select>(m).no_wait)
            say(c.number, wire::confirm::select_ok{});
        return;
    default:
        (void)session_.close(wire::reply_code::not_implemented,
                             fmt::format("NOT_IMPLEMENTED - {}", wire::method_name(m.id)), m.id);
    }
}

void client::answer_queue(channel& c, const amqp::method_event& m)
{
    namespace queue = wire::queue;
    switch (key(m.id)) {
    case key_of<queue::declare>: {
        const auto asked = decoded<queue::declare>(m);
        const auto name = asked.queue.empty() ? fmt::format("amq.gen-{}", ++shared_.names)
                                              : std::string(asked.queue);
        const auto* const q = shared_.queues.find(name);
        if (q == nullptr)
            return refuse(c, wire::reply_code::resource_error, "RESOURCE_ERROR - too many queues",
                          m.id);
        const auto count = std::min<std::uint64_t>(q->available(), UINT32_MAX);
        if (!asked.no_wait)
            say(c.number, queue::declare_ok{.queue = name,
                                            .message_count = static_cast<std::uint32_t>(count),
                                            .consumer_count =
                                                static_cast<std::uint32_t>(q->consumers.size())});
        return;
    }
    case key_of<queue::bind>:
        if (!decoded<queue::bind>(m).no_wait)
            say(c.number, queue::bind_ok{});
        return;
    case key_of<queue::unbind>:
        return say(c.number, queue::unbind_ok{});
    case key_of<queue::purge>:
        if (!decoded<queue::purge>(m).no_wait)
            say(c.number, queue::purge_ok{});
        return;
    case key_of<queue::delete_>:
        if (!decoded<queue::delete_>(m).no_wait)
            say(c.number, queue::delete_ok{});
        return;
    default:
        return;
    }
}

void client::answer_exchange(channel& c, const amqp::method_event& m)
{
    namespace exchange = wire::exchange;
    switch (key(m.id)) {
    case key_of<exchange::declare>:
        if (!decoded<exchange::declare>(m).no_wait)
            say(c.number, exchange::declare_ok{});
        return;
    case key_of<exchange::delete_>:
        if (!decoded<exchange::delete_>(m).no_wait)
            say(c.number, exchange::delete_ok{});
        return;
    case key_of<exchange::bind>:
        if (!decoded<exchange::bind>(m).no_wait)
            say(c.number, exchange::bind_ok{});
        return;
    case key_of<exchange::unbind>:
        if (!decoded<exchange::unbind>(m).no_wait)
            say(c.number, exchange::unbind_ok{});
        return;
    default:
        return;
    }
}

void client::answer_basic(channel& c, const amqp::method_event& m)
{
    namespace basic = wire::basic;
    switch (key(m.id)) {
    case key_of<basic::qos>: {
        const auto asked = decoded<basic::qos>(m);
        (asked.global ? c.shared_prefetch : c.prefetch) = asked.prefetch_count;
        say(c.number, basic::qos_ok{});
        for (const auto& each : c.consumers)
            offer(*each);
        return;
    }
    case key_of<basic::consume>:
        return consume(c, decoded<basic::consume>(m));
    case key_of<basic::cancel>:
        return cancel(c, decoded<basic::cancel>(m));
    case key_of<basic::get>:
        return say(c.number, basic::get_empty{});
    case key_of<basic::recover>:
        recover(c);
        return say(c.number, basic::recover_ok{});
    case key_of<basic::recover_async>:
        return recover(c);
    default:
        return;
    }
}

void client::consume(channel& c, const wire::basic::consume& what)
{
    const auto id = wire::id_of<wire::basic::consume>;
    queue* const q = shared_.queues.find(what.queue);
    if (q == nullptr || consumers_ == consumers_max || c.consumers.size() == unsettled::slots_max ||
        shared_.blocks_size > all_blocks_size_max)
        return refuse(c, wire::reply_code::resource_error,
                      "RESOURCE_ERROR - too many queues or consumers", id);
    const auto tag = what.consumer_tag.empty() ? fmt::format("amq.ctag-{}", ++shared_.names)
                                               : std::string(what.consumer_tag);
    for (const auto& each : c.consumers) {
        if (!each->cancelled && each->tag == tag) {
            (void)session_.close(
                wire::reply_code::not_allowed,
                fmt::format("NOT_ALLOWED - attempt to reuse consumer tag '{}'", tag), id);
            return;
        }
    }
    auto made = std::make_unique<consumer>();
    made->owner = this;
    made->on = &c;
    made->from = q;
    made->tag = tag;
    made->deliveries = std::make_unique<belt>(
        belt::description{.channel = c.number,
                          .consumer_tag = tag,
                          .routing_key = what.queue,
                          .frame_size_max = session_.tuned().frame_size_max,
                          .sizes = shared_.how.sizes,
                          .headers = shared_.how.headers,
                          .block_size = std::clamp(blocks_size / (16 * ++consumers_),
                                                   block_size_least, block_size_first)});
    shared_.blocks_size += made->deliveries->bytes();
    made->slot = static_cast<std::uint8_t>(c.consumers.size() + 1);
    made->no_ack = what.no_ack;
    made->prefetch = c.prefetch;
    if (!what.no_wait)
        say(c.number, wire::basic::consume_ok{.consumer_tag = tag});
    shared_.queues.refill(*q);
    q->consumers.push_back(made.get());
    c.consumers.push_back(std::move(made));
    ++shared_.seen.consumers;
    shared_.pace.start(shared_.now_ns);
    offer(*c.consumers.back());
}

void client::cancel(channel& c, const wire::basic::cancel& what)
{
    for (const auto& each : c.consumers) {
        if (each->cancelled || each->tag != what.consumer_tag)
            continue;
        each->cancelled = true;
        std::erase(each->from->consumers, each.get());
        if (each->in_batch == 0)
            drop_block(*each);
    }
    if (!what.no_wait)
        say(c.number, wire::basic::cancel_ok{.consumer_tag = what.consumer_tag});
}

void client::drop_block(consumer& c) noexcept
{
    if (c.deliveries)
        shared_.blocks_size -= c.deliveries->bytes();
    c.deliveries.reset();
}

void client::recover(channel& c)
{
    std::vector<std::uint64_t> counts(c.consumers.size());
    c.open.settle_up_to(c.open.next_tag() - 1, [&](std::uint8_t slot, std::uint64_t count) {
        counts[slot - 1u] += count;
    });
    for (std::size_t i = 0; i < counts.size(); ++i) {
        c.consumers[i]->outstanding -= counts[i];
        shared_.unsettled -= counts[i];
        shared_.seen.recovered += counts[i];
        give_back(*c.consumers[i]->from, counts[i]);
    }
}

} // namespace acquit::firehose
