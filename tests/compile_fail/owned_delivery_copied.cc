// A delivery that somebody owns moves; a copy would be a second settlement.
// expect: deleted|implicitly-deleted

#include <acquit/acquit.h>

#include <utility>

using namespace acquit;

void keep(owned_delivery message)
{
#ifdef MUST_FAIL
    owned_delivery other = message;
#else
    owned_delivery other = std::move(message);
#endif
    other.settle(ack);
}
