#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

/// Structured log records, handed to one callback of the process. Not a logging library: no sinks,
/// no files, no levels per module; the callback decides.
///
///     log(log_level::warning, "delay dropped", {{"queue", name}, {"count", std::to_string(n)}});
namespace acquit::runtime {

enum class log_level : std::uint8_t { debug, info, warning, error };

[[nodiscard]] std::string_view to_string(log_level level) noexcept;

struct log_field {
    std::string_view name;
    std::string value;
};

/// Views into the caller's memory: valid during the callback only.
struct log_record {
    log_level level;
    std::string_view text;
    std::span<const log_field> fields;
};

using log_callback = std::function<void(const log_record&)>;

/// Replaces the callback of the process; an empty function restores the default, which writes
/// `warning delay dropped queue=orders count=3` lines to stderr from `info` upwards. Thread-safe. A
/// callback that is running in another thread may still finish after this returns. Records may come
/// from any thread, several at once. What the callback throws is swallowed.
void set_log_callback(log_callback callback);

/// Never throws: a record that cannot be delivered is lost.
void log(log_level level, std::string_view text,
         std::initializer_list<log_field> fields = {}) noexcept;

} // namespace acquit::runtime
