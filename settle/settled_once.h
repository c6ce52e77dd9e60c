#pragma once

/// Marks for a type whose values are settled once: clang finds a second time in the same function
/// (-Wconsumed).
#if defined(__clang__)
#define ACQUIT_SETTLED_ONCE [[clang::consumable(unconsumed)]]
#define ACQUIT_SETTLES                                                                             \
    [[clang::callable_when("unconsumed", "unknown"), clang::set_typestate(consumed)]]
#else
#define ACQUIT_SETTLED_ONCE
#define ACQUIT_SETTLES
#endif
