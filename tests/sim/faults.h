#pragma once

#include "../peer/host.h"
#include "witness.h"

#include <acquit/runtime/random.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace acquit::testing {

enum class fault_kind : std::uint8_t {
    cut,            // the connection breaks after some more bytes
    lost_frame,     // it breaks when so many more frames were said, before the last is read
    last_frame,     // the same, after that one was answered
    reset,          // it breaks now
    hang_up,        // end of stream
    server_closes,  // connection.close 320
    channel_closed, // channel.close 406
    consumer_ended, // basic.cancel
    deaf,           // the server reads nothing for a while
    mute,           // nothing that it says arrives for a while
    blocked,        // connection.blocked for a while
    refused,        // the next connects are refused
    silent,         // new connections are accepted and not answered, for a while
    // Of single copies:
    returned,
    nacked,
    confirmed_late,
    unconfirmed, // there, but never confirmed
    count_
};

[[nodiscard]] const char* name(fault_kind f) noexcept;

using fault_counts = std::array<std::uint64_t, static_cast<std::size_t>(fault_kind::count_)>;

/// Makes things go wrong at random moments until it is cancelled; `heal` ends whatever lasts.
class faults {
public:
    faults(const shape& s, host& there, witness& seen, std::string queue);
    ~faults();
    faults(const faults&) = delete;
    faults& operator=(const faults&) = delete;

    [[nodiscard]] task<> inject();
    void heal();
    [[nodiscard]] const fault_counts& counts() const noexcept { return counts_; }
    [[nodiscard]] std::uint64_t total() const noexcept;

private:
    struct countdown {
        std::uint64_t frames;
        bool answered;
    };

    void one();
    void apply(fault_kind what, peer& p);
    bool on_frame(peer& p);
    broker_model::publish_fate on_publish(const said& what);
    void later(std::chrono::nanoseconds after, std::function<void()> what);
    [[nodiscard]] std::vector<peer*> alive();
    [[nodiscard]] std::chrono::nanoseconds up_to(std::chrono::nanoseconds most);

    const shape& shape_;
    host& host_;
    witness& witness_;
    std::string queue_;
    runtime::random_source random_;
    fault_counts counts_{};
    std::map<peer*, countdown> countdowns_;
    std::set<peer*> doomed_; // their next frames are not read any more
    std::set<peer*> cut_;    // will break by themselves
    struct pending {
        runtime::time_point due;
        std::uint64_t order;
        std::function<void()> what;
    };
    std::vector<pending> pending_; // the ends of what lasts
    std::uint64_t order_ = 0;
    bool healed_ = false;
};

} // namespace acquit::testing
