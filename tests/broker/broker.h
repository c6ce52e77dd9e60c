#pragma once

#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/amqp/message.h>
#include <acquit/amqp/wire/table.h>
#include <acquit/runtime/loop.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What tests against a real broker share. Nothing sleeps for a fixed time: whoever waits for the
/// broker asks it again, by round trips, until a deadline that only a failure reaches.
namespace acquit::tests {

/// A test that waits longer has failed.
inline constexpr auto patience = std::chrono::seconds(60);

/// Where tests/broker/with put the broker. Throws when it did not.
[[nodiscard]] const std::string& broker_uri();
/// Options for the same broker, with short waits between attempts.
[[nodiscard]] amqp::connection_options broker_options();
/// What `$ACQUIT_BROKER_NODE ctl $ACQUIT_BROKER_DIR <arguments>` prints. Throws when it fails.
[[nodiscard]] std::string broker_ctl(const std::string& arguments);

/// For coroutines, where ASSERT_ cannot return: throws `what` when it does not hold.
void require(bool holds, std::string_view what);

/// A test's share of the broker: names that nobody else uses, and their removal at the end.
///
///     TEST(S1_ack, the_broker_forgets_an_acked_message)
///     {
///         place here;
///         const auto queue = here.name();
///         here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> { ... });
///     }
class place {
public:
    place() = default;
    ~place();
    place(const place&) = delete;
    place& operator=(const place&) = delete;

    /// For a queue or an exchange: the test's name, the process, a number.
    [[nodiscard]] std::string name(std::string_view suffix = {});

    /// Runs `body(connection&, channel&)` with both open, and closes them.
    template <class F>
    void run(F body)
    {
        run_on(broker_options(), std::move(body));
    }
    template <class F>
    void run_on(amqp::connection_options options, F body)
    {
        runtime::loop events;
        events.run(runtime::with_timeout(patience, connected(std::move(options), body)));
    }

private:
    template <class F>
    static task<> connected(amqp::connection_options options, F& body)
    {
        amqp::connection c(std::move(options));
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(c.run());
            co_await c.opened();
            amqp::channel ch(c);
            co_await ch.open();
            co_await body(c, ch);
            co_await ch.close();
            co_await c.close();
        });
    }

    std::vector<std::string> names_;
};

enum class kind : std::uint8_t { classic, quorum };

[[nodiscard]] amqp::wire::table arguments_of_kind(kind k);
/// A durable queue of that kind, with further arguments where given.
[[nodiscard]] task<> make_queue(amqp::channel& ch, std::string_view queue, kind k,
                                amqp::wire::table more = {});

/// Publishes "0", "1", ... as persistent messages to the queue; returns once all are confirmed.
[[nodiscard]] task<> publish(amqp::connection& c, std::string_view queue, std::size_t n,
                             std::size_t first = 0);

/// Ready messages and consumers, by a passive declare.
[[nodiscard]] task<amqp::queue_declared> count(amqp::channel& ch, std::string_view queue);
/// On a channel of its own, which a missing queue costs.
[[nodiscard]] task<bool> queue_exists(amqp::connection& c, std::string_view queue);

/// Round trips until `condition()` holds. Throws `what` after a long while.
template <class F>
task<> until(amqp::channel& ch, std::string_view what, F condition)
{
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
        require(std::chrono::steady_clock::now() < deadline, what);
        co_await ch.barrier();
    }
}
/// Round trips until the queue has that many ready messages.
[[nodiscard]] task<> until_ready(amqp::channel& ch, std::string_view queue, std::size_t messages);

/// Round trips until nobody consumes from it: a quorum queue hears late of a consumer's end.
[[nodiscard]] task<> until_unconsumed(amqp::channel& ch, std::string_view queue);

/// Everything that the queue holds, taken off.
[[nodiscard]] task<std::vector<amqp::received>> take_all(amqp::channel& ch, std::string_view queue);

/// The header's integer; nothing if it is absent.
[[nodiscard]] std::optional<std::int64_t> header_of(const amqp::received& m, std::string_view name);
[[nodiscard]] std::optional<std::int64_t> header_of(const message& m, std::string_view name);
[[nodiscard]] std::size_t number_in(std::string_view body);

/// A service for this broker that comes back at once when it loses its connection.
[[nodiscard]] amqp::connection_options service_options();

namespace detail {
inline task<> into(task<report> running, std::optional<report>& result)
{
    result.emplace(co_await std::move(running));
}
} // namespace detail

/// Runs the service; once it consumes, runs `body()`, then stops it and gives its report.
template <class F>
task<report> while_serving(service& s, F body)
{
    std::optional<report> result;
    co_await with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(detail::into(s.run(), result));
        co_await s.started();
        co_await body();
        s.stop();
    });
    require(result.has_value(), "the service ended without a report");
    co_return std::move(*result);
}

/// Until each consumer's basic.cancel is written. (The queue does not tell: RabbitMQ counts a cancelled
/// consumer of a quorum queue as long as it holds deliveries.)
[[nodiscard]] task<> until_draining(amqp::channel& ch, service& s);

/// Received = decided + given back + lost with their channel + abandoned, and nothing is left over.
void expect_adds_up(const report& r);

} // namespace acquit::tests
