// A token moves from thread to thread; a copy would be a second settlement.
// expect: deleted|implicitly-deleted

#include <acquit/acquit.h>

#include <utility>

using namespace acquit;

void encode(deferred_delivery frame)
{
#ifdef MUST_FAIL
    deferred_delivery other = frame;
#else
    deferred_delivery other = std::move(frame);
#endif
    other.settle(ack);
}
