// A token settles once. Clang sees a second time in the same function.
// expect: invalid invocation of method 'settle' on object 'token' while it is in the 'consumed' state

#include <acquit/acquit.h>

using namespace acquit;

void on_frame(delivery& frame)
{
    auto token = frame.defer();
    token.settle(ack);
#ifdef MUST_FAIL
    token.settle(drop);
#endif
}
