// Up to a hundred orders in one call of the handler, for work that costs about the same for one as for
// a hundred.
#include <acquit/acquit.h>

#include <string>

using namespace acquit;

task<> insert(const std::string& rows) { co_await sleep(rows.empty() ? 0ms : 5ms); } // one round trip

task<outcome> on_orders(std::span<delivery> orders) {
    std::string rows;
    for (const delivery& order : orders) rows.append(order.text()) += '\n';
    co_await insert(rows);                               // throws: all of them are retried
    co_return ack;                                       // of each; or a std::vector<outcome>
}

int main(int argc, char** argv) {
    service orders{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    orders.consume(existing_queue{"orders"}.prefetch(400), on_orders)
          .batch({.size = 100, .within = 50ms})          // whichever comes first
          .concurrency(2);                               // two batches at the same time
    return run(orders);
}
