#pragma once

#include <acquit/amqp/connection_options.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/task.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace acquit::tests {

/// A method that a client sent.
struct sent_method {
    std::uint16_t channel = 0;
    amqp::wire::method_id id{};
    std::uint64_t delivery_tag = 0; ///< of ack, reject, nack
    bool flag = false;              ///< ack: multiple; reject, nack: requeue; consume: no_ack
};

/// A wire between a client and the broker that shows what the client says, and that can be cut.
///
///     tap wire{loop::current()};
///     tasks.spawn(wire.run());
///     service s{wire.options()};
///
/// Its `run` ends when it is cancelled.
class tap {
public:
    explicit tap(runtime::loop& owner) : listener_(runtime::listener::tcp(owner, "127.0.0.1", 0)) {}

    /// The broker, by way of this tap.
    [[nodiscard]] amqp::connection_options options() const;
    [[nodiscard]] runtime::task<> run();

    /// Ends all connections, without any AMQP word.
    void cut();
    /// From now on connections are accepted and ended at once; false: no longer.
    void refuse(bool yes) noexcept { refusing_ = yes; }

    /// Connections so far, those under way included.
    [[nodiscard]] std::size_t connections() const noexcept { return said_.size(); }
    /// What the client of that connection sent, whole frames only.
    [[nodiscard]] std::vector<sent_method> methods(std::size_t connection) const;
    /// How often a method was sent, on all connections.
    [[nodiscard]] std::size_t times(amqp::wire::method_id id) const;
    /// The bytes of all connections together.
    [[nodiscard]] std::size_t bytes() const noexcept;

private:
    struct line {
        std::unique_ptr<runtime::stream> client;
        std::unique_ptr<runtime::stream> broker;
        bool open = true;
    };

    runtime::task<> serve(std::unique_ptr<runtime::stream> client);
    runtime::task<> pump(line& between, bool from_client, std::size_t connection);

    runtime::listener listener_;
    std::vector<line*> lines_;
    std::vector<std::vector<std::byte>> said_;
    bool refusing_ = false;
};

} // namespace acquit::tests
