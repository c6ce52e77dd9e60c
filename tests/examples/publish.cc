// Publishes, and knows what the broker took: `flush` returns when all orders are safe, and throws
// publish_error if no queue would have one of them.
#include <acquit/acquit.h>
#include <acquit/amqp/publisher.h>
#include <acquit/runtime/loop.h>

#include <cstdio>
#include <string>

using namespace acquit;

task<> publish(const char* address)
{
    amqp::connection broker{amqp::options_from_uri(address)};
    co_await with_scope([&](scope& s) -> task<> {
        s.spawn(broker.run());
        co_await broker.opened();
        amqp::publisher orders{broker};
        co_await orders.open();

        amqp::wire::table headers;
        headers.set("origin", "shop-7").set("items", 3);
        for (int n = 0; n < 10; ++n) {
            co_await orders.send({.routing_key = "orders",
                                  .properties = {.content_type = "text/plain",
                                                 .headers = headers.view()},
                                  .body = amqp::bytes_of("order " + std::to_string(n))});
        }
        co_await orders.flush();
        std::puts("10 orders published");
        co_await orders.close();
        co_await broker.close();
    });
}

int main(int argc, char** argv)
try {
    runtime::loop events;
    events.run(publish(argc > 1 ? argv[1] : "amqp://guest:guest@localhost"));
} catch (const error& failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
}
