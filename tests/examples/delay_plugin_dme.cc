// The message waits in an exchange of the plugin rabbitmq_delayed_message_exchange (RabbitMQ 3.10 to
// 4.2). Without the plugin the start fails, and says what to do.
#include <acquit/acquit.h>
using namespace acquit;

outcome on_offer(delivery& message) {
    return message.attempt() == 1 ? retry_after(5s) : ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.consume(classic_queue{"offers"}, on_offer)
        .max_attempts(5)
        .dead_letter("offers.dead")
        .delay(delay::plugin_dme());
    return run(work);
}
