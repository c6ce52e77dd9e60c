#include "broker_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace acquit::testing {

void broker_model::serve(peer& p)
{
    p.on_said = [this, &p](const said& what) {
        if (!before || !before(p, what))
            answer(p, what);
    };
    p.on_gone = [this, &p] { end(p); };
}

void broker_model::put(const std::string& name, std::size_t count, std::string_view prefix)
{
    for (std::size_t i = 0; i < count; ++i)
        add(name, fmt::format("{}{}", prefix, i));
    pump();
}

void broker_model::put_body(const std::string& name, std::string body)
{
    add(name, std::move(body));
    pump();
}

void broker_model::add(const std::string& name, std::string body, std::vector<std::byte> properties)
{
    queues_[name].ready.push_back(
        {.body = std::move(body), .properties = std::move(properties), .position = positions_++});
}

void broker_model::put_back(queue& q, message m)
{
    const auto behind = std::find_if(q.ready.begin(), q.ready.end(), [&](const message& each) {
        return each.position > m.position;
    });
    q.ready.insert(behind, std::move(m));
}

void broker_model::answer(peer& p, const said& what)
{
    if (what.channel == 0)
        return;
    channel& c = channels_[{&p, what.channel}];
    c.owner = &p;
    c.number = what.channel;
    if (what.is<wire::channel::close>() || what.is<wire::channel::close_ok>()) {
        end(c);
        channels_.erase({&p, what.channel});
        pump();
    } else if (what.is<wire::queue::declare>()) {
        declare(p, what);
    } else if (what.is<wire::queue::bind>()) {
        p.say(c.number, wire::queue::bind_ok{});
    } else if (what.is<wire::exchange::declare>()) {
        p.say(c.number, wire::exchange::declare_ok{});
    } else if (what.is<wire::exchange::bind>()) {
        p.say(c.number, wire::exchange::bind_ok{});
    } else if (what.is<wire::basic::qos>()) {
        c.prefetch = what.as<wire::basic::qos>().prefetch_count;
        p.say(c.number, wire::basic::qos_ok{});
    } else if (what.is<wire::basic::consume>()) {
        consume(c, what);
    } else if (what.is<wire::basic::cancel>()) {
        cancel(c, what);
    } else if (what.is<wire::basic::get>()) {
        get(c, what);
    } else if (what.is<wire::basic::ack>()) {
        const auto m = what.as<wire::basic::ack>();
        settle(c, m.delivery_tag, m.multiple, verdict::ack);
    } else if (what.is<wire::basic::reject>()) {
        const auto m = what.as<wire::basic::reject>();
        settle(c, m.delivery_tag, false, m.requeue ? verdict::requeue : verdict::drop);
    } else if (what.is<wire::basic::nack>()) {
        const auto m = what.as<wire::basic::nack>();
        settle(c, m.delivery_tag, m.multiple, m.requeue ? verdict::give_back : verdict::drop);
    } else if (what.is<wire::confirm::select>()) {
        c.confirms = true;
        p.say(c.number, wire::confirm::select_ok{});
    } else if (what.is<wire::basic::publish>()) {
        publish(c, what);
    }
}

void broker_model::declare(peer& p, const said& what)
{
    const auto m = what.as<wire::queue::declare>();
    std::string name(m.queue);
    if (name.empty())
        name = fmt::format("amq.gen-{}", ++names_);
    if (m.passive && !queues_.contains(name)) {
        p.close_channel(what.channel, wire::reply_code::not_found,
                        fmt::format("NOT_FOUND - no queue '{}' in vhost '/'", name),
                        wire::id_of<wire::queue::declare>);
        return;
    }
    const auto& q = queues_[name];
    p.say(what.channel,
          wire::queue::declare_ok{.queue = name,
                                  .message_count = static_cast<std::uint32_t>(q.ready.size()),
                                  .consumer_count = static_cast<std::uint32_t>(q.consumers)});
}

void broker_model::consume(channel& c, const said& what)
{
    const auto m = what.as<wire::basic::consume>();
    const std::string name(m.queue);
    if (!queues_.contains(name)) {
        c.owner->close_channel(c.number, wire::reply_code::not_found,
                               fmt::format("NOT_FOUND - no queue '{}' in vhost '/'", name),
                               wire::id_of<wire::basic::consume>);
        return;
    }
    ++queues_[name].consumers;
    c.consumers.push_back({.tag = std::string(m.consumer_tag),
                           .queue = name,
                           .no_ack = m.no_ack,
                           .prefetch = c.prefetch});
    if (!m.no_wait)
        c.owner->say(c.number, wire::basic::consume_ok{.consumer_tag = m.consumer_tag});
    pump();
}

void broker_model::cancel(channel& c, const said& what)
{
    const auto m = what.as<wire::basic::cancel>();
    std::erase_if(c.consumers, [&](const consumer& each) {
        if (each.tag != m.consumer_tag)
            return false;
        --queues_[each.queue].consumers;
        return true;
    });
    if (!m.no_wait)
        c.owner->say(c.number, wire::basic::cancel_ok{.consumer_tag = m.consumer_tag});
}

void broker_model::get(channel& c, const said& what)
{
    const auto m = what.as<wire::basic::get>();
    auto& q = queues_[std::string(m.queue)];
    if (q.ready.empty()) {
        c.owner->say(c.number, wire::basic::get_empty{});
        return;
    }
    message taken = std::move(q.ready.front());
    q.ready.pop_front();
    const auto tag = c.next_tag++;
    ++q.unsettled;
    c.owner->get_ok(c.number, tag, taken.body);
    c.open.emplace(tag, unsettled{std::string(m.queue), "", std::move(taken)});
}

void broker_model::publish(channel& c, const said& what)
{
    const auto found = queues_.find(what.routing_key);
    const bool routed = what.exchange.empty() && found != queues_.end();
    if (routed)
        add(what.routing_key, what.body, what.properties);
    else if (what.mandatory)
        c.owner->give_back(c.number, what);
    if (c.confirms)
        c.owner->say(c.number, wire::basic::ack{.delivery_tag = ++c.publishes});
    pump();
}

void broker_model::settle(channel& c, std::uint64_t tag, bool multiple, verdict how)
{
    const auto named = c.open.find(tag);
    if (named == c.open.end()) {
        ++unknown_tags;
        c.owner->close_channel(c.number, wire::reply_code::precondition_failed,
                               fmt::format("PRECONDITION_FAILED - unknown delivery tag {}", tag),
                               wire::id_of<wire::basic::ack>);
        return;
    }
    if (multiple) {
        while (!c.open.empty() && c.open.begin()->first < tag)
            settle_one(c, c.open.begin(), how);
    }
    settle_one(c, c.open.find(tag), how);
    pump();
}

void broker_model::settle_one(channel& c, std::map<std::uint64_t, unsettled>::iterator which,
                              verdict how)
{
    auto& q = queues_[which->second.queue];
    --q.unsettled;
    for (auto& each : c.consumers) {
        if (each.tag == which->second.consumer)
            --each.outstanding;
    }
    message m = std::move(which->second.m);
    c.open.erase(which);
    switch (how) {
    case verdict::ack:
        q.acked.push_back(std::move(m.body));
        return;
    case verdict::drop:
        q.dropped.push_back(std::move(m.body));
        return;
    case verdict::requeue:
        ++q.requeued;
        put_back(q, std::move(m));
        return;
    case verdict::give_back:
        ++q.given_back;
        put_back(q, std::move(m));
        return;
    }
}

void broker_model::end(channel& c)
{
    for (auto open = c.open.rbegin(); open != c.open.rend(); ++open) {
        auto& q = queues_[open->second.queue];
        --q.unsettled;
        ++q.lost_unsettled;
        put_back(q, std::move(open->second.m));
    }
    c.open.clear();
    for (const auto& each : c.consumers)
        --queues_[each.queue].consumers;
    c.consumers.clear();
}

void broker_model::end(peer& p)
{
    for (auto each = channels_.begin(); each != channels_.end();) {
        if (each->first.first == &p) {
            end(each->second);
            each = channels_.erase(each);
        } else {
            ++each;
        }
    }
    pump();
}

void broker_model::cancel_consumers(const std::string& name)
{
    for (auto& [where, c] : channels_) {
        if (c.owner->session().channel(c.number) != amqp::channel_state::open)
            continue;
        std::erase_if(c.consumers, [&, this](const consumer& each) {
            if (each.queue != name)
                return false;
            --queues_[name].consumers;
            c.owner->say(c.number, wire::basic::cancel{.consumer_tag = each.tag, .no_wait = false});
            return true;
        });
    }
}

void broker_model::remove(const std::string& name)
{
    cancel_consumers(name);
    queues_.erase(name);
}

void broker_model::pump()
{
    if (std::exchange(pumping_, true))
        return;
    for (auto& [where, c] : channels_)
        pump(c);
    pumping_ = false;
}

void broker_model::pump(channel& c)
{
    if (c.owner->session().channel(c.number) != amqp::channel_state::open)
        return;
    for (auto& each : c.consumers) {
        while (!queues_[each.queue].ready.empty() &&
               (each.no_ack || each.prefetch == 0 || each.outstanding < each.prefetch)) {
            deliver(c, each);
        }
    }
}

void broker_model::deliver(channel& c, consumer& to)
{
    auto& q = queues_[to.queue];
    message m = std::move(q.ready.front());
    q.ready.pop_front();
    const auto tag = c.next_tag++;
    ++q.delivered;
    c.owner->deliver(c.number, {.consumer_tag = to.tag,
                                .tag = tag,
                                .body = m.body,
                                .routing_key = to.queue,
                                .redelivered = m.deliveries++ != 0});
    if (to.no_ack)
        return;
    ++q.unsettled;
    ++to.outstanding;
    c.open.emplace(tag, unsettled{to.queue, to.tag, std::move(m)});
}

} // namespace acquit::testing
