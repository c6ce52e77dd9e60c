// A delivery is settled once. Clang sees a second time in the same function.
// expect: invalid invocation of method 'settle' on object 'message' while it is in the 'consumed' state

#include <acquit/acquit.h>

using namespace acquit;

task<> consume(deliveries& incoming)
{
    while (auto message = co_await incoming.next()) {
        message.settle(ack);
#ifdef MUST_FAIL
        message.settle(drop);
#endif
    }
}
