// The deliveries of a no_ack consumer have no settlement: their type has nothing to settle or to put off.
// expect: no member named .settle

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& clock)
{
    clock.consume("ticks", [](message& tick) {
#ifdef MUST_FAIL
        tick.settle(ack);
#else
        (void)tick.body();
#endif
    });
}
