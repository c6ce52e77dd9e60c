#include "message.h"

#include <acquit/runtime/error.h>

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace acquit::bench {

namespace {

std::optional<std::int64_t> as_number(std::string_view text) noexcept
{
    std::int64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size())
        return {};
    return value;
}

std::int64_t number_of(const std::string& name, std::string_view text, std::int64_t most)
{
    const auto value = as_number(text);
    if (!value || *value < 0 || *value > most)
        throw runtime::error(fmt::format("message property {}: a number from 0 to {}, not \"{}\"",
                                         name, most, text));
    return *value;
}

using text_member = std::optional<std::string_view> amqp::wire::properties::*;
struct named_text {
    std::string_view name;
    text_member member;
};
constexpr named_text texts[] = {
    {"contentType", &amqp::wire::properties::content_type},
    {"contentEncoding", &amqp::wire::properties::content_encoding},
    {"correlationId", &amqp::wire::properties::correlation_id},
    {"replyTo", &amqp::wire::properties::reply_to},
    {"expiration", &amqp::wire::properties::expiration},
    {"messageId", &amqp::wire::properties::message_id},
    {"type", &amqp::wire::properties::type},
    {"userId", &amqp::wire::properties::user_id},
    {"appId", &amqp::wire::properties::app_id},
    {"clusterId", &amqp::wire::properties::cluster_id},
};

text_member text_named(std::string_view name) noexcept
{
    for (const auto& each : texts)
        if (each.name == name)
            return each.member;
    return nullptr;
}

} // namespace

void set_value(amqp::wire::table& table, const std::string& name, const std::string& value)
{
    if (value == "true" || value == "false")
        table.set(name, value == "true");
    else if (const auto number = as_number(value))
        table.set(name, *number);
    else
        table.set(name, value);
}

message_properties::message_properties(const key_values& named, bool persistent) : named_(named)
{
    if (persistent)
        properties_.delivery_mode = std::uint8_t{2};
    for (const auto& [name, value] : named_) {
        if (value.size() > 255)
            throw runtime::error(fmt::format("message property {}: above 255 bytes", name));
        if (const auto member = text_named(name); member != nullptr)
            properties_.*member = value;
        else if (name == "deliveryMode")
            properties_.delivery_mode = static_cast<std::uint8_t>(number_of(name, value, 2));
        else if (name == "priority")
            properties_.priority = static_cast<std::uint8_t>(number_of(name, value, 255));
        else if (name == "timestamp")
            properties_.timestamp = amqp::wire::timestamp{
                static_cast<std::uint64_t>(number_of(name, value, INT64_MAX))};
        else
            set_value(headers_, name, value);
    }
    if (headers_.view().raw().size() != 0)
        properties_.headers = headers_.view();
}

} // namespace acquit::bench
