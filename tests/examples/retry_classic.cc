// A classic queue counts nothing: each retry is a counted copy at the back of the queue, confirmed
// by the broker before its original goes.
#include <acquit/acquit.h>
using namespace acquit;

task<bool> paid(std::string_view) { co_return true; }

task<outcome> on_payment(delivery& message) {
    if (message.attempt() > 1) co_await sleep(10ms);    // 1, 2, ... whoever counts
    if (!co_await paid(message.text())) co_return retry();
    co_return ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.consume(classic_queue{"payments"}, on_payment)
        .max_attempts(5)                                // then to the queue below
        .dead_letter("payments.dead")
        .backoff(backoff::exponential({.initial = 200ms, .factor = 2.0, .cap = 30s}))
        .delay(delay::dlx_ttl())                        // where it waits: "payments.retry"
        .concurrency(16);
    return run(work);
}
