// No delay declared, classic queue: the message waits in this process. Fast, and lost if the process
// dies; a drain waits for it, or publishes it at once.
#include <acquit/acquit.h>
using namespace acquit;

outcome on_mail(delivery& message) {
    return message.attempt() == 1 ? retry_after(5s) : ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.drain_timers(timers_at_drain::publish_now);
    work.consume(classic_queue{"mail"}, on_mail).max_attempts(3).dead_letter("mail.dead");
    return run(work);
}
