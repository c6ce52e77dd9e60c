#pragma once

#include "../peer/host.h"

#include <acquit/amqp/publisher.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

/// What the tests of the publisher share: a broker in memory whose answers a test may hold back.
namespace acquit::testing {

using amqp::bytes_of;
using amqp::channel_error;
using amqp::connection;
using amqp::connection_error;
using amqp::publish_answer;
using amqp::publish_error;
using amqp::publish_ticket;
using amqp::publisher;
using amqp::publisher_options;
using fate = broker_model::publish_fate;
using reason = publish_error::reason;

inline constexpr auto never = runtime::duration::max();

/// Runs `body(host&, connection&, peer&, publisher&)` with the publisher open, and destroys it.
template <class F>
void with_publisher(publisher_options options, F body, host_options there_options = {})
{
    there_options.automatic = true;
    virtually(
        [&](host& there) -> task<> {
            there.model["q"];
            (void)co_await connected(there, [&](connection& c, peer& p) -> task<> {
                publisher out(c, options);
                co_await out.open();
                co_await body(there, c, p, out);
            });
        },
        there_options);
}

/// The answers come when `release` says so, in the order of the publishes.
struct withheld {
    explicit withheld(host& there)
    {
        there.model.on_publish = [this](const said& what) {
            ++published;
            channel = what.channel;
            return fate{.delay = never};
        };
    }
    void ack(peer& p, std::uint64_t tag, bool multiple = false) const
    {
        p.say(channel, wire::basic::ack{.delivery_tag = tag, .multiple = multiple});
    }
    void nack(peer& p, std::uint64_t tag, bool multiple = false) const
    {
        p.say(channel, wire::basic::nack{.delivery_tag = tag, .multiple = multiple});
    }
    std::uint64_t published = 0;
    std::uint16_t channel = 0;
};

inline std::vector<const said*> publishes_in(const peer& p)
{
    std::vector<const said*> found;
    for (const auto& each : p.heard()) {
        if (each.is<wire::basic::publish>())
            found.push_back(&each);
    }
    return found;
}

inline wire::properties properties_of(const said& publish)
{
    wire::properties decoded;
    EXPECT_TRUE(wire::properties_view(publish.properties).decode(decoded).ok());
    return decoded;
}

/// Runs to its end in a scope of the test's; what it threw is in `why`.
inline task<> keep_failure(task<> what, std::exception_ptr& why)
{
    why = co_await failure_of(std::move(what));
}

} // namespace acquit::testing
