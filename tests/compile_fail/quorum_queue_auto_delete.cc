// A quorum queue is always durable, shared and there until it is deleted: RabbitMQ refuses anything else.
// expect: no member named .auto_delete

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& orders)
{
#ifdef MUST_FAIL
    orders.consume(quorum_queue{"orders"}.auto_delete(), [](delivery&) { return ack; });
#else
    orders.consume(quorum_queue{"orders"}, [](delivery&) { return ack; });
#endif
}
