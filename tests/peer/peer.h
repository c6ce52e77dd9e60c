#pragma once

#include <acquit/amqp/message.h>
#include <acquit/amqp/session/session.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/stream.h>
#include <acquit/runtime/task.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::testing {

namespace wire = amqp::wire;

/// One thing a client said: a method with its arguments, or a whole publish. What the server's
/// session answers by itself (open, close) is recorded too.
struct said {
    runtime::time_point at{};
    std::uint16_t channel = 0;
    wire::method_id id{};
    std::vector<std::byte> arguments;
    // Of basic.publish alone:
    std::string exchange;
    std::string routing_key;
    bool mandatory = false;
    std::vector<std::byte> properties;
    std::string body;

    template <class M>
    [[nodiscard]] bool is() const
    {
        return id == wire::id_of<M>;
    }
    /// The arguments; views into this record.
    template <class M>
    [[nodiscard]] M as() const
    {
        M method;
        (void)wire::decode(std::span<const std::byte>(arguments), method).ok();
        return method;
    }
};

/// What the peer delivers. `body` may be empty.
struct parcel {
    std::string_view consumer_tag{};
    std::uint64_t tag = 0;
    std::string_view body{};
    std::string_view routing_key = "q";
    bool redelivered = false;
};

/// The server's side of one connection, written as a script:
///
///     peer& p = broker.latest();
///     auto asked = co_await p.expect<wire::basic::consume>();
///     p.say(asked.channel, wire::basic::consume_ok{.consumer_tag = "a"});
///     p.deliver(asked.channel, {.consumer_tag = "a", .tag = 1, .body = "x"});
///     co_await p.expect<wire::basic::ack>();
///
/// It keeps the handshake, answers channel.open and both closes, and records all else; who wants
/// automatic answers sets `on_said` (broker_model does).
class peer {
public:
    peer(std::unique_ptr<runtime::stream> stream, amqp::server_options options);
    ~peer();
    peer(const peer&) = delete;
    peer& operator=(const peer&) = delete;

    /// Reads until the client is gone. Broken streams end it without an exception.
    [[nodiscard]] runtime::task<> serve();
    /// Only accepts: reads nothing, says nothing, until `hang_up`.
    [[nodiscard]] runtime::task<> ignore();

    /// The next method M that was not expected before, be it there already or not. What was said
    /// before it counts as seen. Throws when the client goes instead.
    template <class M>
    [[nodiscard]] runtime::task<said> expect()
    {
        return expect(wire::id_of<M>);
    }
    [[nodiscard]] runtime::task<said> expect(wire::method_id id);
    /// Everything so far, in order.
    [[nodiscard]] const std::vector<said>& heard() const noexcept { return heard_; }
    template <class M>
    [[nodiscard]] std::size_t count() const
    {
        return count(wire::id_of<M>);
    }
    [[nodiscard]] std::size_t count(wire::method_id id) const noexcept;
    /// Where the latest M was said; 0 where none was.
    template <class M>
    [[nodiscard]] std::uint16_t channel_of() const
    {
        for (auto each = heard_.rbegin(); each != heard_.rend(); ++each) {
            if (each->is<M>())
                return each->channel;
        }
        return 0;
    }

    template <class M>
    void say(std::uint16_t channel, const M& method)
    {
        check(session_.send(channel, method));
        flush();
    }
    void deliver(std::uint16_t channel, const parcel& what);
    /// Deliveries `first` to `last` with bodies "first" ... "last".
    void deliver_range(std::uint16_t channel, std::string_view consumer_tag, std::uint64_t first,
                       std::uint64_t last);
    void get_ok(std::uint16_t channel, std::uint64_t tag, std::string_view body);
    /// basic.return of a publish.
    void give_back(std::uint16_t channel, const said& publish);
    void close_channel(std::uint16_t channel, wire::reply_code code, std::string_view text,
                       wire::method_id offender = {});
    void close(wire::reply_code code, std::string_view text);
    void block(std::string_view reason);
    void unblock();
    void raw(std::span<const std::byte> bytes);

    /// Nothing of what is said from now on arrives, until `thaw`. Memory streams only.
    void freeze();
    void thaw();
    /// The connection breaks when the client has read so many more bytes.
    void cut_after(std::size_t bytes);
    /// Ends the connection as a server that dies does: a reset.
    void reset();
    /// Ends it as one that goes without a word: end of stream.
    void hang_up();
    /// Takes no more bytes from the client, until `listen`.
    void stop_listening() noexcept { listening_ = false; }
    void listen() noexcept;

    [[nodiscard]] bool is_over() const noexcept { return over_.is_set(); }
    [[nodiscard]] runtime::task<> gone();
    [[nodiscard]] amqp::session& session() noexcept { return session_; }
    [[nodiscard]] std::size_t receives() const noexcept { return receives_; }
    /// Sends what stands in the output.
    void flush() noexcept { wake_.notify_all(); }

    /// Called for each record, when it was recorded.
    std::function<void(const said&)> on_said{};
    std::function<void()> on_gone{};

private:
    runtime::task<> read_loop();
    runtime::task<> write_loop();
    bool handle(const amqp::event& e);
    void record(std::uint16_t channel, wire::method_id id,
                std::span<const std::byte> arguments = {});
    void record(said what);
    static void check(amqp::send_status status);

    std::unique_ptr<runtime::stream> stream_;
    amqp::session session_;
    runtime::receive_buffer input_;
    std::vector<said> heard_;
    std::size_t seen_ = 0;
    std::size_t receives_ = 0;
    runtime::notifier news_;
    runtime::notifier wake_;
    runtime::notifier listen_;
    runtime::event over_;
    bool listening_ = true;
    bool finished_ = false;
};

} // namespace acquit::testing
