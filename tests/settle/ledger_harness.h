// A ledger beside the server's list, and beside a plain record of what was decided.
#pragma once

#include "server_model.h"

#include <acquit/settle/ledger.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace acquit::settle::testing {

inline constexpr std::uint16_t test_channel = 0x0102;

inline constexpr std::array all_dispositions{disposition::ack, disposition::reject,
                                             disposition::requeue};

fate fate_after(disposition how);

class ledger_harness {
public:
    explicit ledger_harness(std::uint32_t window_hint) : book{window_hint}, server{test_channel} {}

    std::uint64_t deliver();
    void deliver(int count);
    std::uint64_t skip();
    void settle(std::uint64_t tag, disposition how);

    // Flushes into a span with room for `frames_max` frames and lets the server read it. Checks that the
    // server accepts it, that tags ascend, and, if everything fitted, that no fewer frames were possible.
    // Answers what the ledger answered.
    flush_result flush(std::size_t frames_max = SIZE_MAX);
    flush_result give_back(std::uint64_t first, std::uint64_t last,
                           std::size_t frames_max = SIZE_MAX);

    // Settles the rest as acks, flushes, and checks that each delivery met the fate that was decided.
    void finish();
    void reset();

    // Frames that tell the server all that is decided and unwritten, by rule L2 and L3.
    std::uint64_t fewest_frames() const;

    ledger book;
    server_model server;
    std::map<std::uint64_t, fate> decided; // what finish() expects
    std::vector<std::uint64_t> open;       // ascending: delivered, neither decided nor given back

private:
    void check_counts();

    std::map<std::uint64_t, fate> unwritten_;
    std::vector<std::byte> buffer_;
};

} // namespace acquit::settle::testing
