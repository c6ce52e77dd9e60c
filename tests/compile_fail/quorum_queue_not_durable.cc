// A quorum queue is always durable, shared and there until it is deleted: RabbitMQ refuses anything else.
// expect: no member named .durable

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& orders)
{
#ifdef MUST_FAIL
    orders.consume(quorum_queue{"orders"}.durable(false), [](delivery&) { return ack; });
#else
    orders.consume(quorum_queue{"orders"}, [](delivery&) { return ack; });
#endif
}
