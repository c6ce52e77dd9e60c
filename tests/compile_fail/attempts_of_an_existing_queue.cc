// Whoever only names a queue has not said who counts on it.
// expect: no member named .max_attempts

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& orders)
{
    auto on_order = [](delivery&) -> outcome { return retry(); };
#ifdef MUST_FAIL
    orders.consume(existing_queue{"orders"}, on_order).max_attempts(3);
#else
    orders.consume(classic_queue{"orders"}, on_order).max_attempts(3);
#endif
}
