#pragma once

#include "options.h"

#include <optional>
#include <string>
#include <string_view>

/// Reads the values of options: each returns "" or what is wrong with the text, without the option's
/// name.
namespace acquit::bench {

[[nodiscard]] std::string read_number(std::string_view text, std::uint64_t least,
                                      std::uint64_t most, std::uint64_t& out);
/// A decimal fraction of at least 0, such as 0.5.
[[nodiscard]] std::string read_decimal(std::string_view text, double& out);
[[nodiscard]] std::string read_yes_no(std::string_view text, bool& out);
/// name=value,name=value
[[nodiscard]] std::string read_key_values(std::string_view text, key_values& out);
/// ack=95,retry=3,drop=1,retry_after=1
[[nodiscard]] std::string read_outcomes(std::string_view text, outcome_shares& out);
/// auto, single, multi:N, none
[[nodiscard]] std::string read_settle(std::string_view text, settle_by& by, std::uint32_t& every);
/// 100ms, 2s, 5min, or a number of milliseconds.
[[nodiscard]] std::string read_milliseconds(std::string_view text, std::chrono::milliseconds& out);
/// none, hold:N, dlx_ttl, buckets:100ms+400ms, native:100ms+1s, plugin_dme
[[nodiscard]] std::string read_delay(std::string_view text, settle::delay& out);
/// LISTEN_ADDRESS:PORT:TARGET_HOST:PORT; IPv6 addresses in brackets.
[[nodiscard]] std::string read_proxy(std::string_view text, proxy_route& out);

} // namespace acquit::bench
