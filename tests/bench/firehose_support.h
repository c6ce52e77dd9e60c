#pragma once

#include "../../bench/firehose/server.h"

#include <acquit/amqp/session/session.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace acquit::testing {

namespace wire = amqp::wire;

/// A stand-in server on a thread of its own.
class running_server {
public:
    explicit running_server(const firehose::settings& how);
    ~running_server();
    running_server(const running_server&) = delete;
    running_server& operator=(const running_server&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept { return serving_.port(); }
    /// Stops it; what it saw.
    const firehose::statistics& stop();

private:
    firehose::server serving_;
    int stop_fd_;
    std::thread thread_;
};

/// A delivery as it came.
struct delivered {
    std::uint16_t channel = 0;
    std::uint64_t tag = 0;
    bool redelivered = false;
    std::string consumer_tag;
    std::string body;
    std::vector<std::byte> properties;
};

/// The client's side of one connection, as a script: each call waits for what it names, and throws
/// where that does not come within ten seconds.
class script_client {
public:
    explicit script_client(std::uint16_t port, amqp::client_options options = {});
    ~script_client();
    script_client(const script_client&) = delete;
    script_client& operator=(const script_client&) = delete;

    void open_channel(std::uint16_t channel = 1);
    /// Sets the prefetch and consumes from "q".
    void consume(std::uint16_t prefetch, bool no_ack = false, std::uint16_t channel = 1,
                 std::string_view tag = "me");
    /// Until `count` deliveries came in all; all of them so far.
    const std::vector<delivered>& receive(std::size_t count);
    /// A round trip, and how many deliveries came in all when it was over: the window is full then.
    std::size_t received_after_round_trip(std::uint16_t channel = 1);
    void ack(std::uint64_t tag, bool multiple = false, std::uint16_t channel = 1);
    void reject(std::uint64_t tag, bool requeue);
    void nack(std::uint64_t tag, bool multiple, bool requeue);
    /// Sends a method and waits for the answer with this id.
    template <class M>
    void ask(std::uint16_t channel, const M& method, wire::method_id answer)
    {
        tell(channel, method);
        wait_for_method(answer);
    }
    template <class M>
    void tell(std::uint16_t channel, const M& method)
    {
        check(session_.send(channel, method));
        flush();
    }
    void publish(std::string_view body, std::uint16_t channel = 1);
    void raw(std::span<const std::byte> bytes);
    /// The server closes a channel: why.
    amqp::close_event wait_for_channel_close();
    /// The connection's end: reply code of the server, or 0 where it just ended.
    amqp::close_event wait_for_end();
    void close_channel(std::uint16_t channel = 1);
    /// Sends these bytes and the end of the stream behind them, without a goodbye.
    void leave(std::span<const std::byte> last_bytes);
    void close();

    [[nodiscard]] amqp::session& session() noexcept { return session_; }
    /// Everything that was received, in bytes.
    [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

private:
    static void check(amqp::send_status status);
    void flush();
    void wait_until(const char* what, const std::function<bool(const amqp::event&)>& found);
    void wait_for_method(wire::method_id id);
    void keep(const amqp::event& e);
    [[nodiscard]] bool fill();

    int fd_;
    amqp::session session_;
    std::vector<std::byte> bytes_;
    std::size_t at_ = 0;
    std::vector<delivered> deliveries_;
};

} // namespace acquit::testing
