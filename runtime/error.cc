#include <acquit/runtime/error.h>

#include <fmt/format.h>

#include <cstring>

namespace acquit::runtime {

io_error::io_error(int code, const std::string& what_failed)
    : error(fmt::format("{}: {}", what_failed,
                        ::strerrordesc_np(code) ? ::strerrordesc_np(code) : "unknown error")),
      code_(code)
{
}

} // namespace acquit::runtime
