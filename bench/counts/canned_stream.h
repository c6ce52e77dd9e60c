#pragma once

#include <acquit/amqp/session/session.h>
#include <acquit/runtime/stream.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace acquit::bench {

/// A stream whose other end is a broker in the same thread: it logs the client in, takes one
/// consumer, and from then on gives, whenever it is read, deliveries encoded in advance, as many as
/// the prefetch window and the reader's memory allow. It needs no ring and no clock, and is left
/// out of what callgrind counts, so that what is counted is the client's side alone.
///
/// Each settlement is checked: of a tag that was delivered and is not settled. Publishes are taken and
/// confirmed, all that came with one write together.
class canned_stream final : public runtime::stream {
public:
    canned_stream(std::uint16_t prefetch, std::size_t body_size);

    [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
    [[nodiscard]] std::uint64_t settled() const noexcept { return settled_; }
    /// Settlements that no broker would take.
    [[nodiscard]] std::uint64_t wrong() const noexcept { return wrong_; }
    /// Frames that settled something.
    [[nodiscard]] std::uint64_t frames() const noexcept { return frames_; }

    void shutdown_write() noexcept override {}
    void close() noexcept override { closed_ = true; }
    [[nodiscard]] std::string peer() const override { return "canned"; }

private:
    void start_read(runtime::read_op& operation) noexcept override;
    void start_write(runtime::write_op& operation) noexcept override;
    void cancel_read(runtime::read_op& operation) noexcept override;
    void cancel_write(runtime::write_op&) noexcept override {} // none is ever under way

    std::int32_t fill(std::span<std::byte> into);
    void take(std::span<const std::byte> bytes);
    void answer(const amqp::method_event& method);
    void settle(std::uint64_t first, std::uint64_t last);
    void put_delivery();

    amqp::session session_{amqp::server_options{.heartbeat_s = 0}};
    std::vector<std::byte> received_; // of a frame that is not complete
    std::vector<std::byte> waiting_;  // to be read, from begin_ on
    std::size_t begin_ = 0;
    std::vector<std::byte> delivery_; // one, encoded; the tag stands at tag_at_
    std::size_t tag_at_ = 0;
    std::vector<bool> open_; // by tag modulo its size
    runtime::read_op* reader_ = nullptr;
    std::size_t body_size_;
    std::uint64_t prefetch_;
    std::uint64_t oldest_ = 1; // no open tag is below
    std::uint64_t delivered_ = 0;
    std::uint64_t settled_ = 0;
    std::uint64_t wrong_ = 0;
    std::uint64_t frames_ = 0;
    std::uint64_t published_ = 0;
    std::uint64_t confirmed_ = 0;
    bool consuming_ = false;
    bool closed_ = false;
};

/// One delivery as RabbitMQ sends it, with delivery mode and content type as its only properties.
/// `tag_at` is set to where its eight octets of tag are.
[[nodiscard]] std::vector<std::byte> encoded_delivery(std::uint16_t channel,
                                                      std::string_view consumer_tag,
                                                      std::size_t body_size, std::size_t& tag_at);

} // namespace acquit::bench
