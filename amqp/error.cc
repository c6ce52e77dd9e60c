#include <acquit/amqp/error.h>
#include <acquit/amqp/wire/methods.h>

#include <fmt/format.h>

#include <utility>

namespace acquit::amqp {

namespace {

std::string told(const std::string& what, publish_error::reason why, std::uint16_t code,
                 const std::string& text)
{
    switch (why) {
    case publish_error::reason::returned:
        return fmt::format("{} returned: {} ({})", what, text, code);
    case publish_error::reason::nacked:
        return fmt::format("{} refused by the broker (basic.nack)", what);
    case publish_error::reason::timed_out:
        return fmt::format("{} not confirmed in time", what);
    case publish_error::reason::lost:
        return fmt::format("{} not confirmed before the channel was lost: {}", what, text);
    }
    return what;
}

} // namespace

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
                             const std::string& where, std::exception_ptr cause)
    : error(told(fmt::format("message to {}", where), why, code, text)), why_(why), code_(code),
      text_(std::move(text)), cause_(std::move(cause))
{
}

publish_error::publish_error(reason why, std::uint16_t code, std::string text, std::uint64_t number,
                             std::uint64_t failed, std::exception_ptr cause)
    : error(told(failed == 1
                     ? fmt::format("publish {}", number)
                     : fmt::format("{} publishes failed, the first: publish {}", failed, number),
                 why, code, text)),
      why_(why), code_(code), text_(std::move(text)), cause_(std::move(cause)), failed_(failed)
{
}

} // namespace acquit::amqp
