// The message stays where it is, unsettled, until its time has come: no copy, nothing lost. It uses a
// slot of the prefetch window meanwhile; past the budget it waits in a queue.
#include <acquit/acquit.h>
using namespace acquit;

outcome on_job(delivery& message) {
    return message.attempt() == 1 ? retry_after(5s) : ack;
}

int main(int argc, char** argv) {
    service work{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    work.declare_topology(true);
    work.consume(quorum_queue{"jobs"}.prefetch(256), on_job)
        .max_attempts(5)
        .dead_letter("jobs.dead")
        .delay(delay::hold(64).overflow_to(delay::dlx_ttl()));
    return run(work);
}
