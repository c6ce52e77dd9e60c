#pragma once

/// Marks for a type whose values are settled once: clang finds a second time in the same function
/// (-Wconsumed).
#if defined(__clang__)
#define ACQUIT_SETTLED_ONCE [[clang::consumable(unconsumed)]]
#define ACQUIT_SETTLES                                                                             \
    [[clang::callable_when("unconsumed", "unknown"), clang::set_typestate(consumed)]]
/// Of the constructor of an empty one, which may be returned as any other.
#define ACQUIT_MADE_UNSETTLED [[clang::return_typestate(unconsumed)]]
#else
#define ACQUIT_SETTLED_ONCE
#define ACQUIT_SETTLES
#define ACQUIT_MADE_UNSETTLED
#endif
