#include <acquit/settle/attempt.h>
#include <acquit/settle/message.h>

#include <cstring>

namespace acquit::settle {

namespace {

/// A buffer that is emptied keeps at most this much memory.
constexpr std::size_t kept_bytes_max = 4096;

} // namespace

void trim(std::vector<std::byte>& bytes) noexcept
{
    if (bytes.capacity() > kept_bytes_max)
        std::vector<std::byte>().swap(bytes);
    else
        bytes.clear();
}

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

void message::keep_in(std::vector<std::byte>& own, bool with_body)
{
    own.resize(exchange_.size() + routing_key_.size() + properties_.size() +
               (with_body ? body_.size() : 0));
    std::byte* at = own.data();
    const auto copy = [&at](const void* from, std::size_t size) {
        std::byte* const to = at;
        if (size != 0)
            std::memcpy(to, from, size);
        at += size;
        return to;
    };
    const auto copy_text = [&copy](std::string_view from) {
        return std::string_view(reinterpret_cast<const char*>(copy(from.data(), from.size())),
                                from.size());
    };
    exchange_ = copy_text(exchange_);
    routing_key_ = copy_text(routing_key_);
    properties_ = {copy(properties_.data(), properties_.size()), properties_.size()};
    if (with_body)
        body_ = {copy(body_.data(), body_.size()), body_.size()};
}

std::uint32_t delivery::attempt() const noexcept
{
    return attempt_of(headers(), redelivered_,
                      counter_header_ != nullptr ? std::string_view(*counter_header_)
                                                 : default_counter_header);
}

void delivery::stand_for(const delivery& other) noexcept
{
    message::operator=(other);
    tag_ = other.tag_;
    deferrals_ = other.deferrals_;
    counter_header_ = other.counter_header_;
    epoch_ = other.epoch_;
    redelivered_ = other.redelivered_;
    deferred_ = false;
}

} // namespace acquit::settle
