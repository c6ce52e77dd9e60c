#pragma once

#include <acquit/amqp/session/options.h>
#include <acquit/amqp/uri.h>
#include <acquit/runtime/stream.h>
#include <acquit/runtime/task.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::amqp {

struct connection_options {
    /// Tried in order; the first that answers is used.
    std::vector<host_port> hosts{{.host = "localhost", .port = 5672}};
    /// Instead of `hosts`: a unix socket that leads to the broker.
    std::string unix_path{};
    client_options session{};
    /// Name resolution, TCP and the AMQP handshake together.
    std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);
    /// How long a verb (declare, consume, ...) may wait for its answer.
    /// RabbitMQ: on 4.x a classic queue whose node is down answers nothing for a minute.
    std::chrono::nanoseconds operation_timeout = std::chrono::seconds(30);
    /// Output that may wait for the socket before publishers are made to wait. Settlements never wait.
    std::size_t output_bound = std::size_t{4} << 20;
    /// Instead of `hosts`: how to get a stream (tests, tunnels). Called for each connect attempt.
    std::function<runtime::task<std::unique_ptr<runtime::stream>>()> connector{};
};

/// Options from an address such as `amqp://user:secret@host:5672/vhost?heartbeat=10`.
/// Throws `connection_error` that says what is wrong with the address, never showing the password.
[[nodiscard]] connection_options options_from_uri(std::string_view address);

} // namespace acquit::amqp
