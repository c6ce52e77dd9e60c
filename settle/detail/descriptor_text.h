// What queue and exchange descriptors share: limits of names, texts of problems, merging of
// arguments.
#pragma once

#include <acquit/amqp/wire/table.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace acquit::settle::detail {

// AMQP 0-9-1 4.2.5.3: names and keys are short strings.
inline constexpr std::size_t short_string_max = 255;

// "queue 'orders'"; a name of more than 64 bytes is cut.
[[nodiscard]] std::string quoted(std::string_view noun, std::string_view name);

// Adds the one field of `one`, whose name is `argument`. If another value stands there already that
// one stays and the text says so; integers are compared by value, since the broker takes any width.
[[nodiscard]] std::string merge_argument(amqp::wire::table& into, std::string_view argument,
                                         const amqp::wire::table& one);

} // namespace acquit::settle::detail
