#include "proxy.h"

#include "conversation.h"
#include "meter.h"

#include <acquit/runtime/error.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/signals.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timer.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace acquit::bench {

using runtime::loop;
using runtime::scope;
using runtime::task;

namespace {

constexpr std::size_t piece_size = std::size_t{32} << 10;

class proxy {
public:
    proxy(const options& o, const watcher& seen)
        : options_(o), route_(*o.proxy), seen_(seen), meter_(loop::current().now()),
          door_(runtime::listener::tcp(loop::current(), route_.listen_address, route_.listen_port))
    {
        about_.id = o.id;
        about_.proxy = true;
        about_.publishes = true;
        about_.consumes = true;
        about_.settle = "by its clients";
        about_.broker = fmt::format("listening on {}:{}, target {}:{}", route_.listen_address,
                                    door_.port(), route_.target_host, route_.target_port);
    }

    task<result> run()
    {
        if (seen_.begins)
            seen_.begins(about_);
        try {
            co_await runtime::with_scope([this](scope& all) -> task<> {
                all.spawn(accept(all));
                all.spawn(tick());
                runtime::signal_watcher signals{SIGINT, SIGTERM};
                if (options_.seconds > 0)
                    all.spawn(end_after(all));
                (void)co_await signals.next();
                all.cancel();
            });
        } catch (const runtime::operation_cancelled&) {
            // By its own clock.
        }
        (void)count(stage::measured);
        co_return finish();
    }

private:
    struct line {
        std::unique_ptr<runtime::stream> client;
        std::unique_ptr<runtime::stream> server;
        conversation heard;
        std::string peer;
        bool told = false;
    };

    task<> accept(scope& all)
    {
        bool full = false; // it was said
        for (;;) {
            std::unique_ptr<runtime::stream> client;
            try {
                client = co_await door_.accept();
            } catch (const runtime::io_error& failed) {
                // Out of descriptors, say: those that are connected go on, and will leave some.
                if (!std::exchange(full, true))
                    fmt::print(stderr, "{}: nobody new for now\n", failed.what());
            }
            if (client) {
                full = false;
                all.spawn(serve(std::move(client)));
                continue;
            }
            co_await runtime::sleep(std::chrono::milliseconds(100));
        }
    }

    task<> end_after(scope& all)
    {
        co_await runtime::sleep(
            runtime::duration(static_cast<runtime::duration::rep>(options_.seconds * 1e9)));
        all.cancel();
    }

    task<> serve(std::unique_ptr<runtime::stream> client)
    {
        const auto peer = client->peer();
        std::unique_ptr<runtime::stream> server;
        try {
            server = co_await runtime::connect_tcp(route_.target_host, route_.target_port);
        } catch (const runtime::io_error& failed) {
            fmt::print(stderr, "{}: {}\n", peer, failed.what());
            co_return;
        }
        line between{.client = std::move(client),
                     .server = std::move(server),
                     .heard = conversation(sightings_, ++connections_),
                     .peer = peer};
        co_await runtime::with_scope([&](scope& both) -> task<> {
            both.spawn(pump(between, true));
            both.spawn(pump(between, false));
            co_return;
        });
    }

    task<> pump(line& between, bool from_client)
    {
        auto& from = from_client ? *between.client : *between.server;
        auto& to = from_client ? *between.server : *between.client;
        std::vector<std::byte> buffer(piece_size);
        try {
            while (const std::size_t n = co_await from.read_some(buffer)) {
                const auto bytes = std::span<const std::byte>(buffer).first(n);
                if (from_client) {
                    between.heard.client_says(bytes);
                    between.heard.handed_over(loop::current().precise_now());
                } else {
                    between.heard.broker_says(bytes, loop::current().now());
                }
                tell_of(between);
                co_await to.write(bytes);
            }
            to.shutdown_write();
        } catch (const runtime::io_error&) {
            from.close();
            to.close();
        }
    }

    void tell_of(line& between)
    {
        if (between.told || between.heard.confusion().empty())
            return;
        between.told = true;
        fmt::print(stderr, "{}: {}: not measured any more, but handed on\n", between.peer,
                   between.heard.confusion());
        ++confused_;
    }

    const sample& count(stage what)
    {
        // Its counts ascend; the meter wants what is new.
        const counts& all = sightings_.done;
        meter_.now = {.sent = all.sent - told_.sent,
                      .received = all.received - told_.received,
                      .acked = all.acked - told_.acked};
        told_ = all;
        return meter_.tick(loop::current().precise_now(), settlements(), what);
    }

    [[nodiscard]] std::vector<settling> settlements() const
    {
        std::vector<settling> all;
        for (const auto& [prefetch, each] : sightings_.settling)
            all.push_back(each);
        return all;
    }

    task<> tick()
    {
        const auto began = loop::current().now();
        const auto step =
            runtime::duration(static_cast<runtime::duration::rep>(options_.interval * 1e9));
        for (auto due = began + step;; due += step) {
            co_await runtime::sleep_until(due);
            const bool warming =
                std::chrono::duration<double>(due - began).count() <= options_.warm_up;
            const auto& last = count(warming ? stage::warm_up : stage::measured);
            const auto left = options_.seconds - std::chrono::duration<double>(due - began).count();
            if (seen_.ticks)
                seen_.ticks(
                    last,
                    fmt::format("{} connections{}", sightings_.connections,
                                options_.seconds > 0 ? fmt::format(", {:.0f} s left", left) : ""));
        }
    }

    result finish()
    {
        result r = std::move(about_);
        meter_.fill(r);
        r.publishes = r.totals.sent != 0;
        r.consumes = r.totals.received != 0;
        r.channels = std::move(sightings_.channels);
        r.broker = fmt::format("{} at {}:{}",
                               sightings_.broker.empty() ? "nobody known" : sightings_.broker,
                               route_.target_host, route_.target_port);
        if (confused_ != 0)
            r.remarks.push_back(fmt::format("{} of {} connections could not be read to their end: "
                                            "what they did is missing here",
                                            confused_, sightings_.connections));
        return r;
    }

    const options& options_;
    const proxy_route& route_;
    const watcher& seen_;
    meter meter_;
    sightings sightings_;
    counts told_;
    runtime::listener door_;
    result about_;
    std::uint32_t connections_ = 0;
    std::uint32_t confused_ = 0;
};

} // namespace

task<result> run_proxy(const options& o, const watcher& seen)
{
    proxy one(o, seen);
    co_return co_await one.run();
}

} // namespace acquit::bench
