#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/table.h>
#include <acquit/runtime/assert.h>
#include <acquit/settle/copy_message.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <vector>

namespace acquit::settle {

namespace {

namespace wire = amqp::wire;

constexpr std::array<std::string_view, 12> set_anew{
    "CC",
    "BCC",
    "x-death",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-delivery-count",
    "x-acquired-count",
    "x-delay",
};

bool travels(std::string_view name) noexcept
{
    return name != left_to_wait_header &&
           std::find(set_anew.begin(), set_anew.end(), name) == set_anew.end();
}

wire::table headers_of(const message& original, const retry_plan& plan,
                       std::string_view counter_header)
{
    const auto received = original.headers();
    // A later copy comes from the default exchange, whether the record still fits or not.
    const bool first = !received.find(counter_header) && !received.find(original_exchange_header);
    wire::table headers(received);
    for (const auto& field : received) {
        if (!travels(field.name))
            headers.remove(field.name);
    }
    headers.set(counter_header, std::to_string(plan.copies));
    if (first) {
        headers.set(original_exchange_header, original.exchange());
        headers.set(original_routing_key_header, original.routing_key());
    }
    if (plan.x_delay_ms)
        headers.set("x-delay", *plan.x_delay_ms);
    if (plan.left.count() > 0)
        headers.set(left_to_wait_header, std::to_string(expiration_ms(plan.left)));
    return headers;
}

/// Flags and values.
std::vector<std::byte> encoded(const wire::properties& properties)
{
    std::vector<std::byte> bytes(wire::encoded_size(properties));
    bytes.resize(wire::encode(bytes, properties));
    return bytes;
}

} // namespace

copy_message::copy_message(std::string_view exchange, std::string_view routing_key, bool mandatory,
                           std::span<const std::byte> properties, std::span<const std::byte> body)
    : body_size_(body.size()), properties_size_(static_cast<std::uint32_t>(properties.size())),
      exchange_size_(static_cast<std::uint8_t>(exchange.size())),
      routing_key_size_(static_cast<std::uint8_t>(routing_key.size())), mandatory_(mandatory)
{
    ACQUIT_ASSERT(exchange.size() <= 255 && routing_key.size() <= 255,
                  "exchange of {} and routing key of {} bytes: AMQP short strings have 255 at most",
                  exchange.size(), routing_key.size());
    // Not value-initialised: bodies may be large.
    bytes_.reset(new std::byte[std::max<std::size_t>(size(), 1)]);
    std::byte* at = bytes_.get();
    const auto append = [&at](const void* from, std::size_t bytes) {
        if (bytes != 0)
            std::memcpy(at, from, bytes);
        at += bytes;
    };
    append(exchange.data(), exchange.size());
    append(routing_key.data(), routing_key.size());
    append(properties.data(), properties.size());
    append(body.data(), body.size());
}

amqp::raw_outgoing copy_message::view() const noexcept
{
    const auto* text = reinterpret_cast<const char*>(bytes_.get());
    const std::size_t head = std::size_t{exchange_size_} + routing_key_size_;
    return {.exchange = {text, exchange_size_},
            .routing_key = {text + exchange_size_, routing_key_size_},
            .mandatory = mandatory_,
            .properties = {bytes_.get() + head, properties_size_},
            .body = {bytes_.get() + head + properties_size_, body_size_}};
}

std::string copy_message::message_id() const
{
    wire::properties decoded;
    (void)wire::properties_view(view().properties).decode(decoded);
    return std::string(decoded.message_id.value_or(""));
}

copy_message copy_of(const message& original, const retry_plan& plan,
                     std::string_view counter_header, std::uint32_t frame_size_max)
{
    wire::properties properties = original.properties();
    wire::table headers = headers_of(original, plan, counter_header);
    const std::string expiration = plan.expiration_ms ? std::to_string(*plan.expiration_ms) : "";
    properties.headers = headers.view();
    properties.user_id.reset();
    properties.expiration.reset();
    if (plan.expiration_ms)
        properties.expiration = expiration;

    for (const auto own : {original_exchange_header, original_routing_key_header, counter_header}) {
        if (wire::header_frame_size(properties) <= frame_size_max)
            break;
        headers.remove(own);
        properties.headers = headers.view();
    }
    return {plan.exchange, plan.routing_key, plan.mandatory, encoded(properties), original.body()};
}

std::chrono::nanoseconds left_to_wait(wire::table_view headers) noexcept
{
    const auto value = headers.find(left_to_wait_header);
    const auto text = value ? value->as_string() : std::nullopt;
    if (!text)
        return {};
    std::int64_t ms = 0;
    const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), ms);
    // More is nothing that we have written.
    if (failed != std::errc{} || end != text->data() + text->size() || ms <= 0 ||
        ms > static_cast<std::int64_t>(expiration_max_ms))
        return {};
    return std::chrono::milliseconds(ms);
}

} // namespace acquit::settle
