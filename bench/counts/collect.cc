#include "collect.h"

// A file of its own, and an assembler line that the compiler cannot see through: neither may be
// inlined, merged with the other as the same code, or left by a jump into `work`.

[[gnu::noinline]] void acquit_counted(void (*work)(void*), void* with)
{
    work(with);
    asm volatile("# counted" ::: "memory");
}

[[gnu::noinline]] void acquit_not_counted(void (*work)(void*), void* with)
{
    work(with);
    asm volatile("# not counted" ::: "memory");
}
