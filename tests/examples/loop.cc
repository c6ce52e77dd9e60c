// Who writes the loop alone gets the fastest path: one coroutine, resumed per message. Takes ten
// messages from the queue "orders".
#include <acquit/acquit.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/loop.h>

#include <cstdio>

using namespace acquit;

task<> consume(const char* address)
{
    amqp::connection broker{amqp::options_from_uri(address)};
    co_await with_scope([&](scope& s) -> task<> {
        s.spawn(broker.run());
        co_await broker.opened();

        deliveries incoming{broker, existing_queue{"orders"}.prefetch(4096)};
        co_await incoming.open();
        int taken = 0;
        while (auto message = co_await incoming.next()) {
            std::printf("%.*s\n", static_cast<int>(message.text().size()), message.text().data());
            message.settle(ack);
            if (++taken == 10) co_await incoming.stop();
        }
        co_await incoming.close();
        co_await broker.close();
    });
}

int main(int argc, char** argv)
try {
    runtime::loop events;
    events.run(consume(argc > 1 ? argv[1] : "amqp://guest:guest@localhost"));
} catch (const error& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
}
