// No allocation per message: from the socket to the settlement on the wire, in steady state, nothing is
// taken from the heap. A program of its own, since it replaces operator new.

#include "feeder.h"

#include <acquit/runtime/runtime.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/service.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <span>
#include <vector>

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

constexpr std::uint64_t warm_up = 30'000;
constexpr std::uint64_t measured = 20'000;
constexpr std::uint64_t total = warm_up + measured + 5'000;
constexpr std::uint16_t prefetch = 256;

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

/// `body` gets client options that lead to a feeder, and the meter that it has to call per message.
template <class F>
void beside_feeder(F body)
{
    if (ACQUIT_SANITIZED_HEAP)
        GTEST_SKIP() << "a sanitizer has its own heap";
    meter m;
    beside(total, prefetch, [&](amqp::connection_options& o, feeder& there) -> task<> {
        co_await body(o, m);
        EXPECT_EQ(there.settled(), total);
        EXPECT_EQ(there.wrong(), 0U);
    });
    EXPECT_EQ(m.seen, total);
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

TEST(allocations, none_per_message_in_batches)
{
    beside_feeder([](amqp::connection_options& o, meter& m) -> task<> {
        settle::service s(o);
        s.consume(settle::existing_queue("q").prefetch(prefetch),
                  [&m](std::span<settle::delivery> all) -> task<settle::outcome> {
                      co_await runtime::sleep(10us);
                      for (std::size_t i = 0; i < all.size(); ++i)
                          m();
                      co_return settle::ack;
                  })
            .batch({.size = 50, .within = 1ms})
            .concurrency(3);
        co_await serve_until_done(s, m);
    });
}

TEST(allocations, none_per_message_that_is_deferred)
{
    beside_feeder([](amqp::connection_options& o, meter& m) -> task<> {
        settle::service s(o);
        std::vector<settle::deferred_delivery> kept(100);
        s.consume(settle::existing_queue("q").prefetch(prefetch), [&](settle::delivery& d) {
            // Each is settled when a hundred more have come, so that many are open; at the end none stay.
            auto& place = kept[m.seen % kept.size()];
            if (m.seen + kept.size() < total) {
                place.settle(settle::ack);
                place = d.defer();
            } else {
                place.settle(settle::ack);
                d.defer().settle(settle::ack);
            }
            m();
        });
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
