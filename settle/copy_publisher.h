#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/amqp/confirms.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/task.h>
#include <acquit/runtime/timer.h>
#include <acquit/runtime/waiter.h>
#include <acquit/settle/backoff.h>
#include <acquit/settle/copy_message.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace acquit::settle {

/// What became of a copy.
enum class copy_result : std::uint8_t {
    confirmed, ///< the broker has it: the original may go
    returned,  ///< no queue would have it
    nacked,    ///< the broker could not take it
    timed_out, ///< no answer in time: it may or may not be there
    lost,      ///< the channel went before the answer: likewise
};

[[nodiscard]] const char* name(copy_result r) noexcept;

class copy_publisher;

namespace detail {
/// A place in a list of the publisher's.
struct copy_link : runtime::list_node {};
} // namespace detail

/// A copy from its submission to the broker's answer. Derive from it; it cannot be moved, and must
/// be idle, or withdrawn, when it is destroyed.
class copy_request : private amqp::confirm_listener,
                     protected runtime::timer,
                     private detail::copy_link {
public:
    copy_request(const copy_request&) = delete;
    copy_request& operator=(const copy_request&) = delete;

    [[nodiscard]] bool submitted() const noexcept { return state_ != state::idle; }
    /// Its bytes were handed to the connection, and it is not answered.
    [[nodiscard]] bool in_flight() const noexcept { return state_ == state::in_flight; }

    copy_message message;

protected:
    copy_request() noexcept = default;
    ~copy_request();

    /// Where it is submitted.
    [[nodiscard]] virtual copy_publisher& publisher() const noexcept = 0;

    /// Idle again by now; it may be submitted anew, or destroy itself.
    virtual void on_copy_done(copy_result result) noexcept = 0;
    /// The timer fired while it is idle: it belongs to the owner then.
    virtual void on_wait_over() noexcept = 0;

private:
    friend class copy_publisher;
    enum class state : std::uint8_t { idle, waiting, in_flight };

    void on_confirm(amqp::publish_result result, std::uint16_t return_code) noexcept final;
    void on_timer() noexcept final;

    [[nodiscard]] detail::copy_link& link() noexcept { return *this; }

    std::uint64_t publish_ = 0; // its number in the channel, while in flight

protected:
    /// For the owner; here because a million of these may wait.
    std::uint32_t epoch_ = 0;

private:
    state state_ = state::idle;
};

struct copy_metrics {
    std::uint64_t published = 0;
    std::uint64_t confirmed = 0;
    std::uint64_t failed = 0; ///< returned, nacked, timed out or lost
    std::uint64_t in_flight = 0;
    std::uint64_t waiting = 0; ///< for the connection, the window, or `connection.unblocked`
    std::uint64_t connections = 0;
    bool blocked = false;
};

/// The publisher of copies, in confirm mode, on a connection of its own: under a memory alarm the
/// broker stops reading connections that publish, and settlements on them would stall (RabbitMQ:
/// connection.blocked).
///
/// Copies go out in the order of `submit` without waiting for each other's confirms. At most
/// `window` are unanswered; the others wait here, also while the broker blocks publishing and while
/// there is no connection. Each is answered, or reported as timed out, within `confirm_timeout` of
/// its submission.
class copy_publisher {
public:
    struct options {
        std::size_t window = 2048;
        std::chrono::nanoseconds confirm_timeout = std::chrono::seconds(30);
        backoff reconnect = backoff::exponential({.initial = std::chrono::milliseconds(200),
                                                  .factor = 2.0,
                                                  .cap = std::chrono::seconds(30)});
    };

    copy_publisher(amqp::connection_options connection, options o);
    explicit copy_publisher(amqp::connection_options connection)
        : copy_publisher(std::move(connection), options{})
    {
    }
    ~copy_publisher();
    copy_publisher(const copy_publisher&) = delete;
    copy_publisher& operator=(const copy_publisher&) = delete;

    void submit(copy_request& r) noexcept;
    /// Nobody will be told of it any more. What was handed to the connection may reach the broker.
    void withdraw(copy_request& r) noexcept;

    /// Connects when the first copy comes (or with `ready`), and again when the connection is lost,
    /// until `close`.
    [[nodiscard]] runtime::task<> run();
    /// Connects; throws what made the first attempt fail.
    [[nodiscard]] runtime::task<> ready();
    /// Nothing may be submitted any more; `run` closes the connection and ends.
    void close() noexcept;
    /// Returns when `run` has ended.
    [[nodiscard]] runtime::task<> closed();

    [[nodiscard]] copy_metrics metrics() const noexcept;
    /// Another connection to the same broker was tuned to this.
    void expect_frame_size(std::uint32_t bytes) noexcept
    {
        if (counts_.connections == 0)
            frame_size_max_ = bytes;
    }
    /// Bytes that a header frame may have: as tuned; before that as expected, else the least that
    /// RabbitMQ tunes.
    [[nodiscard]] std::uint32_t frame_size_max() const noexcept { return frame_size_max_; }

private:
    friend class copy_request;
    class on_connection;

    runtime::task<> publish_until_lost_or_closed();
    runtime::task<> leave_when_closed(runtime::scope& publishing);
    runtime::task<> publish_until_lost();
    runtime::task<> publish_on_channel(amqp::connection& broker);
    runtime::task<> pump(amqp::connection& broker, amqp::channel& c);
    runtime::task<> pause(std::uint32_t attempt);
    void publish_front(amqp::channel& c) noexcept;
    void finish(copy_request& r, copy_result result) noexcept;
    void take_back(copy_request& r) noexcept;
    void leave_channel() noexcept;
    static copy_request& first_of(runtime::list_node& list) noexcept
    {
        return static_cast<copy_request&>(static_cast<detail::copy_link&>(*list.next));
    }

    amqp::connection_options connection_options_;
    options options_;
    runtime::list_node waiting_; // in the order of submit
    runtime::list_node in_flight_;
    amqp::connection* broker_ = nullptr;
    amqp::channel* channel_ = nullptr;
    runtime::event wanted_;
    runtime::event closing_;
    runtime::event over_;
    runtime::notifier news_;     // for the pump
    runtime::notifier progress_; // for who waits for a connection
    std::exception_ptr failure_;
    runtime::random_source random_;
    copy_metrics counts_;
    std::uint32_t frame_size_max_;
};

} // namespace acquit::settle
