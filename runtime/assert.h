#pragma once

#include <fmt/format.h>

#include <string>

/// Assertions for bugs of ours or of the program that uses us: never for bytes from the network and
/// never for conditions that a server or a kernel can bring about.
///
///     ACQUIT_ASSERT(tag >= base_, "tag {} lies before the window that begins at {}", tag, base_);
///
/// A failed one prints file, line, condition and the formatted values to stderr and aborts.
/// `ACQUIT_ASSERT` is always on. `ACQUIT_DEBUG_ASSERT` is for hot paths and is compiled, but not
/// evaluated, where NDEBUG is defined.
namespace acquit::runtime::detail {

[[noreturn, gnu::cold]] void assert_failed(const char* file, int line, const char* condition,
                                           const std::string& values) noexcept;

} // namespace acquit::runtime::detail

#define ACQUIT_ASSERT(condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition)) [[unlikely]]                                                             \
            ::acquit::runtime::detail::assert_failed(__FILE__, __LINE__, #condition,               \
                                                     ::fmt::format(__VA_ARGS__));                  \
    } while (false)

#ifdef NDEBUG
#define ACQUIT_DEBUG_ASSERT(condition, ...)                                                        \
    do {                                                                                           \
        if (false)                                                                                 \
            ACQUIT_ASSERT(condition, __VA_ARGS__);                                                 \
    } while (false)
#else
#define ACQUIT_DEBUG_ASSERT(condition, ...) ACQUIT_ASSERT(condition, __VA_ARGS__)
#endif
