#pragma once

#include <acquit/settle/delay.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace acquit::bench {

/// Who tells the broker that a message is done, and when.
enum class settle_by : std::uint8_t {
    ledger, ///< the library's settlement layer: fewest frames, by its flush rule
    single, ///< a basic.ack for each message, at once
    every,  ///< by hand: one basic.ack multiple for every so many messages
    nobody, ///< no_ack: the broker does not wait for answers
};

/// Shares of a whole, in any unit: ack=95,retry=3,drop=1,retry_after=1.
struct outcome_shares {
    std::uint32_t ack = 1;
    std::uint32_t retry = 0;
    std::uint32_t drop = 0;
    std::uint32_t retry_after = 0;

    [[nodiscard]] std::uint64_t total() const noexcept
    {
        return std::uint64_t{ack} + retry + drop + retry_after;
    }
    [[nodiscard]] bool only_acks() const noexcept { return total() == ack; }
};

using key_values = std::vector<std::pair<std::string, std::string>>;

/// LISTEN:TARGET of --proxy. Port 0 lets the kernel choose.
struct proxy_route {
    std::string listen_address;
    std::uint16_t listen_port = 0;
    std::string target_host;
    std::uint16_t target_port = 0;
};

/// What acquit-bench was told. Plain values: reading a command line opens nothing and prints nothing.
struct options {
    std::string uri{"amqp://guest:guest@localhost"};
    std::string id; ///< "" until the program has chosen one

    // What is made.
    std::string exchange; ///< "": the default exchange
    std::string exchange_type{"direct"};
    std::string queue; ///< "": one of our own, which goes at the end
    std::optional<std::string> routing_key;
    std::string queue_pattern; ///< with %d; "": one queue
    std::uint32_t pattern_from = 0;
    std::uint32_t pattern_to = 0;
    bool predeclared = false;
    bool quorum = false;
    bool auto_delete = true;
    key_values queue_arguments;

    // Who takes part.
    std::uint32_t producers = 1;
    std::uint32_t consumers = 1;
    std::uint32_t producer_channels = 1;
    std::uint32_t consumer_channels = 1;

    // Publishing.
    std::uint32_t size = 16;   ///< bytes; at least that of the stamp, see body.h
    std::uint32_t confirm = 0; ///< unconfirmed publishes at most; 0: no confirms
    std::chrono::seconds confirm_timeout{30};
    double rate = 0;                ///< messages per second and channel; 0: as fast as it goes
    std::uint64_t per_producer = 0; ///< messages; 0: no limit
    bool persistent = false;
    bool mandatory = false;
    key_values properties;

    // Consuming.
    settle_by settle = settle_by::ledger;
    std::uint32_t ack_every = 1;
    std::uint32_t prefetch = 256;
    double consumer_rate = 0;
    std::uint64_t per_consumer = 0;
    std::chrono::microseconds work{0}; ///< that each message costs
    std::uint32_t concurrency = 1;
    std::optional<std::chrono::microseconds> hold;
    std::uint32_t flush_count = 0;
    outcome_shares outcomes;
    settle::delay delay;
    std::chrono::milliseconds retry_after{100};
    std::uint64_t seed = 1;

    // How long, and what is told of it.
    double seconds = 0;  ///< 0: no limit
    double warm_up = 0;  ///< seconds that count in no total
    double interval = 1; ///< seconds
    bool milliseconds = false;
    bool settlement_latency = false;
    bool verify = false;
    std::string csv_file;
    std::string json_file;
    std::string hdr_file;
    std::string report_file;

    std::uint32_t frame_max = 0; ///< 0: the library's
    std::optional<std::uint16_t> heartbeat_s;

    std::optional<proxy_route> proxy;

    /// The names of all queues: one, or what the pattern makes.
    [[nodiscard]] std::vector<std::string> queues() const;
    /// "auto", "single", "multi:64", "none".
    [[nodiscard]] std::string settle_text() const;
    [[nodiscard]] bool settles() const noexcept { return settle != settle_by::nobody; }
};

struct parsed {
    options values;
    std::string error; ///< what is wrong, in one sentence; empty: nothing
    bool wants_help = false;
    bool wants_version = false;
};

/// `arguments` without the program's name. Flags have the words of RabbitMQ's PerfTest where it has
/// them; those of PerfTest that this tool lacks are refused by name.
[[nodiscard]] parsed parse(std::span<const std::string_view> arguments);

/// One line per option, 100 columns at most.
[[nodiscard]] std::string usage();

/// The command line for reports: quoted where a shell needs it, and without any password.
[[nodiscard]] std::string command_line(std::span<const std::string_view> arguments);

} // namespace acquit::bench
