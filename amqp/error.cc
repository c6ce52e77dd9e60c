#include <acquit/amqp/error.h>
#include <acquit/amqp/wire/methods.h>

#include <fmt/format.h>

#include <utility>

namespace acquit::amqp {

connection_error::connection_error(const std::string& what) : error(what) {}

connection_error::connection_error(std::uint16_t code, std::string text, const std::string& where)
    : error(fmt::format("{}: connection closed by the broker: {} ({})", where, text, code)),
      code_(code), text_(std::move(text))
{
}

channel_error::channel_error(std::uint16_t channel, std::uint16_t code, std::string text,
                             std::uint16_t class_id, std::uint16_t method_id)
    : error(class_id != 0
                ? fmt::format("channel {} closed by the broker: {} ({}), at {}", channel, text,
                              code, wire::method_name({class_id, method_id}))
                : fmt::format("channel {} closed by the broker: {} ({})", channel, text, code)),
      code_(code), text_(std::move(text)), class_id_(class_id), method_id_(method_id)
{
}

channel_error::channel_error(std::uint16_t channel, std::uint16_t code, std::string text)
    : error(fmt::format("channel {}: {} ({})", channel, text, code)), code_(code),
      text_(std::move(text)), by_broker_(false)
{
}

publish_error::publish_error(reason why, std::uint16_t code, std::string text,
                             const std::string& where)
    : error(why == reason::returned
                ? fmt::format("message to {} returned: {} ({})", where, text, code)
                : fmt::format("message to {} refused by the broker (basic.nack)", where)),
      why_(why), code_(code), text_(std::move(text))
{
}

} // namespace acquit::amqp
