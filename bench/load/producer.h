#pragma once

#include "message.h"
#include "pace.h"
#include "receiver.h"

#include <acquit/amqp/connection.h>
#include <acquit/amqp/publisher.h>
#include <acquit/runtime/task.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace acquit::bench {

/// One channel that publishes: as fast as the connection takes it, or at a rate; until it was
/// cancelled, or for so many messages. Then it waits for the confirms that are missing.
class producer {
public:
    producer(shared& of, amqp::connection& broker, std::uint16_t number, std::string routing_key,
             const message_properties& properties);
    producer(const producer&) = delete;
    producer& operator=(const producer&) = delete;

    [[nodiscard]] runtime::task<> open();
    /// Cancelling it is how it is stopped: it ends without an error then.
    [[nodiscard]] runtime::task<> run();
    [[nodiscard]] runtime::task<> close();

private:
    runtime::task<> publish_all();
    runtime::task<> publish(std::uint64_t number);
    void answered(const amqp::publish_answer& told, runtime::time_point sent);

    shared& shared_;
    std::uint16_t number_;
    std::string routing_key_;
    const message_properties& properties_;
    std::vector<std::byte> body_;
    amqp::publisher out_;
};

} // namespace acquit::bench
