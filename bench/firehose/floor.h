#pragma once

#include "pacer.h"
#include "queues.h"
#include "settings.h"
#include "statistics.h"

#include <cstdint>
#include <vector>

namespace acquit::firehose {

class client;

/// What all clients of a server share.
struct floor {
    explicit floor(const settings& s) : how(s), queues(s.messages), pace(s.rate) {}

    settings how;
    statistics seen;
    queue_table queues;
    pacer pace;
    std::uint64_t now_ns = 0;      ///< of this turn
    std::vector<client*> pending;  ///< clients with something to do, each once
    std::uint64_t names = 0;       ///< made up so far
    std::uint64_t unsettled = 0;   ///< on all channels
    std::uint64_t blocks_size = 0; ///< of all belts, bytes
};

} // namespace acquit::firehose
