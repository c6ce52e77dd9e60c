#include "conversation.h"

#include <acquit/amqp/wire/properties.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace acquit::bench {

namespace wire = amqp::wire;
namespace basic = amqp::wire::basic;

namespace {

std::string text_in(wire::table_view properties, std::string_view name)
{
    const auto found = properties.find(name);
    const auto text = found ? found->as_string() : std::nullopt;
    return std::string(text.value_or("").substr(0, 100));
}

template <class... F>
struct overloaded : F... {
    using F::operator()...;
};

/// "acquit 0.1.0 (orders)"
std::string name_of(wire::table_view properties)
{
    auto name = text_in(properties, "product");
    if (const auto version = text_in(properties, "version"); !version.empty())
        name += (name.empty() ? "" : " ") + version;
    if (const auto own = text_in(properties, "connection_name"); !own.empty())
        name += fmt::format("{}({})", name.empty() ? "" : " ", own);
    return name;
}

} // namespace

conversation::conversation(sightings& seen, std::uint32_t number) : seen_(seen), number_(number)
{
    ++seen_.connections;
}

conversation::~conversation()
{
    while (!channels_.empty())
        forget(channels_.begin()->first);
}

void conversation::client_says(std::span<const std::byte> bytes)
{
    say(client_side_, bytes);
}

void conversation::broker_says(std::span<const std::byte> bytes, runtime::time_point arrived)
{
    now_ = arrived;
    say(broker_side_, bytes);
}

void conversation::say(side& who, std::span<const std::byte> bytes)
{
    if (!confusion_.empty())
        return;
    // A client begins with the protocol header; a server that answers with one speaks another version.
    while (who.client && who.greeting < wire::protocol_header.size() && !bytes.empty()) {
        if (bytes[0] != wire::protocol_header[who.greeting++])
            return confused("the client does not speak AMQP 0-9-1");
        bytes = bytes.subspan(1);
    }
    if (!who.client && who.greeting == 0 && !bytes.empty()) {
        who.greeting = 1;
        if (bytes[0] == wire::protocol_header[0])
            return confused("the server speaks another version of AMQP");
    }
    if (const char* const wrong = who.frames.read(bytes, who); wrong != nullptr)
        confused(fmt::format("bytes of the {}: {}", who.client ? "client" : "server", wrong));
}

void conversation::confused(std::string why)
{
    if (confusion_.empty())
        confusion_ = std::move(why);
}

conversation::channel& conversation::at(std::uint16_t number)
{
    const auto [found, fresh] = channels_.try_emplace(number);
    if (fresh) {
        found->second.about.connection = number_;
        found->second.about.channel = number;
    }
    return found->second;
}

void conversation::side::on_method(std::uint16_t channel, std::span<const std::byte> payload)
{
    if (!owner.confusion_.empty())
        return;
    if (client)
        owner.client_method(channel, payload);
    else
        owner.broker_method(channel, payload);
}

void conversation::side::on_header(std::uint16_t channel, std::span<const std::byte> payload)
{
    if (client || !owner.confusion_.empty())
        return;
    auto& c = owner.at(channel);
    wire::content_header header;
    if (!c.delivering)
        return; // of a returned message
    if (!wire::decode(payload, header))
        return owner.confused("a content header of the server cannot be read");
    c.sized = true;
    c.body_left = header.body_size;
    if (c.body_left == 0)
        owner.complete(c);
}

void conversation::side::on_body(std::uint16_t channel, std::size_t size)
{
    if (client || !owner.confusion_.empty())
        return;
    auto& c = owner.at(channel);
    if (!c.delivering || !c.sized)
        return;
    c.body_left -= std::min<std::uint64_t>(c.body_left, size);
    if (c.body_left == 0)
        owner.complete(c);
}

void conversation::client_method(std::uint16_t number, std::span<const std::byte> payload)
{
    const auto read = wire::visit_method(
        payload,
        overloaded{
            [&](const basic::ack& m) { settle(number, m.delivery_tag, m.multiple); },
            [&](const basic::reject& m) { settle(number, m.delivery_tag, false); },
            [&](const basic::nack& m) { settle(number, m.delivery_tag, m.multiple); },
            [&](const basic::publish&) { ++seen_.done.sent; },
            [&](const basic::qos& m) {
                (m.global ? at(number).shared_prefetch : at(number).next_prefetch) =
                    m.prefetch_count;
            },
            [&](const basic::consume& m) { begin_consumer(at(number), m); },
            [&](const basic::get& m) { at(number).gets.push_back(m.no_ack); },
            [&](const basic::cancel& m) {
                for (auto& each : at(number).consumers)
                    if (each && each->tag == m.consumer_tag)
                        each->gone = true;
            },
            [&](const wire::connection::start_ok& m) { client_ = name_of(m.client_properties); },
            [&](const wire::channel::close_ok&) { forget(number); }, [&](const auto&) {}});
    if (!read)
        confused(fmt::format("a method of the client: {}", wire::describe(read)));
}

void conversation::broker_method(std::uint16_t number, std::span<const std::byte> payload)
{
    const auto read = wire::visit_method(
        payload,
        overloaded{
            [&](const basic::deliver& m) {
                auto& c = at(number);
                const auto whose = consumer_of(c, m.consumer_tag);
                const bool counts = whose != nobody && !c.consumers[whose]->no_ack;
                deliver(c, m.delivery_tag,
                        whose == nobody ? nobody
                        : counts        ? static_cast<std::uint32_t>(whose + 1)
                                        : 0);
                c.delivering = true;
                c.sized = false;
                c.receiving = whose;
            },
            [&](const basic::get_ok& m) {
                auto& c = at(number);
                deliver(c, m.delivery_tag, take_get(c) ? 0 : nobody);
            },
            [&](const basic::get_empty&) { (void)take_get(at(number)); },
            [&](const basic::consume_ok& m) {
                auto& c = at(number);
                if (c.unanswered.empty())
                    return;
                auto& first = c.consumers[c.unanswered.front()];
                c.unanswered.pop_front();
                if (first && first->tag.empty())
                    first->tag = m.consumer_tag;
            },
            [&](const wire::connection::start& m) { seen_.broker = name_of(m.server_properties); },
            [&](const wire::channel::close_ok&) { forget(number); }, [&](const auto&) {}});
    if (!read)
        confused(fmt::format("a method of the server: {}", wire::describe(read)));
}

void conversation::begin_consumer(channel& c, const basic::consume& asked)
{
    const bool alone = std::ranges::all_of(c.consumers, [](auto& each) { return each->gone; });
    const auto prefetch = c.next_prefetch != 0 ? c.next_prefetch : alone ? c.shared_prefetch : 0;
    // Places of consumers that are over are used again, so that coming and going costs no memory.
    const auto free = std::ranges::find_if(c.consumers, [](const auto& each) {
        return each->gone && each->outstanding == 0 && each->leaving == 0;
    });
    const auto place = static_cast<std::size_t>(free - c.consumers.begin());
    if (free == c.consumers.end())
        c.consumers.emplace_back();
    auto& totals = seen_.settling[asked.no_ack ? 0 : prefetch];
    totals.prefetch = asked.no_ack ? 0 : prefetch;
    c.consumers[place] =
        std::make_unique<consumer>(consumer{.tag = std::string(asked.consumer_tag),
                                            .prefetch = totals.prefetch,
                                            .no_ack = asked.no_ack,
                                            .slots = credit(totals.prefetch, totals.latency)});
    if (c.about.deliveries == 0)
        c.about.prefetch = totals.prefetch;
    if (!asked.no_wait)
        c.unanswered.push_back(place);
}

std::size_t conversation::consumer_of(channel& c, std::string_view tag)
{
    if (c.last_consumer < c.consumers.size() && c.consumers[c.last_consumer]->tag == tag)
        return c.last_consumer;
    for (std::size_t i = c.consumers.size(); i-- > 0;)
        if (c.consumers[i]->tag == tag)
            return c.last_consumer = i;
    return nobody;
}

/// Whether the basic.get that is answered now was one without acknowledgement.
bool conversation::take_get(channel& c)
{
    if (c.gets.empty())
        return false;
    const bool no_ack = c.gets.front();
    c.gets.pop_front();
    return no_ack;
}

void conversation::deliver(channel& c, std::uint64_t tag, std::uint32_t owner)
{
    if (tag != c.oldest + c.owners.size())
        return confused(
            fmt::format("channel {}: delivery tag {} is not the next one", c.about.channel, tag));
    if (c.owners.size() >= unsettled_max)
        return confused(fmt::format("channel {}: more than {} deliveries are unsettled",
                                    c.about.channel, unsettled_max));
    if (owner == 0 && c.owners.empty())
        ++c.oldest;
    else
        c.owners.push_back(owner);
    if (owner != 0 && owner != nobody)
        ++c.consumers[owner - 1]->outstanding;
    ++c.about.deliveries;
    ++seen_.done.received;
}

/// The whole message is there: its slot is used.
void conversation::complete(channel& c)
{
    c.delivering = false;
    if (c.receiving == nobody || c.consumers[c.receiving]->no_ack)
        return;
    const auto took = c.consumers[c.receiving]->slots.arrived(now_);
    if (!took)
        return;
    if (!c.about.latency && seen_.detailed < watched_max) {
        ++seen_.detailed;
        c.about.latency = std::make_shared<histogram>();
    }
    if (c.about.latency)
        c.about.latency->record(*took);
}

std::uint32_t conversation::settle_one(channel& c, std::uint32_t& owner)
{
    const auto was = std::exchange(owner, 0u);
    ++c.about.settled;
    ++seen_.done.acked;
    if (was == nobody)
        return 0;
    auto& one = *c.consumers[was - 1];
    --one.outstanding;
    if (one.leaving++ == 0)
        c.leaving.push_back(was - 1);
    return one.prefetch;
}

void conversation::settle(std::uint16_t number, std::uint64_t tag, bool multiple)
{
    auto& c = at(number);
    const auto end = c.oldest + c.owners.size(); // past the newest tag
    if (tag == 0 && multiple)
        tag = end - 1;
    if (tag < c.oldest || tag >= end)
        return; // settled before, or a mistake that the broker will answer
    std::uint64_t settled = 0;
    std::uint32_t prefetch = 0;
    for (auto at = multiple ? c.oldest : tag; at <= tag; ++at) {
        auto& owner = c.owners[static_cast<std::size_t>(at - c.oldest)];
        if (owner == 0)
            continue;
        const auto of_it = settle_one(c, owner);
        prefetch = std::max(prefetch, of_it);
        ++settled;
    }
    while (!c.owners.empty() && c.owners.front() == 0) {
        c.owners.pop_front();
        ++c.oldest;
    }
    if (settled == 0)
        return;
    // A frame that settles for consumers with different windows counts for the widest.
    auto& totals = seen_.settling[prefetch];
    totals.prefetch = prefetch;
    totals.settled += settled;
    ++totals.frames;
    ++c.about.frames;
    if (leaving_.empty() || leaving_.back() != number)
        leaving_.push_back(number);
}

void conversation::handed_over(runtime::time_point now)
{
    for (const auto number : leaving_) {
        const auto found = channels_.find(number);
        if (found == channels_.end())
            continue;
        auto& c = found->second;
        for (const auto place : c.leaving) {
            auto& one = *c.consumers[place];
            one.slots.settled(std::exchange(one.leaving, 0u), now);
        }
        c.leaving.clear();
    }
    leaving_.clear();
}

void conversation::forget(std::uint16_t number)
{
    const auto found = channels_.find(number);
    if (found == channels_.end())
        return;
    auto& about = found->second.about;
    about.client = client_;
    if (about.deliveries != 0 && seen_.channels.size() < watched_max)
        seen_.channels.push_back(std::move(about));
    channels_.erase(found);
}

} // namespace acquit::bench
