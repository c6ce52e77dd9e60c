// R6: a quorum queue has no copy publisher to choose: its server counts and dead-letters.
// expect: no member named .copies

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& orders)
{
    auto on_order = [](delivery&) -> outcome { return retry(); };
#ifdef MUST_FAIL
    orders.consume(quorum_queue{"orders"}, on_order)
        .max_attempts(3)
        .dead_letter("orders.dead")
        .copies(copies::unconfirmed);
#else
    orders.consume(classic_queue{"orders"}, on_order)
        .max_attempts(3)
        .dead_letter("orders.dead")
        .copies(copies::unconfirmed);
#endif
}
