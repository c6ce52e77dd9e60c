// The message waits in the queue "invoices.retry" until it expires. Nothing is lost; a short delay
// waits behind a long one.
#include <acquit/acquit.h>
using namespace acquit;

outcome on_invoice(delivery& message) {
    return message.attempt() == 1 ? retry_after(5s) : ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.consume(quorum_queue{"invoices"}, on_invoice)
        .max_attempts(5)
        .dead_letter("invoices.dead")
        .delay(delay::dlx_ttl());
    return run(work);
}
