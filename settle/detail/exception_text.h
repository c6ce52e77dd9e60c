#pragma once

#include <exception>
#include <string>

namespace acquit::settle::detail {

/// For logs; `why` is not null.
[[nodiscard]] inline std::string text_of(const std::exception_ptr& why)
{
    try {
        std::rethrow_exception(why);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

} // namespace acquit::settle::detail
