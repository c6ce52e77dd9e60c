// RabbitMQ 4.3 delays failed messages of a quorum queue itself: 1 s after the first failure, 2 s
// after the second, at most 30 s. An older server is refused at the start.
#include <acquit/acquit.h>
using namespace acquit;

outcome on_sensor(delivery& message) {
    return message.attempt() == 1 ? retry() : ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.consume(quorum_queue{"sensors"}, on_sensor)
        .max_attempts(10)
        .dead_letter("sensors.dead")
        .delay(delay::native(1s, 30s));
    return run(work);
}
