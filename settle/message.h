#pragma once

#include <acquit/amqp/session/event.h>
#include <acquit/amqp/wire/field_table.h>
#include <acquit/amqp/wire/properties.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::settle {

/// What a handler gets to read: views into the receive buffer, valid as long as the handler runs.
/// A message has no settlement: that is what handlers of a `no_ack` consumer get.
class message {
public:
    [[nodiscard]] std::span<const std::byte> body() const noexcept { return body_; }
    /// The body as characters; not terminated, and it may hold zeros.
    [[nodiscard]] std::string_view text() const noexcept
    {
        return {reinterpret_cast<const char*>(body_.data()), body_.size()};
    }
    /// True when the body was larger than `session_limits::body_size_max`: it was skipped, and
    /// `body()` is empty. A service drops such a message (dead-lettering it where the queue can) and
    /// calls no handler.
    [[nodiscard]] bool body_dropped() const noexcept { return body_dropped_; }

    /// "" is the default exchange.
    [[nodiscard]] std::string_view exchange() const noexcept { return exchange_; }
    [[nodiscard]] std::string_view routing_key() const noexcept { return routing_key_; }

    /// Decoded anew by each call: keep the result. What cannot be decoded is absent.
    [[nodiscard]] amqp::wire::properties properties() const noexcept;
    [[nodiscard]] std::span<const std::byte> raw_properties() const noexcept { return properties_; }
    /// A view; empty when the message has no headers.
    [[nodiscard]] amqp::wire::table_view headers() const noexcept;
    [[nodiscard]] std::optional<amqp::wire::field_value>
    header(std::string_view name) const noexcept;

protected:
    message() noexcept = default;
    ~message() = default;
    message(const message&) = default;
    message& operator=(const message&) = default;

    friend class inbox;
    void read(const amqp::content_event& content) noexcept
    {
        body_ = content.body;
        properties_ = content.properties;
        exchange_ = content.exchange;
        routing_key_ = content.routing_key;
        body_dropped_ = content.body_dropped;
    }
    /// Copies what the views of the head point to, and where wanted of the body, and points them
    /// there. Throws std::bad_alloc, and has changed nothing then.
    void keep_in(std::vector<std::byte>& own, bool with_body);

    std::span<const std::byte> body_;
    std::span<const std::byte> properties_;
    std::string_view exchange_;
    std::string_view routing_key_;
    bool body_dropped_ = false;
};

class deferred_delivery;
class deferrals;

/// A message that the broker waits for an answer on. A handler gives it by what it returns; there is
/// nothing here to settle it with, so it cannot be settled twice.
class delivery : public message {
public:
    delivery(const delivery&) = delete;
    delivery& operator=(const delivery&) = delete;

    /// The broker has sent this message before, to whomever.
    [[nodiscard]] bool redelivered() const noexcept { return redelivered_; }
    /// Which delivery of the message this is, from 1. The larger of what the broker counts (quorum
    /// queues) and what our own header says.
    [[nodiscard]] std::uint32_t attempt() const noexcept;
    /// The channel's number for this delivery; for logs, since it means nothing outside its channel.
    [[nodiscard]] std::uint64_t tag() const noexcept { return tag_; }

    /// Takes the decision out of the handler: the token that comes back makes it, on any thread, at
    /// any time (deferred.h). What the handler returns counts no longer. Once per delivery. The
    /// token copies the message, so this may throw std::bad_alloc.
    [[nodiscard]] deferred_delivery defer();
    /// `defer` was called.
    [[nodiscard]] bool is_deferred() const noexcept { return deferred_; }

protected:
    delivery() noexcept = default;
    ~delivery() = default;

    friend class inbox;
    friend class batch;
    friend class deferrals;
    friend class retrier;
    void read(const amqp::content_event& content, std::uint32_t epoch) noexcept
    {
        message::read(content);
        tag_ = content.delivery_tag;
        epoch_ = epoch;
        redelivered_ = content.redelivered;
        deferred_ = false;
    }
    /// Reads the same bytes as the other, and stands for it.
    void stand_for(const delivery& other) noexcept;

    const std::string* counter_header_ = nullptr; // of copies; null: the default one
    std::uint64_t tag_ = 0;
    deferrals* deferrals_ = nullptr; // where a token for it comes from
    std::uint32_t epoch_ = 0;        // of the channel: a newer one does not know the tag
    bool redelivered_ = false;
    bool deferred_ = false;
};

/// Empties a buffer that is used again and again; keeps its memory unless that is much.
void trim(std::vector<std::byte>& bytes) noexcept;

} // namespace acquit::settle
