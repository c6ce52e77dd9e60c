// What a message costs in instructions: each scenario of this program runs a steady part that
// callgrind counts (collect.h), over memory, without a kernel ring or a clock, so that the same
// program gives the same count on every machine. bench/counts/check runs them all and compares.

#include "canned_stream.h"
#include "collect.h"

#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/amqp/session/session.h>
#include <acquit/amqp/wire/wire.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/ledger.h>

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

namespace acquit::bench {
namespace {

constexpr std::uint16_t prefetch = 4096;
constexpr std::size_t body_size = 16;
/// Behind these every buffer, free list and ring has its size.
constexpr std::uint64_t warm_up = 40'000;
constexpr std::uint64_t measured = 40'000;

[[noreturn]] void fail(std::string_view why)
{
    fmt::print(stderr, "acquit-counts: {}\n", why);
    std::exit(1);
}

// ---- single parts ---------------------------------------------------------------------------------

/// A receive segment full of deliveries.
struct segment {
    static constexpr std::uint64_t count = 2500;
    std::vector<std::byte> bytes;
    segment()
    {
        std::size_t tag_at = 0;
        const auto one = encoded_delivery(1, "acquit-1", body_size, tag_at);
        for (std::uint64_t i = 0; i < count; ++i)
            bytes.insert(bytes.end(), one.begin(), one.end());
    }
};

/// The codec alone: the one pass over method, header and body.
std::uint64_t decode()
{
    const segment received;
    std::uint64_t seen = 0;
    const auto pass = [&] {
        amqp::wire::delivery_frames d;
        for (std::span<const std::byte> rest(received.bytes); !rest.empty();) {
            if (!amqp::wire::parse_delivery(rest, 131072, d))
                fail("no delivery");
            seen += d.body.size();
            rest = rest.subspan(d.consumed);
        }
    };
    pass();
    counted(pass);
    if (seen != 2 * segment::count * body_size)
        fail("deliveries are missing");
    return segment::count;
}

/// The same by session::next, which also looks after channel and state.
std::uint64_t session_next()
{
    amqp::session client{amqp::client_options{.heartbeat_s = 0}};
    amqp::session server{amqp::server_options{.heartbeat_s = 0}};
    const auto talk = [](amqp::session& from, amqp::session& to) {
        if (from.output().open_empty())
            return false;
        auto bytes = from.output().begin_send();
        while (!bytes.empty()) {
            const auto e = to.next(bytes);
            if (e.kind == amqp::event_kind::need_more || e.kind == amqp::event_kind::failed)
                fail("the handshake failed");
            bytes = bytes.subspan(e.consumed);
        }
        from.output().end_send();
        return true;
    };
    client.start(0);
    server.start(0);
    while (talk(client, server) || talk(server, client)) {
    }
    if (client.open_channel(1) != amqp::send_status::sent)
        fail("no channel");
    while (talk(client, server) || talk(server, client)) {
    }

    const segment received;
    std::uint64_t seen = 0;
    const auto pass = [&] {
        for (std::span<const std::byte> rest(received.bytes); !rest.empty();) {
            const auto e = client.next(rest);
            if (e.kind != amqp::event_kind::content)
                fail("no delivery");
            seen += client.content().body.size();
            rest = rest.subspan(e.consumed);
        }
    };
    pass();
    counted(pass);
    if (seen != 2 * segment::count * body_size)
        fail("deliveries are missing");
    return segment::count;
}

/// The ledger per tag: delivered, settled, flushed with 256 others.
std::uint64_t tracker()
{
    settle::ledger l(prefetch);
    std::vector<std::byte> out(l.flush_size() + prefetch * amqp::wire::settle_frame_size);
    std::uint64_t tag = 0;
    std::uint64_t frames = 0;
    const auto pass = [&] {
        for (std::uint64_t flush = 0; flush < measured / 256; ++flush) {
            const auto first = tag + 1;
            for (int i = 0; i < 256; ++i) {
                if (!l.delivered(++tag))
                    fail("a tag is out of order");
            }
            for (auto t = first; t <= tag; ++t) {
                if (l.settle(l.epoch(), t, settle::disposition::ack) != settle::settled::done)
                    fail("a tag is settled");
            }
            frames += l.flush(out, 1).frames;
        }
    };
    pass();
    frames = 0;
    counted(pass);
    if (frames != measured / 256)
        fail("not one frame per flush");
    return measured / 256 * 256;
}

/// A place where one coroutine waits for the next message.
class gate {
public:
    class next_op final : public runtime::waiter {
    public:
        explicit next_op(gate& from) noexcept : gate_(from) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
        {
            if (!suspend(handle))
                return false;
            gate_.waiting_ = this;
            return true;
        }
        [[nodiscard]] std::uint64_t await_resume() const noexcept { return gate_.value_; }

    private:
        gate& gate_;
    };
    [[nodiscard]] next_op next() noexcept { return next_op(*this); }
    void hand_over(std::uint64_t value) noexcept
    {
        value_ = value;
        std::exchange(waiting_, nullptr)->resume_now();
    }

private:
    next_op* waiting_ = nullptr;
    std::uint64_t value_ = 0;
};

/// Resuming a coroutine that waits again at once.
std::uint64_t resume()
{
    runtime::loop events({.virtual_time = true});
    runtime::scope tasks;
    gate g;
    std::uint64_t sum = 0;
    tasks.spawn([](gate& from, std::uint64_t& seen) -> task<> {
        while (const auto value = co_await from.next())
            seen += value;
    }(g, sum));
    events.turn();
    const auto pass = [&] {
        for (std::uint64_t i = 1; i <= measured; ++i)
            g.hand_over(i);
    };
    pass();
    counted(pass);
    g.hand_over(0);
    if (sum != measured * (measured + 1))
        fail("values are missing");
    return measured;
}

// ---- the whole path -----------------------------------------------------------------------------

/// `begin(options, tasks, seen, run)` spawns a client that counts its messages in `seen`, and calls
/// `run()`: that runs it against a canned stream, and counts the turns in which messages go through
/// it when it is warm.
template <class Begin>
std::uint64_t whole_path(Begin begin)
{
    runtime::loop events({.virtual_time = true});
    runtime::scope tasks;
    std::uint64_t seen = 0;
    canned_stream* peer = nullptr;
    amqp::connection_options options;
    options.session.heartbeat_s = 0;
    options.connector = [&peer]() -> task<std::unique_ptr<runtime::stream>> {
        auto made = std::make_unique<canned_stream>(prefetch, body_size);
        peer = made.get();
        co_return made;
    };
    const auto until = [&](std::uint64_t messages) {
        for (int turns = 0; seen < messages; ++turns) {
            if (turns == 100'000)
                fail(fmt::format("{} of {} messages after {} turns", seen, messages, turns));
            events.turn();
        }
    };
    begin(options, tasks, seen, [&] {
        until(warm_up);
        const auto before = seen;
        const auto frames = peer->frames();
        counted([&] { until(before + measured); });
        const auto count = seen - before;
        fmt::print("frames {}\n", peer->frames() - frames);
        if (peer->wrong() != 0 || peer->settled() + prefetch < peer->delivered())
            fail(fmt::format("{} wrong settlements, {} of {} settled", peer->wrong(),
                             peer->settled(), peer->delivered()));
        fmt::print("messages {}\n", count);
        // Ending in order is the tests' business.
        std::fflush(stdout);
        std::_Exit(0);
    });
    return 0;
}

/// The loop that a user writes: one coroutine resumed per message.
std::uint64_t consumer_loop()
{
    return whole_path([](const amqp::connection_options& o, runtime::scope& tasks, auto& seen,
                         auto run) {
        amqp::connection broker(o);
        tasks.spawn(broker.run());
        settle::deliveries incoming(broker, settle::existing_queue("orders").prefetch(prefetch));
        tasks.spawn(
            [](amqp::connection& c, settle::deliveries& from, std::uint64_t& count) -> task<> {
                co_await c.opened();
                co_await from.open();
                while (auto message = co_await from.next()) {
                    ++count;
                    message.settle(settle::ack);
                }
            }(broker, incoming, seen));
        run();
    });
}

template <class Handler>
std::uint64_t service_with(Handler handler, std::uint32_t concurrency)
{
    return whole_path([&](const amqp::connection_options& o, runtime::scope& tasks, auto& seen,
                          auto run) {
        settle::service s(o);
        auto& sub = s.consume(settle::existing_queue("orders").prefetch(prefetch), handler(seen));
        if (concurrency > 1)
            sub.concurrency(concurrency);
        tasks.spawn([](settle::service& each) -> task<> { (void)co_await each.run(); }(s));
        run();
    });
}

/// A handler coroutine per message, one at a time.
std::uint64_t coroutine_handler()
{
    return service_with(
        [](std::uint64_t& seen) {
            return [&seen](delivery&) -> task<outcome> {
                ++seen;
                co_return ack;
            };
        },
        1);
}

/// Handlers that wait, 32 at a time: each delivery outlives the turn that brought it.
std::uint64_t waiting_handlers()
{
    return service_with(
        [](std::uint64_t& seen) {
            return [&seen](delivery&) -> task<outcome> {
                co_await runtime::sleep(0ns);
                ++seen;
                co_return ack;
            };
        },
        32);
}

/// A handler without a coroutine.
std::uint64_t plain_handler()
{
    return service_with(
        [](std::uint64_t& seen) {
            return [&seen](delivery&) {
                ++seen;
                return ack;
            };
        },
        1);
}

/// Publishing on a channel in confirm mode, 256 messages between two waits for their confirms.
std::uint64_t publish()
{
    return whole_path(
        [](const amqp::connection_options& o, runtime::scope& tasks, auto& seen, auto run) {
            amqp::connection broker(o);
            tasks.spawn(broker.run());
            tasks.spawn([](amqp::connection& c, std::uint64_t& count) -> task<> {
                co_await c.opened();
                amqp::channel channel(c);
                co_await channel.open();
                co_await channel.confirm_select();
                const std::vector<std::byte> body(body_size);
                for (;;) {
                    for (int i = 0; i < 256; ++i) {
                        co_await channel.publish({.routing_key = "orders",
                                                  .mandatory = true,
                                                  .properties = {.delivery_mode = 2},
                                                  .body = body});
                        ++count;
                    }
                    if (co_await channel.wait_for_confirms() != 0)
                        fail("a publish was refused");
                }
            }(broker, seen));
            run();
        });
}

struct scenario {
    std::string_view name;
    std::uint64_t (*run)();
};

constexpr scenario scenarios[] = {
    {"decode", decode},
    {"session_next", session_next},
    {"tracker", tracker},
    {"resume", resume},
    {"consumer_loop", consumer_loop},
    {"coroutine_handler", coroutine_handler},
    {"waiting_handlers", waiting_handlers},
    {"plain_handler", plain_handler},
    {"publish", publish},
};

} // namespace
} // namespace acquit::bench

int main(int argc, char** argv)
{
    using namespace acquit::bench;
    const std::string_view wanted = argc == 2 ? argv[1] : "";
    for (const auto& s : scenarios) {
        if (s.name == wanted) {
            fmt::print("messages {}\n", s.run());
            return 0;
        }
    }
    fmt::print(stderr, "acquit-counts SCENARIO, one of:\n");
    for (const auto& s : scenarios)
        fmt::print(stderr, "  {}\n", s.name);
    return 2;
}
