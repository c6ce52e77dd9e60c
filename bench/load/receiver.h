#pragma once

#include "body.h"
#include "meter.h"
#include "options.h"
#include "pace.h"
#include "verify.h"

#include <acquit/runtime/random.h>
#include <acquit/settle/outcome.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace acquit::bench {

/// What all channels of a run share.
struct shared {
    const options& settings;
    meter& measured;
    book* kept = nullptr;           ///< where the run is verified
    std::uint16_t run = 0;          ///< of the messages that we publish
    std::function<void()> on_end{}; ///< a consumer has what it wanted, or the book may be complete
};

/// The part of a consumer's channel that is the same whoever settles: it measures a message, keeps
/// book of it, and decides.
class receiver {
public:
    receiver(shared& of, std::uint64_t number)
        : shared_(of), pace_(of.settings.consumer_rate), random_(of.settings.seed + number)
    {
    }

    /// A message has arrived.
    void arrived(std::span<const std::byte> body) noexcept;
    /// Its work is done: what shall become of it.
    [[nodiscard]] settle::outcome decide(std::span<const std::byte> body);
    /// The same, for one that is nobody's to read any more.
    [[nodiscard]] settle::outcome decide(const std::optional<stamp>& of_it);

    /// It has settled as many as it should (-D); what comes beyond goes back to the queue.
    [[nodiscard]] bool full() const noexcept
    {
        return shared_.settings.per_consumer != 0 && settled_ >= shared_.settings.per_consumer;
    }
    [[nodiscard]] bool works() const noexcept
    {
        return shared_.settings.work.count() != 0 || shared_.settings.consumer_rate != 0;
    }
    /// When the work on the next message may end.
    [[nodiscard]] runtime::time_point work_ends(runtime::time_point now) noexcept
    {
        return std::max(pace_.next(now), runtime::later(now, shared_.settings.work));
    }
    [[nodiscard]] const options& settings() const noexcept { return shared_.settings; }

private:
    [[nodiscard]] settle::outcome draw() noexcept;

    shared& shared_;
    pace pace_;
    runtime::random_source random_;
    std::uint64_t settled_ = 0; // for good
};

} // namespace acquit::bench
