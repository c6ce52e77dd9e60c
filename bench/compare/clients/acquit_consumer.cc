// Our own rows of the comparison.
//
//     acquit-consumer HOST PORT QUEUE PREFETCH MESSAGES loop|handler|function|each BODY [HOLD_US]
//
//     loop       one coroutine, resumed per message: co_await deliveries.next()
//     handler    a coroutine per message
//     function   a plain function
//     each       by hand, an ack for each message: what the ledger saves

#include "figures.h"

#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/amqp/uri.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/deliveries.h>

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

using namespace acquit;

namespace {

struct order {
    std::string uri;
    std::string queue;
    std::uint16_t prefetch = 0;
    std::uint64_t messages = 0;
    std::string mode;
    std::size_t body = 0;
    settle::flush_policy flush{};
};

/// System calls of the loop while the figures were taken.
struct watched {
    explicit watched(const order& what)
        : name("acquit " + what.mode), counts(name.c_str(), what.messages)
    {
    }
    bool one(std::size_t body_size)
    {
        bytes += body_size;
        const bool last = counts.one();
        if (counts.warm())
            enters = runtime::loop::current().stats().enters;
        if (last)
            enters = runtime::loop::current().stats().enters - enters;
        return last;
    }

    std::string name;
    figures counts;
    std::uint64_t bytes = 0;
    std::uint64_t enters = 0;
};

task<> consume_by_loop(const order& what, watched& w)
{
    amqp::connection broker(amqp::options_from_uri(what.uri));
    co_await with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(broker.run());
        co_await broker.opened();
        settle::deliveries incoming(broker, existing_queue{what.queue}.prefetch(what.prefetch),
                                    what.flush);
        co_await incoming.open();
        for (;;) {
            auto message = co_await incoming.next();
            const auto size = message->body().size();
            message.settle(ack);
            if (w.one(size))
                break;
        }
        co_await incoming.close();
        co_await broker.close();
    });
}

/// Acks each delivery as it comes, below the settlement layer.
class acking_sink final : public amqp::consumer_sink {
public:
    acking_sink(amqp::channel& on, watched& w) : channel_(on), watched_(w) {}

    task<> done() { co_await done_.wait(); }

private:
    void on_delivery(const amqp::content_event& content,
                     const runtime::segment_ref&) noexcept override
    {
        channel_.ack(content.delivery_tag);
        if (watched_.one(content.body.size()))
            done_.set();
    }
    void on_server_cancel() noexcept override { done_.set(); }
    void on_channel_lost(std::exception_ptr) noexcept override { done_.set(); }

    amqp::channel& channel_;
    watched& watched_;
    runtime::event done_;
};

task<> consume_by_hand(const order& what, watched& w)
{
    amqp::connection broker(amqp::options_from_uri(what.uri));
    co_await with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(broker.run());
        co_await broker.opened();
        amqp::channel c(broker);
        acking_sink sink(c, w);
        co_await c.open();
        co_await c.qos(what.prefetch);
        const auto tag = co_await c.consume({.queue = what.queue}, sink);
        co_await sink.done();
        co_await c.cancel(tag);
        co_await c.close();
        co_await broker.close();
    });
}

template <class Handler>
task<> consume_by(const order& what, Handler handler, service& consumer)
{
    auto& subscription =
        consumer.consume(existing_queue{what.queue}.prefetch(what.prefetch), std::move(handler));
    subscription.flush(what.flush);
    const auto settled = co_await consumer.run();
    if (!settled.clean())
        throw std::runtime_error(settled.text());
}

task<> consume(const order& what, watched& w)
{
    if (what.mode == "loop") {
        co_await consume_by_loop(what, w);
        co_return;
    }
    if (what.mode == "each") {
        co_await consume_by_hand(what, w);
        co_return;
    }
    service consumer{what.uri};
    if (what.mode == "handler") {
        co_await consume_by(
            what,
            [&](delivery& d) -> task<outcome> {
                if (w.one(d.body().size()))
                    consumer.stop();
                co_return ack;
            },
            consumer);
    } else {
        co_await consume_by(
            what,
            [&](delivery& d) -> outcome {
                if (w.one(d.body().size()))
                    consumer.stop();
                return ack;
            },
            consumer);
    }
}

template <class T>
T number(const char* text)
{
    T value{};
    const std::string_view all(text);
    if (std::from_chars(all.data(), all.data() + all.size(), value).ptr != all.data() + all.size())
        throw std::runtime_error(fmt::format("{} is not a number", text));
    return value;
}

order parse(int argc, char** argv)
{
    if (argc < 8)
        throw std::runtime_error(
            "HOST PORT QUEUE PREFETCH MESSAGES loop|handler|function|each BODY [HOLD_US]");
    order what{.uri = fmt::format("amqp://guest:guest@{}:{}", argv[1], argv[2]),
               .queue = argv[3],
               .prefetch = number<std::uint16_t>(argv[4]),
               .messages = number<std::uint64_t>(argv[5]),
               .mode = argv[6],
               .body = number<std::size_t>(argv[7])};
    if (what.mode != "loop" && what.mode != "handler" && what.mode != "function" &&
        what.mode != "each")
        throw std::runtime_error(fmt::format("unknown mode {}", what.mode));
    if (argc > 8)
        what.flush.hold = std::chrono::microseconds(number<std::uint32_t>(argv[8]));
    return what;
}

} // namespace

int main(int argc, char** argv)
{
    try {
        const order what = parse(argc, argv);
        watched w(what);
        runtime::loop events;
        events.run(consume(what, w));
        if (w.bytes != what.messages * what.body)
            throw std::runtime_error("bodies of another size came");
        w.counts.print(
            fmt::format(", \"syscalls\": {:.6f}",
                        static_cast<double>(w.enters) / static_cast<double>(w.counts.measured()))
                .c_str());
        return 0;
    } catch (const std::exception& e) {
        fmt::print(stderr, "acquit-consumer: {}\n", e.what());
        return 1;
    }
}
