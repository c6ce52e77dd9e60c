#include <acquit/runtime/assert.h>

#include <cstdio>
#include <cstdlib>

namespace acquit::runtime::detail {

void assert_failed(const char* file, int line, const char* condition,
                   const std::string& values) noexcept
{
    std::fprintf(stderr, "%s:%d: assertion failed: %s\n  %s\n", file, line, condition,
                 values.c_str());
    std::fflush(stderr);
    std::abort();
}

} // namespace acquit::runtime::detail
