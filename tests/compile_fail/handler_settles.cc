// A handler decides by what it returns: there is nothing on its delivery to settle it with as well.
// expect: no member named .settle

#include <acquit/acquit.h>

using namespace acquit;

outcome on_order(delivery& message)
{
#ifdef MUST_FAIL
    message.settle(ack);
#endif
    return message.body().empty() ? drop : ack;
}
