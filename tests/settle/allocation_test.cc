// No allocation per message: from the socket to the settlement on the wire, in steady state, nothing is
// taken from the heap. A program of its own, since it replaces operator new.

#include <acquit/amqp/session/session.h>
#include <acquit/runtime/runtime.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/service.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <optional>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ACQUIT_SANITIZED_HEAP 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ACQUIT_SANITIZED_HEAP 1
#endif
#ifndef ACQUIT_SANITIZED_HEAP
#define ACQUIT_SANITIZED_HEAP 0
#endif

namespace {

std::uint64_t allocations = 0;
bool trap_on_allocation = false; // for finding one: ACQUIT_TRAP=1 under a debugger

} // namespace

#if !ACQUIT_SANITIZED_HEAP
namespace {

void* counted(std::size_t size, std::size_t alignment)
{
    ++allocations;
    if (trap_on_allocation)
        std::abort();
    void* const memory =
        alignment <= alignof(std::max_align_t)
            ? std::malloc(size)
            : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (memory == nullptr)
        throw std::bad_alloc();
    return memory;
}

} // namespace

void* operator new(std::size_t size)
{
    return counted(size, 0);
}
void* operator new[](std::size_t size)
{
    return counted(size, 0);
}
void* operator new(std::size_t size, std::align_val_t a)
{
    return counted(size, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t size, std::align_val_t a)
{
    return counted(size, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept
{
    std::free(p);
}
void operator delete[](void* p) noexcept
{
    std::free(p);
}
void operator delete(void* p, std::size_t) noexcept
{
    std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept
{
    std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept
{
    std::free(p);
}
void operator delete[](void* p, std::align_val_t) noexcept
{
    std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept
{
    std::free(p);
}
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept
{
    std::free(p);
}
#endif

namespace acquit::testing {
namespace {

using namespace std::chrono_literals;
using runtime::scope;
using runtime::task;
namespace wire = amqp::wire;

constexpr std::uint64_t warm_up = 30'000;
constexpr std::uint64_t measured = 20'000;
constexpr std::uint64_t total = warm_up + measured + 5'000;
constexpr std::uint16_t prefetch = 256;

/// A server that keeps one consumer's window full, and takes nothing from the heap for it.
class feeder {
public:
    feeder(runtime::loop& owner, int fd)
        : stream_(owner, fd, "feeder"), session_(amqp::server_options{}), input_(owner),
          settled_(total + 1)
    {
    }

    task<> serve()
    {
        session_.start(0);
        try {
            co_await runtime::with_scope([this](scope& tasks) -> task<> {
                tasks.spawn(write_loop());
                co_await read_loop();
                over_ = true;
                wake_.notify_all();
            });
        } catch (const runtime::io_error&) {
        }
        stream_.close();
    }

    std::uint64_t settled() const { return settled_count_; }

private:
    task<> read_loop()
    {
        while (co_await input_.receive(stream_) != 0) {
            for (;;) {
                const auto e = session_.next(input_.unread());
                if (e.kind == amqp::event_kind::need_more) {
                    input_.require(e.wanted);
                    break;
                }
                if (e.kind == amqp::event_kind::method)
                    answer(session_.method());
                input_.consume(e.consumed);
            }
            fill_window();
            wake_.notify_all();
        }
    }

    task<> write_loop()
    {
        auto& output = session_.output();
        for (;;) {
            while (output.open_empty()) {
                if (over_)
                    co_return;
                co_await wake_.wait();
            }
            const auto bytes = output.begin_send();
            co_await stream_.write(bytes);
            output.end_send();
        }
    }

    void answer(const amqp::method_event& m)
    {
        if (m.id == wire::id_of<wire::queue::declare>) {
            (void)session_.send(m.channel, wire::queue::declare_ok{.queue = "q"});
        } else if (m.id == wire::id_of<wire::basic::qos>) {
            (void)session_.send(m.channel, wire::basic::qos_ok{});
        } else if (m.id == wire::id_of<wire::basic::consume>) {
            wire::basic::consume method;
            (void)wire::decode(m.payload, method).ok();
            tag_ = method.consumer_tag;
            (void)session_.send(m.channel, wire::basic::consume_ok{.consumer_tag = tag_});
            channel_ = m.channel;
        } else if (m.id == wire::id_of<wire::basic::cancel>) {
            (void)session_.send(m.channel, wire::basic::cancel_ok{.consumer_tag = tag_});
            channel_ = 0;
        } else if (m.id == wire::id_of<wire::basic::ack>) {
            wire::basic::ack method;
            (void)wire::decode(m.payload, method).ok();
            for (auto tag = method.multiple ? low_ : method.delivery_tag;
                 tag <= method.delivery_tag; ++tag) {
                settled_count_ += settled_[tag] == 0 ? 1 : 0;
                settled_[tag] = 1;
            }
            while (low_ <= total && settled_[low_] != 0)
                ++low_;
        }
    }

    void fill_window()
    {
        static const std::string body(100, 'x');
        while (channel_ != 0 && sent_ < total && sent_ - settled_count_ < prefetch) {
            (void)session_.send_content(channel_,
                                        wire::basic::deliver{.consumer_tag = tag_,
                                                             .delivery_tag = ++sent_,
                                                             .exchange = "",
                                                             .routing_key = "q"},
                                        wire::properties{}, amqp::bytes_of(body));
        }
    }

    runtime::socket_stream stream_;
    amqp::session session_;
    runtime::receive_buffer input_;
    std::vector<char> settled_;
    std::string tag_;
    runtime::notifier wake_;
    std::uint64_t sent_ = 0;
    std::uint64_t settled_count_ = 0;
    std::uint64_t low_ = 1;
    std::uint16_t channel_ = 0;
    bool over_ = false;
};

/// Looks at the counter at the two points in between which nothing may be allocated.
struct meter {
    std::uint64_t seen = 0;
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    runtime::event done;

    void operator()()
    {
        ++seen;
        if (seen == warm_up) {
            before = allocations;
            trap_on_allocation = std::getenv("ACQUIT_TRAP") != nullptr;
        }
        if (seen == warm_up + measured) {
            trap_on_allocation = false;
            after = allocations;
        }
        if (seen == total)
            done.set();
    }
};

/// A loop with a feeder; `body` gets client options that lead to it.
template <class F>
void beside_feeder(F body)
{
    if (ACQUIT_SANITIZED_HEAP)
        GTEST_SKIP() << "a sanitizer has its own heap";
    runtime::loop events;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    feeder there(events, ends[1]);
    amqp::connection_options options;
    options.connector = [&events, fd = ends[0]]() -> task<std::unique_ptr<runtime::stream>> {
        co_return std::make_unique<runtime::socket_stream>(events, fd, "feeder");
    };
    meter m;
    events.run([](feeder& f, amqp::connection_options& o, meter& count, F& run) -> task<> {
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(f.serve());
            co_await run(o, count);
        });
    }(there, options, m, body));
    EXPECT_EQ(m.seen, total);
    EXPECT_EQ(there.settled(), total);
    EXPECT_GT(m.before, 0U) << "the counter does not count";
    EXPECT_EQ(m.after - m.before, 0U) << "allocations for " << measured << " messages";
}

task<> serve_until_done(settle::service& s, meter& m)
{
    co_await runtime::with_scope([&](scope& tasks) -> task<> {
        tasks.spawn([](settle::service& each, meter& count) -> task<> {
            co_await count.done.wait();
            each.stop();
        }(s, m));
        const auto r = co_await s.run();
        EXPECT_TRUE(r.clean()) << r.text();
    });
}

TEST(allocations, none_per_message_with_a_plain_handler)
{
    beside_feeder([](amqp::connection_options& o, meter& m) -> task<> {
        settle::service s(o);
        s.consume(settle::existing_queue("q").prefetch(prefetch), [&m](settle::delivery&) {
            m();
            return settle::ack;
        });
        co_await serve_until_done(s, m);
    });
}

TEST(allocations, none_per_message_with_a_coroutine_handler)
{
    beside_feeder([](amqp::connection_options& o, meter& m) -> task<> {
        settle::service s(o);
        s.consume(settle::existing_queue("q").prefetch(prefetch),
                  [&m](settle::delivery&) -> task<settle::outcome> {
                      m();
                      co_return settle::ack;
                  });
        co_await serve_until_done(s, m);
    });
}

TEST(allocations, none_per_message_with_handlers_that_wait)
{
    beside_feeder([](amqp::connection_options& o, meter& m) -> task<> {
        settle::service s(o);
        s.consume(settle::existing_queue("q").prefetch(prefetch),
                  [&m](settle::delivery&) -> task<settle::outcome> {
                      co_await runtime::sleep(10us);
                      m();
                      co_return settle::ack;
                  })
            .concurrency(32);
        co_await serve_until_done(s, m);
    });
}

TEST(allocations, none_per_message_in_a_loop_over_deliveries)
{
    beside_feeder([](amqp::connection_options& o, meter& m) -> task<> {
        amqp::connection c(o);
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(c.run());
            co_await c.opened();
            settle::deliveries incoming(c, settle::existing_queue("q").prefetch(prefetch));
            co_await incoming.open();
            while (m.seen != total) {
                auto message = co_await incoming.next();
                m();
                (void)message.settle(settle::ack);
            }
            co_await incoming.close();
            co_await c.close();
        });
    });
}

} // namespace
} // namespace acquit::testing
