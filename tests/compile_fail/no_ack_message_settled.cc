// The deliveries of a no_ack consumer have no settlement: its handler cannot return an outcome.
// expect: constraints not satisfied|no matching (member )?function

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& clock)
{
#ifdef MUST_FAIL
    clock.consume("ticks", [](message&) { return ack; });
#else
    clock.consume("ticks", [](message&) {});
#endif
}
