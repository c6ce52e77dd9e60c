#pragma once

#include <acquit/amqp/message.h>
#include <acquit/amqp/wire/field_table.h>
#include <acquit/settle/message.h>
#include <acquit/settle/retry_plan.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

/// The message that is published in place of an original: the same body, byte for byte, every
/// property and every header as received, of whatever type, but for what the broker must set anew.
///
/// Dropped: user-id (must be the publisher's own), expiration, the headers CC and BCC (the copy would
/// be routed by them again), x-death and x-first/last-death-* (RabbitMQ 3.x trusts and counts on
/// what a publisher sends), x-delivery-count and x-acquired-count (delivered untouched on a first
/// delivery, as a false count), x-delay.
///
/// Added: our count of attempts; on the first copy also where the original was published, since the
/// copy travels by the default exchange.
namespace acquit::settle {

inline constexpr std::string_view original_exchange_header = "x-acquit-exchange";
inline constexpr std::string_view original_routing_key_header = "x-acquit-routing-key";
/// buckets: milliseconds still to wait when the copy arrives, decimal text.
inline constexpr std::string_view left_to_wait_header = "x-acquit-wait-ms";

/// A message with storage of its own, in one piece: a million of them may wait for their timers.
class copy_message {
public:
    copy_message() noexcept = default;
    copy_message(std::string_view exchange, std::string_view routing_key, bool mandatory,
                 std::span<const std::byte> properties, std::span<const std::byte> body);

    /// Views into this copy, moved or not.
    [[nodiscard]] amqp::raw_outgoing view() const noexcept;
    [[nodiscard]] std::string_view exchange() const noexcept { return view().exchange; }
    [[nodiscard]] std::string_view routing_key() const noexcept { return view().routing_key; }
    /// "" where it has none.
    [[nodiscard]] std::string message_id() const;
    /// Of the storage that is its own.
    [[nodiscard]] std::size_t size() const noexcept
    {
        return std::size_t{exchange_size_} + routing_key_size_ + properties_size_ + body_size_;
    }
    [[nodiscard]] bool empty() const noexcept { return bytes_ == nullptr; }
    void clear() noexcept { *this = copy_message{}; }

private:
    std::unique_ptr<std::byte[]> bytes_;
    std::size_t body_size_ = 0;
    std::uint32_t properties_size_ = 0;
    std::uint8_t exchange_size_ = 0;
    std::uint8_t routing_key_size_ = 0;
    bool mandatory_ = false;
};

/// `frame_size_max`: a header frame may not pass it; our own headers are left out then, the records
/// of origin first and the count last, never a header of the user's.
[[nodiscard]] copy_message copy_of(const message& original, const retry_plan& plan,
                                   std::string_view counter_header, std::uint32_t frame_size_max);

/// What left_to_wait_header says; zero if it is absent or says nothing readable.
[[nodiscard]] std::chrono::nanoseconds left_to_wait(amqp::wire::table_view headers) noexcept;

} // namespace acquit::settle
