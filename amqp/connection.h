#pragma once

#include <acquit/amqp/connection_options.h>
#include <acquit/amqp/error.h>
#include <acquit/amqp/session/session.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/stream.h>
#include <acquit/runtime/task.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace acquit::amqp {

class channel;

/// One AMQP connection: a live object. The constructor does nothing asynchronous; `run()` connects,
/// speaks, and ends with the connection; the destructor asserts that it is over.
///
///     connection broker{options_from_uri("amqp://localhost")};
///     co_await with_scope([&](scope& s) -> task<> {
///         s.spawn(broker.run());
///         co_await broker.opened();
///         channel c{broker};
///         co_await c.open();
///         ...
///         co_await broker.close();
///     });
///
/// One thread: a connection, its channels and all that awaits them belong to one loop.
class connection {
public:
    explicit connection(connection_options options);
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    /// Connects and serves until the connection ends: normally after `close()`, by
    /// `connection_error` when the broker closed it, refused it, or went away.
    [[nodiscard]] runtime::task<> run();

    /// Returns once the handshake is done; throws what ended the connection otherwise.
    [[nodiscard]] runtime::task<> opened();

    /// Closes with the handshake of AMQP 0-9-1 1.4.2.2: what was written before reaches the broker.
    /// Idempotent; does nothing on a connection that is over. Bounded by `operation_timeout`.
    [[nodiscard]] runtime::task<> close(std::uint16_t code = 200, std::string text = "goodbye");

    [[nodiscard]] bool is_open() const noexcept { return phase_ == phase::open; }
    [[nodiscard]] bool is_over() const noexcept { return phase_ == phase::over; }
    /// The broker asked publishers to wait (`connection.blocked`), and why.
    [[nodiscard]] bool is_blocked() const noexcept { return blocked_; }
    [[nodiscard]] const std::string& blocked_reason() const noexcept { return blocked_reason_; }

    /// Called when `is_blocked` has changed.
    std::function<void()> on_blocked{};

    /// "host:port" of the peer, for messages.
    [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
    [[nodiscard]] const connection_options& options() const noexcept { return options_; }
    /// The state machine, for what the server said of itself and for what was tuned.
    [[nodiscard]] const amqp::session& session() const noexcept { return session_; }

    /// Bytes handed to the kernel and received from it so far.
    struct traffic {
        std::uint64_t bytes_in = 0;
        std::uint64_t bytes_out = 0;
        std::uint64_t receives = 0;
        std::uint64_t sends = 0;
    };
    [[nodiscard]] const traffic& stats() const noexcept { return traffic_; }

    // For channels and for the settlement layer.

    /// Something stands in the output: send it at the end of this turn.
    void output_written();
    /// Waits until the output is below its bound; throws if the connection ends.
    [[nodiscard]] runtime::task<> output_room();
    [[nodiscard]] output_buffer& output() noexcept { return session_.output(); }
    [[nodiscard]] amqp::session& session() noexcept { return session_; }
    /// By what the server said of itself; false while it has not, or for another product.
    [[nodiscard]] bool server_is_at_least(int major, int minor) const;
    /// The broker sent what it may not: closes the connection (503) and lets `run()` say so.
    void protocol_violation(const std::string& what);
    [[nodiscard]] runtime::receive_buffer& input() noexcept { return *input_; }
    /// No more bytes are read while any holder of a pause is alive (a consumer whose backlog is full).
    void pause_reading() noexcept { ++pauses_; }
    void resume_reading() noexcept;

private:
    friend class channel;

    enum class phase : std::uint8_t { idle, connecting, open, closing, over };

    struct send_hook final : runtime::turn_hook {
        explicit send_hook(connection& owner) : turn_hook(runtime::turn_phase::send), owner_(owner)
        {
        }
        void at_turn_end() noexcept override { owner_.wake_writer(); }
        connection& owner_;
    };

    runtime::task<std::unique_ptr<runtime::stream>> connect();
    runtime::task<> serve(runtime::scope& tasks);
    runtime::task<> say_goodbye();
    runtime::task<> read_to_end();
    runtime::task<> read_loop();
    /// Handles what was received; true when the connection is over.
    bool take_in();
    runtime::task<> write_loop();
    runtime::task<> heartbeat_loop();
    runtime::task<> handshake_watch();
    /// True when the connection is over.
    bool dispatch(const event& e);
    void wake_writer() noexcept;
    void end(std::exception_ptr why) noexcept;
    void lose_channels(const std::exception_ptr& why) noexcept;
    [[nodiscard]] std::string end_of_stream_text() const;

    void attach(channel& c, std::uint16_t number);
    void detach(std::uint16_t number) noexcept;

    connection_options options_;
    amqp::session session_;
    std::unique_ptr<runtime::stream> stream_;
    std::unique_ptr<runtime::receive_buffer> input_;
    std::vector<channel*> channels_; // by number
    runtime::event opened_;          // also set when the connection is over
    runtime::event over_;
    runtime::notifier room_;
    runtime::notifier resume_;
    class output_gate;
    output_gate* writer_ = nullptr; // waiting for output
    runtime::event writer_done_;
    std::vector<iovec> send_parts_; // of a gathered send
    runtime::scope* serving_ = nullptr;
    std::exception_ptr failure_;
    std::string peer_;
    std::string blocked_reason_;
    send_hook hook_{*this};
    traffic traffic_;
    runtime::time_point handshake_deadline_{};
    std::uint64_t pauses_ = 0;
    phase phase_ = phase::idle;
    bool blocked_ = false;
    bool writer_stopped_ = false;
};

} // namespace acquit::amqp
