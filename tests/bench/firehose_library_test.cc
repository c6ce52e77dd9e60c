// The library as the client of the stand-in server.

#include "firehose_support.h"

#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/amqp/uri.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/deliveries.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace acquit::testing {

namespace {

using firehose::settings;

template <class F>
void with_broker(const running_server& there, F body)
{
    runtime::loop events;
    events.run([](std::uint16_t port, F& run) -> task<> {
        amqp::connection broker(
            amqp::options_from_uri(fmt::format("amqp://guest:guest@127.0.0.1:{}", port)));
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(broker.run());
            co_await broker.opened();
            co_await run(broker);
            co_await broker.close();
        });
    }(there.port(), body));
}

TEST(firehose, the_library_settles_every_delivery_once)
{
    constexpr std::uint64_t messages = 20'000;
    running_server there(settings{.messages = messages, .sizes = {16, 200, 9000, 0}});
    std::uint64_t again = 0;
    with_broker(there, [&](amqp::connection& broker) -> task<> {
        settle::deliveries incoming(broker, existing_queue{"q"}.prefetch(300));
        co_await incoming.open();
        std::uint64_t finished = 0;
        while (finished != messages) {
            auto message = co_await incoming.next();
            again += message->redelivered() ? 1U : 0U;
            const auto tag = message->tag();
            if (tag % 10 == 3 && !message->redelivered()) {
                message.settle(retry());
            } else {
                message.settle(tag % 7 == 0 ? drop : ack);
                ++finished;
            }
        }
        co_await incoming.close();
    });
    const auto& seen = there.stop();
    EXPECT_EQ(seen.settled_twice + seen.unknown_tags, 0U);
    EXPECT_EQ(seen.left_unsettled, 0U);
    EXPECT_EQ(seen.acked + seen.rejected, messages);
    EXPECT_EQ(seen.requeued, again);
    EXPECT_EQ(seen.redelivered, again);
    EXPECT_GT(again, 0U);
    EXPECT_EQ(seen.protocol_errors, 0U);
}

TEST(firehose, a_service_drains_from_it)
{
    running_server there(settings{.messages = 5000, .headers = firehose::header_kind::rich});
    runtime::loop events;
    const auto settled = events.run([](std::uint16_t port) -> task<report> {
        service consumer{fmt::format("amqp://guest:guest@127.0.0.1:{}", port)};
        std::uint64_t handled = 0;
        consumer.consume(existing_queue{"q"}.prefetch(100), [&](delivery&) -> task<outcome> {
            if (++handled == 5000)
                consumer.stop();
            co_return ack;
        });
        co_return co_await consumer.run();
    }(there.port()));
    EXPECT_TRUE(settled.clean()) << settled.text();
    const auto& seen = there.stop();
    EXPECT_EQ(seen.acked, 5000U);
    EXPECT_EQ(seen.left_unsettled + seen.settled_twice + seen.unknown_tags, 0U);
}

} // namespace

} // namespace acquit::testing
