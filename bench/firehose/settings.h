#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace acquit::firehose {

/// What the properties of a delivery hold.
enum class header_kind : std::uint8_t {
    none,    ///< no flag at all
    typical, ///< content-type, delivery-mode, message-id, timestamp, two headers
    rich ///< all but user-id, and twenty headers with nested tables as dead-lettering makes them
};

/// How large the writes to the socket are. Frames are cut wherever that falls.
struct write_pattern {
    enum class kind : std::uint8_t { whole, fixed, random };
    kind what = kind::whole;
    std::uint64_t value = 0; ///< bytes of a fixed write; the seed of random ones (1 to 4,000 bytes)
};

struct settings {
    std::string host = "127.0.0.1"; ///< numeric
    std::uint16_t port = 0;         ///< 0: the kernel chooses
    std::string unix_path{};        ///< listens there as well where not empty
    std::uint64_t messages = 0;     ///< of each queue; 0 = without end
    /// Of bodies, bytes, in the order in which they are delivered, again and again. Never empty.
    std::vector<std::size_t> sizes{16};
    header_kind headers = header_kind::none;
    double rate = 0; ///< deliveries per second over all consumers; 0 = as fast as it can
    write_pattern writes{};
    std::uint32_t frame_size_max = 131072; ///< the offer at tuning, bytes
    std::uint16_t channel_max = 2047;      ///< the offer at tuning
    std::uint16_t heartbeat_s = 60;        ///< the offer at tuning; 0 = off
    /// SO_SNDBUF of each connection, bytes; 0 = the kernel's choice, which grows to megabytes.
    std::uint32_t send_buffer = 0;
    std::uint64_t connections = 0; ///< end when so many have come and gone; 0 = on a signal
    bool lenient = false;          ///< wrong settlements are counted, not answered
    bool spin = false;             ///< never sleep: quicker answers for a core of its own
    std::string json{};            ///< a file, or "-"
};

/// Why the arguments cannot be used, in a sentence. Empty text: help was asked for.
struct refusal {
    std::string text;
};

[[nodiscard]] std::variant<settings, refusal>
parse_arguments(std::span<const char* const> arguments);
[[nodiscard]] std::string_view usage() noexcept;

} // namespace acquit::firehose
