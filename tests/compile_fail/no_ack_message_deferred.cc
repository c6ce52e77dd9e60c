// A message without acknowledgements has no decision that could be put off.
// expect: no member named .defer

#include <acquit/acquit.h>

using namespace acquit;

void subscribe(service& clock)
{
    clock.consume("ticks", [](message& tick) {
#ifdef MUST_FAIL
        auto token = tick.defer();
#else
        (void)tick.body();
#endif
    });
}
