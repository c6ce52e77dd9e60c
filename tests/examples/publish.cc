// Publishes, and knows what the broker took: each publish_confirmed returns when the broker has the
// message safe, and throws publish_error if no queue would have it.
#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/runtime/loop.h>

#include <cstdio>

using namespace acquit;

task<> publish(const char* address)
{
    amqp::connection broker{amqp::options_from_uri(address)};
    co_await with_scope([&](scope& s) -> task<> {
        s.spawn(broker.run());
        co_await broker.opened();
        amqp::channel c{broker};
        co_await c.open();

        amqp::wire::table headers;
        headers.set("origin", "shop-7").set("items", 3);
        for (int n = 0; n < 10; ++n) {
            co_await c.publish_confirmed({.routing_key = "orders",
                                          .mandatory = true,
                                          .properties = {.content_type = "text/plain",
                                                         .headers = headers.view(),
                                                         .delivery_mode = 2},
                                          .body = amqp::bytes_of("order " + std::to_string(n))});
        }
        std::puts("10 orders published");
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
