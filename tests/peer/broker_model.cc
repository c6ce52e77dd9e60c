#include "broker_model.h"

#include "raw_properties.h"

#include <acquit/amqp/wire/table.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace acquit::testing {

void broker_model::serve(peer& p)
{
    serials_.emplace(&p, serials_.size());
    p.on_said = [this, &p](const said& what) {
        if (!before || !before(p, what))
            answer(p, what);
    };
    p.on_gone = [this, &p] { end(p); };
}

void broker_model::put(const std::string& name, std::size_t count, std::string_view prefix)
{
    for (std::size_t i = 0; i < count; ++i)
        enter(name,
              {.body = fmt::format("{}{}", prefix, i), .properties = {}, .routing_key = name});
    pump();
}

void broker_model::put_body(const std::string& name, std::string body)
{
    enter(name, {.body = std::move(body), .properties = {}, .routing_key = name});
    pump();
}

// ---- What clients say ----------------------------------------------------------------------------

broker_model::channel& broker_model::channel_of(peer& p, std::uint16_t number)
{
    channel& c = channels_[{serials_.at(&p), number}];
    c.owner = &p;
    c.number = number;
    return c;
}

bool broker_model::is_open(const channel& c)
{
    return c.owner->session().channel(c.number) == amqp::channel_state::open;
}

void broker_model::answer(peer& p, const said& what)
{
    if (what.channel == 0)
        return;
    channel& c = channel_of(p, what.channel);
    if (what.is<wire::channel::close>() || what.is<wire::channel::close_ok>()) {
        end(c);
        channels_.erase({serials_.at(&p), what.channel});
        pump();
    } else if (what.is<wire::queue::declare>()) {
        declare(c, what);
    } else if (what.is<wire::queue::bind>()) {
        const auto m = what.as<wire::queue::bind>();
        bindings_.insert(
            {std::string(m.exchange), std::string(m.routing_key), std::string(m.queue)});
        p.say(c.number, wire::queue::bind_ok{});
    } else if (what.is<wire::exchange::declare>()) {
        const auto m = what.as<wire::exchange::declare>();
        if (!m.passive)
            exchanges_[std::string(m.exchange)] = std::string(m.type);
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

void broker_model::declare(channel& c, const said& what)
{
    const auto m = what.as<wire::queue::declare>();
    std::string name(m.queue);
    if (name.empty())
        name = fmt::format("amq.gen-{}", ++names_);
    if (m.passive && !queues_.contains(name)) {
        c.owner->close_channel(c.number, wire::reply_code::not_found,
                               fmt::format("NOT_FOUND - no queue '{}' in vhost '/'", name),
                               wire::id_of<wire::queue::declare>);
        return;
    }
    auto& q = queues_[name];
    const std::vector<std::byte> arguments(m.arguments.raw().begin(), m.arguments.raw().end());
    if (!m.passive && q.declared && q.arguments != arguments) {
        c.owner->close_channel(
            c.number, wire::reply_code::precondition_failed,
            fmt::format("PRECONDITION_FAILED - inequivalent arg for queue '{}' in vhost '/'", name),
            wire::id_of<wire::queue::declare>);
        return;
    }
    if (!m.passive && !q.declared) {
        q.arguments = arguments;
        configure(q, m);
    }
    c.owner->say(c.number, wire::queue::declare_ok{
                               .queue = name,
                               .message_count = static_cast<std::uint32_t>(q.ready.size()),
                               .consumer_count = static_cast<std::uint32_t>(q.consumers)});
}

void broker_model::configure(queue& q, const wire::queue::declare& m)
{
    q.declared = true;
    q.quorum = text(m.arguments, "x-queue-type") == "quorum";
    q.dead_letter_exchange = text(m.arguments, "x-dead-letter-exchange");
    q.dead_letter_routing_key = text(m.arguments, "x-dead-letter-routing-key");
    q.message_ttl_ms = number(m.arguments, "x-message-ttl");
    q.delivery_limit = number(m.arguments, "x-delivery-limit");
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
    const std::string name(what.as<wire::basic::get>().queue);
    auto& q = queues_[name];
    expire();
    if (q.ready.empty()) {
        c.owner->say(c.number, wire::basic::get_empty{});
        return;
    }
    message taken = std::move(q.ready.front());
    q.ready.pop_front();
    (void)send(c, name, std::move(taken), nullptr);
}

void broker_model::publish(channel& c, const said& what)
{
    const auto fate = on_publish ? on_publish(what) : publish_fate{};
    if (fate.what == publish_fate::kind::accepted) {
        message m{.body = what.body, .properties = what.properties};
        m.exchange = what.exchange;
        m.routing_key = what.routing_key;
        const auto headers = wire::properties_view(m.properties).headers();
        const auto delay = headers ? number(*headers, "x-delay") : std::nullopt;
        const auto type = exchanges_.find(m.exchange);
        if (delay && type != exchanges_.end() && type->second == "x-delayed-message") {
            // RabbitMQ: the plugin returns what it delays, and delivers it all the same.
            if (what.mandatory)
                c.owner->give_back(c.number, what);
            ++instances_[m.body];
            delayed_.push_back({now() + std::chrono::milliseconds(*delay), std::move(m)});
        } else {
            const auto targets = route(m.exchange, m.routing_key);
            if (targets.empty() && what.mandatory)
                c.owner->give_back(c.number, what);
            for (const auto& target : targets)
                enter(target, m);
        }
    } else if (fate.what == publish_fate::kind::returned) {
        c.owner->give_back(c.number, what);
    }
    if (c.confirms) {
        c.unconfirmed.push_back({++c.publishes, runtime::later(now(), fate.delay),
                                 fate.what == publish_fate::kind::nacked});
        confirm_due(c);
    }
    pump();
}

// One frame for several wherever they are the oldest, as brokers do.
void broker_model::confirm_due(channel& c)
{
    if (!is_open(c)) {
        c.unconfirmed.clear(); // nobody is there to be told
        return;
    }
    const auto due = [](const confirm& each) { return each.due <= now(); };
    const auto first_not =
        std::find_if(c.unconfirmed.begin(), c.unconfirmed.end(),
                     [&](const confirm& each) { return !due(each) || each.nack; });
    if (first_not - c.unconfirmed.begin() > 1) {
        c.owner->say(c.number,
                     wire::basic::ack{.delivery_tag = std::prev(first_not)->tag, .multiple = true});
        c.unconfirmed.erase(c.unconfirmed.begin(), first_not);
    }
    std::erase_if(c.unconfirmed, [&](const confirm& each) {
        if (!due(each))
            return false;
        if (each.nack)
            c.owner->say(c.number, wire::basic::nack{.delivery_tag = each.tag});
        else
            c.owner->say(c.number, wire::basic::ack{.delivery_tag = each.tag});
        return true;
    });
}

void broker_model::settle(channel& c, std::uint64_t tag, bool multiple, verdict how)
{
    const auto named = c.open.find(tag);
    if (named == c.open.end()) {
        ++unknown_tags;
        close_channel(*c.owner, c.number, wire::reply_code::precondition_failed,
                      fmt::format("PRECONDITION_FAILED - unknown delivery tag {}", tag));
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
    const auto tag = which->first;
    unsettled ended = std::move(which->second);
    c.open.erase(which);
    auto& q = queues_[ended.queue];
    --q.unsettled;
    for (auto& each : c.consumers) {
        if (each.tag == ended.consumer)
            --each.outstanding;
    }
    const std::string body = ended.m.body;
    const std::vector<std::byte> properties = ended.m.properties;
    switch (how) {
    case verdict::ack:
        leave(ended.m);
        q.acked.push_back(body);
        break;
    case verdict::drop:
        q.dropped.push_back(body);
        dead_letter(ended.queue, std::move(ended.m), "rejected");
        break;
    case verdict::requeue:
        ++q.requeued;
        put_back(ended.queue, std::move(ended.m), true);
        break;
    case verdict::give_back:
        ++q.given_back;
        put_back(ended.queue, std::move(ended.m), counts_nacks);
        break;
    }
    if (on_settled)
        on_settled({ended.number, tag, ended.queue, body, properties, ended.redelivered}, how);
}

// ---- Ends ----------------------------------------------------------------------------------------

void broker_model::end(channel& c)
{
    for (auto open = c.open.rbegin(); open != c.open.rend(); ++open) {
        auto& q = queues_[open->second.queue];
        --q.unsettled;
        ++q.lost_unsettled;
        put_back(open->second.queue, std::move(open->second.m), true);
    }
    c.open.clear();
    c.unconfirmed.clear();
    for (const auto& each : c.consumers)
        --queues_[each.queue].consumers;
    c.consumers.clear();
}

void broker_model::end(peer& p)
{
    const auto serial = serials_.at(&p);
    for (auto each = channels_.begin(); each != channels_.end();) {
        if (each->first.first == serial) {
            end(each->second);
            each = channels_.erase(each);
        } else {
            ++each;
        }
    }
    pump();
}

bool broker_model::close_channel(peer& p, std::uint16_t channel, wire::reply_code code,
                                 std::string_view text)
{
    const auto found = channels_.find({serials_.at(&p), channel});
    if (found == channels_.end() || !is_open(found->second))
        return false;
    p.close_channel(channel, code, text);
    end(found->second);
    channels_.erase(found);
    pump();
    return true;
}

void broker_model::cancel_consumers(const std::string& name)
{
    for (auto& [where, c] : channels_) {
        if (!is_open(c))
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
    for (const auto& each : queues_[name].ready)
        leave(each);
    queues_.erase(name);
}

// ---- Time and deliveries -------------------------------------------------------------------------

void broker_model::pump()
{
    if (std::exchange(pumping_, true))
        return;
    expire();
    for (auto& [where, c] : channels_)
        pump(c);
    pumping_ = false;
    schedule();
}

void broker_model::pump(channel& c)
{
    if (!is_open(c))
        return;
    for (auto& each : c.consumers) {
        auto& q = queues_[each.queue];
        while (!q.ready.empty() &&
               (each.no_ack || each.prefetch == 0 || each.outstanding < each.prefetch)) {
            message m = std::move(q.ready.front());
            q.ready.pop_front();
            (void)send(c, each.queue, std::move(m), &each);
        }
    }
}

std::uint64_t broker_model::send(channel& c, const std::string& from, message m, consumer* to)
{
    auto& q = queues_[from];
    const auto tag = c.next_tag++;
    const auto serial = ++deliveries_;
    const bool redelivered = m.deliveries++ != 0;
    std::vector<std::byte> properties = m.properties;
    if (q.quorum && m.returns > 0) {
        auto all = decoded(m.properties);
        wire::table headers(all.headers.value_or(wire::table_view{}));
        headers.set("x-delivery-count", m.returns);
        all.headers = headers.view();
        properties = encoded(all);
    }
    const auto check = [](amqp::send_status status) {
        if (status != amqp::send_status::sent)
            throw std::logic_error(fmt::format("cannot deliver: {}", amqp::name(status)));
    };
    ++q.delivered;
    if (to != nullptr) {
        check(
            c.owner->session().send_raw_content(c.number,
                                                wire::basic::deliver{.consumer_tag = to->tag,
                                                                     .delivery_tag = tag,
                                                                     .redelivered = redelivered,
                                                                     .exchange = m.exchange,
                                                                     .routing_key = m.routing_key},
                                                properties, amqp::bytes_of(m.body)));
    } else {
        check(c.owner->session().send_raw_content(
            c.number,
            wire::basic::get_ok{.delivery_tag = tag,
                                .redelivered = redelivered,
                                .exchange = m.exchange,
                                .routing_key = m.routing_key,
                                .message_count = static_cast<std::uint32_t>(q.ready.size())},
            properties, amqp::bytes_of(m.body)));
    }
    c.owner->flush();
    if (to != nullptr && to->no_ack) {
        leave(m);
        return tag;
    }
    ++q.unsettled;
    if (to != nullptr && ++to->outstanding > to->prefetch && to->prefetch != 0)
        ++beyond_prefetch;
    const auto [open, fresh] = c.open.emplace(
        tag, unsettled{from, to != nullptr ? to->tag : "", std::move(m), serial, redelivered});
    if (on_delivered)
        on_delivered(
            {serial, tag, from, open->second.m.body, open->second.m.properties, redelivered});
    return tag;
}

} // namespace acquit::testing
