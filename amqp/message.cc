#include <acquit/amqp/message.h>

namespace acquit::amqp {

wire::properties received::properties() const noexcept
{
    wire::properties decoded;
    (void)wire::properties_view(raw_properties).decode(decoded); // what can be read of them
    return decoded;
}

received copy_of(const content_event& content)
{
    return {.exchange = std::string(content.exchange),
            .routing_key = std::string(content.routing_key),
            .delivery_tag = content.delivery_tag,
            .redelivered = content.redelivered,
            .message_count = content.message_count,
            .reply_code = content.return_code,
            .reply_text = std::string(content.return_text),
            .raw_properties = {content.properties.begin(), content.properties.end()},
            .body = {content.body.begin(), content.body.end()}};
}

} // namespace acquit::amqp
