#pragma once

#include "receiver.h"
#include "result.h"

#include <acquit/amqp/connection_options.h>
#include <acquit/runtime/task.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace acquit::bench {

/// One connection that consumes, on one channel or several, a queue for each.
class consumer {
public:
    virtual ~consumer() = default;

    /// Connects, consumes until `stop`, settles the rest, and disconnects.
    [[nodiscard]] virtual runtime::task<> run() = 0;
    /// Until it consumes. Throws where it ended before that.
    [[nodiscard]] virtual runtime::task<> started() = 0;
    /// Ends it in good order. Idempotent.
    virtual void stop() = 0;
    /// Every channel has had its messages (-D).
    [[nodiscard]] virtual bool full() const noexcept = 0;
    /// Adds what it has settled since the beginning.
    virtual void add_to(settling& sum) const = 0;
    /// A sentence on what it ended with, where there is something to say.
    [[nodiscard]] virtual std::string remark() const { return {}; }
};

struct consumer_place {
    amqp::connection_options connection;
    std::vector<std::string> queues; ///< one per channel
    std::uint64_t number = 0;        ///< of its first channel, among all
};

/// By --settle: the library's service with its ledger...
[[nodiscard]] std::unique_ptr<consumer> service_consumer(shared& of, consumer_place where);
/// ...or a channel whose deliveries are answered by hand, or not at all.
[[nodiscard]] std::unique_ptr<consumer> channel_consumer(shared& of, consumer_place where);

/// The retries of `service_consumer` need queues that belong to its own declaration.
[[nodiscard]] bool service_declares(const options& o) noexcept;

} // namespace acquit::bench
