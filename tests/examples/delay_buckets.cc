// One waiting queue per step: delays of different length do not block each other. A delay between
// steps is reached by hops, late by less than the smallest step.
#include <acquit/acquit.h>
using namespace acquit;

outcome on_reminder(delivery& message) {
    if (message.attempt() == 1) return retry_after(7s);  // 5 s, and two hops of 1 s
    return ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.consume(quorum_queue{"reminders"}, on_reminder)
        .max_attempts(5)
        .dead_letter("reminders.dead")
        .delay(delay::buckets({1s, 5s, 30s, 5min}));
    return run(work);
}
