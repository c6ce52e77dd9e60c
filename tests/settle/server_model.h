// RabbitMQ's side of settlement: the list of unacknowledged deliveries of one channel.
//
// It reads frames byte by byte and is as strict as the server (measured on 3.10, 4.0 and 4.3): an unknown
// tag, a tag that is settled already, a multiple that ends at one, or tag 0 for a single closes the channel.
// In two points it is stricter than the server, since the ledger promises more: tag 0 is never right, and
// basic.nack is only for what was never seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace acquit::settle::testing {

enum class fate : std::uint8_t { unacked, acked, rejected, requeued, given_back, needs_none };

class server_model {
public:
    explicit server_model(std::uint16_t channel) : channel_{channel} {}

    std::uint64_t deliver();        // the tag
    std::uint64_t deliver_no_ack(); // takes a tag, is settled by being sent
    void reset();                   // a new channel

    // False once the channel is closed; error() says by what.
    bool receive(std::span<const std::byte> bytes);

    const std::string& error() const { return error_; }
    fate fate_of(std::uint64_t tag) const { return fates_.at(tag - 1); }
    const std::vector<std::uint64_t>& unacked() const { return unacked_; }

    // Since the last take_*: tags in the order of their frames.
    const std::vector<std::uint64_t>& tags_received() const { return received_; }
    void forget_received() { received_.clear(); }

    std::uint64_t frames() const { return frames_; }
    std::uint64_t multiples() const { return multiples_; }
    std::uint64_t nacks() const { return nacks_; }
    // Entries of the list that were passed over to find single tags.
    std::uint64_t scanned() const { return scanned_; }

private:
    bool fail(std::string what);
    bool settle(std::uint64_t tag, bool multiple, fate how);
    bool receive_frame(std::span<const std::byte> frame);

    std::uint16_t channel_;
    std::vector<std::uint64_t> unacked_; // ascending
    std::vector<fate> fates_;            // of tag i + 1
    std::vector<std::uint64_t> received_;
    std::string error_;
    std::uint64_t frames_ = 0;
    std::uint64_t multiples_ = 0;
    std::uint64_t nacks_ = 0;
    std::uint64_t scanned_ = 0;
};

} // namespace acquit::settle::testing
