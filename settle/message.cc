#include <acquit/settle/attempt.h>
#include <acquit/settle/message.h>

namespace acquit::settle {

amqp::wire::properties message::properties() const noexcept
{
    amqp::wire::properties decoded;
    (void)amqp::wire::properties_view(properties_).decode(decoded); // what can be read of them
    return decoded;
}

amqp::wire::table_view message::headers() const noexcept
{
    return amqp::wire::properties_view(properties_).headers().value_or(amqp::wire::table_view{});
}

std::optional<amqp::wire::field_value> message::header(std::string_view name) const noexcept
{
    return headers().find(name);
}

void message::read(const amqp::content_event& content) noexcept
{
    body_ = content.body;
    properties_ = content.properties;
    exchange_ = content.exchange;
    routing_key_ = content.routing_key;
    body_dropped_ = content.body_dropped;
}

std::uint32_t delivery::attempt() const noexcept
{
    return attempt_of(headers(), redelivered_,
                      counter_header_ != nullptr ? std::string_view(*counter_header_)
                                                 : default_counter_header);
}

void delivery::read(const amqp::content_event& content, std::uint32_t epoch) noexcept
{
    message::read(content);
    tag_ = content.delivery_tag;
    epoch_ = epoch;
    redelivered_ = content.redelivered;
}

} // namespace acquit::settle
