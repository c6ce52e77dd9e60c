#pragma once

#include <acquit/amqp/wire/properties.h>
#include <acquit/runtime/loop.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Properties and arguments as a broker reads them, for broker_model.
namespace acquit::testing {

namespace wire = amqp::wire;

[[nodiscard]] inline runtime::time_point now()
{
    return runtime::loop::current().now();
}

/// Views of `raw`.
[[nodiscard]] wire::properties decoded(const std::vector<std::byte>& raw);
/// Flags and values.
[[nodiscard]] std::vector<std::byte> encoded(const wire::properties& p);
/// Nothing where the field is absent or of another type.
[[nodiscard]] std::optional<std::int64_t> number(wire::table_view table, std::string_view name);
[[nodiscard]] std::optional<std::string> text(wire::table_view table, std::string_view name);
[[nodiscard]] std::optional<std::int64_t> expiration_ms(const wire::properties& p);

} // namespace acquit::testing
