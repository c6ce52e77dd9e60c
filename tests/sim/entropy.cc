#include "entropy.h"

#include <acquit/runtime/random.h>

#include <random>

namespace {

acquit::runtime::random_source& deterministic()
{
    static acquit::runtime::random_source random(1);
    return random;
}

} // namespace

namespace acquit::testing {

void seed_entropy(std::uint64_t seed) noexcept
{
    deterministic() = runtime::random_source(seed);
}

} // namespace acquit::testing

// In the place of libstdc++'s, in this program.
unsigned int std::random_device::_M_getval()
{
    return static_cast<unsigned int>(deterministic()());
}
