// There is no default outcome: one that nobody chose would settle a message by accident.
// expect: no matching constructor|no matching function

#include <acquit/settle/outcome.h>

using namespace acquit::settle;

#ifdef MUST_FAIL
outcome decision;
#else
outcome decision = retry();
#endif
