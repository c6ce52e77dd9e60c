#include <acquit/acquit.h>
using namespace acquit;

task<bool> warehouse_open() { co_return true; }
task<> reserve(std::string_view) { co_await sleep(1ms); }

task<outcome> on_order(delivery& message) {
    auto order = message.text();                        // a view into the receive buffer, no copy
    if (!co_await warehouse_open()) co_return retry_after(60s);
    co_await reserve(order);
    co_return ack;
}

int main(int argc, char** argv) {
    service orders{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    orders.declare_topology(true);
    orders.consume(quorum_queue{"orders"}.prefetch(256), on_order)
          .max_attempts(5)
          .dead_letter("orders.dead")
          .concurrency(32);
    return run(orders);                                 // until SIGTERM; drains; prints a report
}
