#include <acquit/runtime/loop.h>
#include <acquit/runtime/signals.h>
#include <acquit/settle/service.h>

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>

namespace acquit::settle {

namespace {

runtime::task<> obey_signals(service& s)
{
    runtime::signal_watcher signals{SIGINT, SIGTERM};
    (void)co_await signals.next();
    s.stop();
    (void)co_await signals.next();
    s.abort();
}

runtime::task<report> run_until_signal(service& s)
{
    co_return co_await runtime::with_scope([&s](runtime::scope& tasks) -> runtime::task<report> {
        tasks.spawn(obey_signals(s));
        auto result = co_await s.run();
        tasks.cancel();
        co_return result;
    });
}

} // namespace

int run(service& s)
{
    try {
        runtime::loop loop;
        const report result = loop.run(run_until_signal(s));
        fmt::print(stderr, "{}", result.text());
        return result.clean() ? 0 : 1;
    } catch (const std::exception& e) {
        fmt::print(stderr, "error: {}\n", e.what());
        return 1;
    }
}

} // namespace acquit::settle
