#pragma once

#include "credit.h"
#include "frame_reader.h"
#include "result.h"

#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/clock.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace acquit::bench {

/// What a proxy has seen on all connections together.
struct sightings {
    counts done;                                ///< sent, received, and acked for settled
    std::map<std::uint32_t, settling> settling; ///< by prefetch
    std::vector<watched> channels;              ///< of those that are over, at most watched_max
    std::size_t detailed = 0;                   ///< channels with a histogram of their own
    std::uint32_t connections = 0;
    std::string broker; ///< as the last one calls itself
};

/// Listens to both sides of one AMQP connection, and measures how its client settles:
///
///     conversation c{seen, 1};
///     c.client_says(bytes);               // then hand the bytes on...
///     c.handed_over(now);                 // ...right after this
///     c.broker_says(bytes, arrival);
///
/// What it cannot read ends its understanding, with a reason, and nothing else. Memory is bounded by
/// what is unsettled: 4 bytes for each, at most a million on a channel. A prefetch that several
/// consumers share (basic.qos global) is no window of any of them: there nothing is measured.
class conversation {
public:
    conversation(sightings& seen, std::uint32_t number);
    ~conversation();
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    void client_says(std::span<const std::byte> bytes);
    /// The bytes of `client_says` go to the broker now.
    void handed_over(runtime::time_point now);
    void broker_says(std::span<const std::byte> bytes, runtime::time_point arrived);

    /// Why it does not understand any more; empty while it does.
    [[nodiscard]] const std::string& confusion() const noexcept { return confusion_; }
    [[nodiscard]] const std::string& client() const noexcept { return client_; }

    static constexpr std::size_t unsettled_max = std::size_t{1} << 20;

private:
    struct side final : frame_reader::sink {
        side(conversation& conversing, bool of_client) noexcept
            : owner(conversing), client(of_client)
        {
        }
        void on_method(std::uint16_t channel, std::span<const std::byte> payload) override;
        void on_header(std::uint16_t channel, std::span<const std::byte> payload) override;
        void on_body(std::uint16_t channel, std::size_t size) override;
        conversation& owner;
        frame_reader frames;
        bool client;
        std::size_t greeting = 0; // octets of the protocol header that were seen
    };
    struct consumer {
        std::string tag;
        std::uint32_t prefetch;
        bool no_ack;
        bool gone = false;
        std::uint64_t outstanding = 0;
        std::uint64_t leaving = 0; // settled in bytes that are not handed over yet
        credit slots;
    };
    struct channel {
        std::uint32_t next_prefetch = 0; // of consumers to come
        std::uint32_t shared_prefetch = 0;
        std::vector<std::unique_ptr<consumer>> consumers;
        std::deque<std::size_t> unanswered; // consumers that the broker has not confirmed
        std::deque<bool> gets;              // asked with basic.get, and whether without ack
        // Whose each delivery is, from tag `oldest` on: a consumer's place + 1, 0 for those that are
        // settled or need no answer, nobody's for what basic.get brought.
        std::deque<std::uint32_t> owners;
        std::uint64_t oldest = 1;
        std::size_t last_consumer = 0;
        bool delivering = false; // a deliver was seen, its content is under way
        bool sized = false;      // its header too
        std::uint64_t body_left = 0;
        std::size_t receiving = 0;        // consumer of that delivery
        std::vector<std::size_t> leaving; // consumers with settlements to be handed over
        watched about;
    };
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};

    void say(side& who, std::span<const std::byte> bytes);
    void confused(std::string why);
    void client_method(std::uint16_t number, std::span<const std::byte> payload);
    void broker_method(std::uint16_t number, std::span<const std::byte> payload);
    channel& at(std::uint16_t number);
    void begin_consumer(channel& c, const amqp::wire::basic::consume& asked);
    [[nodiscard]] std::size_t consumer_of(channel& c, std::string_view tag);
    static bool take_get(channel& c);
    void deliver(channel& c, std::uint64_t tag, std::uint32_t owner);
    void complete(channel& c);
    void settle(std::uint16_t number, std::uint64_t tag, bool multiple);
    std::uint32_t settle_one(channel& c, std::uint32_t& owner);
    void forget(std::uint16_t number);

    sightings& seen_;
    std::uint32_t number_;
    std::string client_;
    std::string confusion_;
    side client_side_{*this, true};
    side broker_side_{*this, false};
    std::map<std::uint16_t, channel> channels_;
    std::vector<std::uint16_t> leaving_; // channels with settlements to be handed over
    runtime::time_point now_{};          // of what is being read
};

} // namespace acquit::bench
