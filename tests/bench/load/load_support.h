#pragma once

#include "../../../bench/load/options.h"

#include <string>
#include <string_view>
#include <vector>

namespace acquit::bench {

/// Reads a command line that a test wrote as words.
inline parsed told(const std::vector<std::string_view>& words)
{
    return parse(words);
}

/// Whether the text is one JSON value (RFC 8259) and nothing else.
[[nodiscard]] bool is_json(std::string_view text);

/// The lines of a text, without their newlines.
[[nodiscard]] std::vector<std::string> lines_of(std::string_view text);

} // namespace acquit::bench
