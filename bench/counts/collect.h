#pragma once

/// What callgrind counts. It is told to collect between entering and leaving functions by name
/// (`--toggle-collect`), which needs nothing of valgrind at build time; each of these two turns
/// collecting over: the second, within the first, switches it off. Outside of the first it would
/// switch it on, so `not_counted` goes around it there.
///
///     counted([&] { ... the steady part ... });
///
/// and, wherever the steady part calls what stands for the other side of the connection,
///
///     not_counted([&] { ... });
extern "C" {
void acquit_counted(void (*work)(void*), void* with);
void acquit_not_counted(void (*work)(void*), void* with);
}

namespace acquit::bench {

inline bool counting = false;

template <class F>
void counted(F work)
{
    counting = true;
    acquit_counted([](void* f) { (*static_cast<F*>(f))(); }, &work);
    counting = false;
}

template <class F>
void not_counted(F work)
{
    if (counting)
        acquit_not_counted([](void* f) { (*static_cast<F*>(f))(); }, &work);
    else
        work();
}

} // namespace acquit::bench
