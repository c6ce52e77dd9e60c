#pragma once

#include "broker_model.h"
#include "peer.h"

#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timer.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace acquit::testing {

using runtime::scope;
using runtime::task;
using namespace std::chrono_literals;

struct host_options {
    amqp::server_options server{};
    runtime::memory_stream_options stream{};
    /// Answers by broker_model; else each test answers by itself.
    bool automatic = false;
    std::uint64_t shuffle_seed = 0;
};

/// Where clients of a test connect to: gives each a memory stream with a peer at its other end.
class host {
public:
    explicit host(host_options options) : options_(std::move(options)) {}

    /// Client options whose connector leads here.
    [[nodiscard]] amqp::connection_options client();
    /// The next connects fail as a port does where nobody listens.
    void refuse(std::size_t connects) noexcept { refuse_ = connects; }
    /// Peers of connects from now on say nothing at all.
    void be_silent(bool yes = true) noexcept { silent_ = yes; }

    [[nodiscard]] peer& latest() { return *peers_.back(); }
    [[nodiscard]] peer& at(std::size_t i) { return *peers_[i]; }
    /// Streams that were made, and attempts that were refused.
    [[nodiscard]] std::size_t connects() const noexcept { return peers_.size(); }
    [[nodiscard]] std::size_t refused() const noexcept { return refused_; }
    /// Waits for the n-th connect, from 1.
    [[nodiscard]] task<> connected(std::size_t n);

    broker_model model{};
    amqp::server_options& server() noexcept { return options_.server; }

    void attach(scope& tasks) noexcept { tasks_ = &tasks; }

private:
    task<std::unique_ptr<runtime::stream>> connect();

    host_options options_;
    scope* tasks_ = nullptr;
    std::vector<std::unique_ptr<peer>> peers_;
    runtime::notifier arrived_;
    std::size_t refuse_ = 0;
    std::size_t refused_ = 0;
    bool silent_ = false;
};

/// Runs a test's body, a coroutine over a host, in virtual time.
template <class F>
void virtually(F body, host_options options = {})
{
    runtime::loop events({.virtual_time = true, .shuffle_seed = options.shuffle_seed});
    host there(std::move(options));
    events.run([](host& h, F& f) -> task<> {
        co_await runtime::with_scope([&](scope& tasks) -> task<> {
            h.attach(tasks);
            co_await f(h);
            tasks.cancel();
        });
    }(there, body));
}

/// Awaits and keeps what it throws.
template <class T>
task<std::exception_ptr> failure_of(task<T> what)
{
    try {
        (void)co_await std::move(what);
    } catch (...) {
        co_return std::current_exception();
    }
    co_return nullptr;
}

template <>
inline task<std::exception_ptr> failure_of(task<void> what)
{
    try {
        co_await std::move(what);
    } catch (...) {
        co_return std::current_exception();
    }
    co_return nullptr;
}

/// The exception as an E, or nothing where it is none.
template <class E>
std::optional<E> as(const std::exception_ptr& failure)
{
    if (!failure)
        return std::nullopt;
    try {
        std::rethrow_exception(failure);
    } catch (const E& e) {
        return e;
    } catch (...) {
        return std::nullopt;
    }
}

[[nodiscard]] std::string text_of(const std::exception_ptr& failure);

/// Lets everything that is ready run, and what follows from it.
[[nodiscard]] task<> settle_down();

/// Opens a connection, runs the body (connection&, peer&) -> task<>, closes it, and gives what
/// ended `run()`, null when that was our close.
template <class F>
task<std::exception_ptr> connected(host& there, amqp::connection_options options, F body)
{
    amqp::connection c(std::move(options));
    std::exception_ptr failure;
    co_await runtime::with_scope([&](scope& s) -> task<> {
        s.spawn([](amqp::connection& each, std::exception_ptr& ended) -> task<> {
            ended = co_await failure_of(each.run());
        }(c, failure));
        co_await c.opened();
        co_await body(c, there.latest());
        co_await c.close();
    });
    co_return failure;
}

template <class F>
task<std::exception_ptr> connected(host& there, F body)
{
    return connected(there, there.client(), std::move(body));
}

} // namespace acquit::testing
