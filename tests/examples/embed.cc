// acquit inside a program that has an event loop of its own: one descriptor to watch, one call when
// it is readable. Here the foreign loop is epoll; any other works alike.
#include <acquit/acquit.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/signals.h>

#include <sys/epoll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

using namespace acquit;

task<> serve(service& audit, bool& over)
{
    co_await with_scope([&](scope& s) -> task<> {
        s.spawn([](service& stopped) -> task<> {
            runtime::signal_watcher signals{SIGINT, SIGTERM};
            (void)co_await signals.next();
            stopped.stop();
        }(audit));
        try {
            const report done = co_await audit.run();
            std::fputs(done.text().c_str(), stderr);
        } catch (const error& failed) {
            std::fprintf(stderr, "%s\n", failed.what());
        }
        s.cancel();
    });
    over = true;
}

int main(int argc, char** argv)
{
    service audit{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    audit.declare_topology(true);
    audit.consume(quorum_queue{"audit"}, [](delivery& d) { return d.body().empty() ? drop : ack; });

    runtime::loop events;
    scope tasks;
    bool over = false;
    tasks.spawn(serve(audit, over));

    const int foreign = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event watched{.events = EPOLLIN, .data = {.fd = events.fd()}};
    ::epoll_ctl(foreign, EPOLL_CTL_ADD, events.fd(), &watched);
    while (!over) {
        epoll_event happened;
        ::epoll_wait(foreign, &happened, 1, -1);
        events.poll();
    }
    ::close(foreign);
}
