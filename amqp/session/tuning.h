#pragma once

#include <cstdint>
#include <string>

/// What both ends agree on before a connection opens (AMQP 0-9-1 4.2.3, connection.tune).
///
/// RabbitMQ answers a tune-ok that it does not like with silence and, three seconds later, a reset.
/// So a reply here is never 0 where the server has a limit, never above the offer, and frame_max is
/// never below 8192 (RabbitMQ 4.1+ refuses less).
namespace acquit::amqp {

/// The three numbers of tune and tune-ok. As an offer or a wish 0 means no limit (heartbeat: off).
struct tuned {
    std::uint32_t frame_size_max = 0; ///< bytes of a whole frame, its 8 bytes of overhead included
    std::uint16_t channel_max = 0;    ///< highest channel number
    std::uint16_t heartbeat_s = 0;    ///< seconds; 0 = no heartbeats

    friend bool operator==(const tuned&, const tuned&) = default;
};

/// `refusal` is empty where `result` holds; else it says why no connection is possible.
struct tuning {
    tuned result;
    std::string refusal;

    [[nodiscard]] explicit operator bool() const noexcept { return refusal.empty(); }
};

/// The client's answer to an offer.
///
/// | | ours 0 | ours n | offer 0 |
/// |---|---|---|---|
/// | frame_size_max | the offer | min(n, offer), at least 8192 | max(n, 8192); n = 0: 131072 |
/// | channel_max | the offer | min(n, offer) | n; n = 0: 65535 |
/// | heartbeat_s | 0: off | min(n, offer) | ours (the server does not insist, we may) |
///
/// An offer of frame_size_max between 1 and 8191 is refused: no RabbitMQ makes it, and below 4096
/// AMQP itself forbids it.
[[nodiscard]] tuning negotiate(const tuned& ours, const tuned& offer);

/// The server's check of a tune-ok, as RabbitMQ makes it: 0 or above the offer is refused unless
/// the offer was 0 (heartbeat: any). The result has RabbitMQ's limits in the place of zeros.
[[nodiscard]] tuning accept(const tuned& offer, const tuned& answer);

} // namespace acquit::amqp
