// A token that nobody takes is a delivery without a decision.
// expect: ignoring return value|nodiscard

#include <acquit/acquit.h>

using namespace acquit;

void on_frame(delivery& frame)
{
#ifdef MUST_FAIL
    frame.defer();
#else
    frame.defer().settle(ack);
#endif
}
