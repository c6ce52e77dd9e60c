#include "broker_model.h"
#include "raw_properties.h"

#include <algorithm>
#include <charconv>
#include <utility>

/// Where the messages of a broker_model are, and when they move on by themselves.
namespace acquit::testing {

wire::properties decoded(const std::vector<std::byte>& raw)
{
    wire::properties p;
    (void)wire::properties_view(raw).decode(p).ok();
    return p;
}

std::vector<std::byte> encoded(const wire::properties& p)
{
    std::vector<std::byte> bytes(wire::encoded_size(p));
    bytes.resize(wire::encode(bytes, p));
    return bytes;
}

std::optional<std::int64_t> number(wire::table_view table, std::string_view name)
{
    const auto value = table.find(name);
    return value ? value->as_int64() : std::nullopt;
}

std::optional<std::string> text(wire::table_view table, std::string_view name)
{
    const auto value = table.find(name);
    const auto found = value ? value->as_string() : std::nullopt;
    return found ? std::optional<std::string>(*found) : std::nullopt;
}

std::optional<std::int64_t> expiration_ms(const wire::properties& p)
{
    if (!p.expiration)
        return std::nullopt;
    std::int64_t ms = 0;
    std::from_chars(p.expiration->data(), p.expiration->data() + p.expiration->size(), ms);
    return ms;
}

void broker_model::enter(const std::string& name, message m)
{
    auto& q = queues_[name];
    m.position = positions_++;
    auto ttl = q.message_ttl_ms;
    if (const auto own = expiration_ms(decoded(m.properties)))
        ttl = ttl ? std::min(*ttl, *own) : own;
    if (ttl)
        m.expires = runtime::later(now(), std::chrono::milliseconds(*ttl));
    ++instances_[m.body];
    q.ready.push_back(std::move(m));
    if (on_entered)
        on_entered(name, q.ready.back());
}

void broker_model::leave(const message& m)
{
    const auto found = instances_.find(m.body);
    if (--found->second == 0)
        instances_.erase(found);
}

std::size_t broker_model::instances(const std::string& body) const
{
    const auto found = instances_.find(body);
    return found == instances_.end() ? 0 : found->second;
}

std::size_t broker_model::busy(const std::set<std::string>& but_for) const
{
    std::size_t count = delayed_.size();
    for (const auto& [name, q] : queues_) {
        if (!but_for.contains(name))
            count += q.ready.size() + q.unsettled;
    }
    return count;
}

std::size_t broker_model::unconfirmed() const
{
    std::size_t count = 0;
    for (const auto& [where, c] : channels_)
        count += static_cast<std::size_t>(
            std::count_if(c.unconfirmed.begin(), c.unconfirmed.end(), [](const confirm& each) {
                return each.due != runtime::time_point::max();
            }));
    return count;
}

std::vector<std::string> broker_model::route(const std::string& exchange,
                                             const std::string& routing_key) const
{
    std::vector<std::string> found;
    if (exchange.empty() && queues_.contains(routing_key))
        found.push_back(routing_key);
    for (const auto& each : bindings_) {
        const auto type = exchanges_.find(exchange);
        const bool fans_out = type != exchanges_.end() && type->second == "fanout";
        if (each.exchange == exchange && (fans_out || each.key == routing_key) &&
            queues_.contains(each.queue))
            found.push_back(each.queue);
    }
    return found;
}

// RabbitMQ: a classic queue puts it where it was, a quorum queue at its head.
void broker_model::put_back(const std::string& name, message m, bool counted)
{
    auto& q = queues_[name];
    if (!q.quorum) {
        const auto behind = std::find_if(q.ready.begin(), q.ready.end(), [&](const message& each) {
            return each.position > m.position;
        });
        q.ready.insert(behind, std::move(m));
        return;
    }
    if (counted)
        ++m.returns;
    if (q.delivery_limit && *q.delivery_limit >= 0 && m.returns > *q.delivery_limit) {
        ++q.over_limit;
        dead_letter(name, std::move(m), "delivery_limit");
    } else {
        q.ready.push_front(std::move(m));
    }
}

void broker_model::dead_letter(const std::string& name, message m, std::string_view reason)
{
    const auto& q = queues_[name];
    leave(m);
    if (!q.dead_letter_exchange)
        return vanish(m, reason);
    m.exchange = *q.dead_letter_exchange;
    if (q.dead_letter_routing_key)
        m.routing_key = *q.dead_letter_routing_key;
    m.deaths.push_back({name, std::string(reason)});
    auto properties = decoded(m.properties);
    if (properties.expiration) {
        properties.expiration.reset();
        m.properties = encoded(properties);
    }
    m.expires = runtime::time_point::max();
    m.deliveries = 0;
    m.returns = 0;
    const auto targets = route(m.exchange, m.routing_key);
    if (targets.empty())
        return vanish(m, "its dead-letter target is not there");
    for (const auto& target : targets) {
        bool comes_around = false;
        for (const auto& each : m.deaths) {
            comes_around = comes_around || each.queue == target;
            if (each.reason == "rejected")
                comes_around = false;
        }
        if (comes_around)
            vanish(m, "it went in a circle");
        else
            enter(target, m);
    }
}

void broker_model::vanish(const message& m, std::string_view why)
{
    if (on_vanished)
        on_vanished(m.body, why);
}

void broker_model::expire()
{
    // Only from the head, however long those behind it have been due.
    for (auto& [name, q] : queues_) {
        while (!q.ready.empty() && q.ready.front().expires <= now()) {
            message m = std::move(q.ready.front());
            q.ready.pop_front();
            ++q.expired;
            dead_letter(name, std::move(m), "expired");
        }
    }
}

void broker_model::on_time()
{
    for (auto& [where, c] : channels_)
        confirm_due(c);
    for (std::size_t i = 0; i < delayed_.size();) {
        if (delayed_[i].due > now()) {
            ++i;
            continue;
        }
        message m = std::move(delayed_[i].m);
        delayed_.erase(delayed_.begin() + static_cast<std::ptrdiff_t>(i));
        leave(m);
        const auto targets = route(m.exchange, m.routing_key);
        for (const auto& target : targets)
            enter(target, m);
        if (targets.empty())
            vanish(m, "its exchange is bound to no queue");
    }
    pump();
}

void broker_model::schedule()
{
    auto next = runtime::time_point::max();
    for (const auto& [name, q] : queues_) {
        if (!q.ready.empty())
            next = std::min(next, q.ready.front().expires);
    }
    for (const auto& [where, c] : channels_) {
        for (const auto& each : c.unconfirmed)
            next = std::min(next, each.due);
    }
    for (const auto& each : delayed_)
        next = std::min(next, each.due);
    if (next == runtime::time_point::max())
        timer_.cancel();
    else
        timer_.arm(runtime::loop::current(), next);
}

} // namespace acquit::testing
