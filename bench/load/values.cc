#include "values.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

namespace acquit::bench {

namespace {

/// Cuts off what stands before the next `separator`.
std::string_view next_piece(std::string_view& rest, char separator)
{
    const auto at = rest.find(separator);
    const auto piece = rest.substr(0, at);
    rest = at == rest.npos ? std::string_view{} : rest.substr(at + 1);
    return piece;
}

std::string read_count(std::string_view text, std::uint32_t& out)
{
    std::uint64_t number = 0;
    auto wrong = read_number(text, 1, std::numeric_limits<std::uint32_t>::max(), number);
    if (wrong.empty())
        out = static_cast<std::uint32_t>(number);
    return wrong;
}

std::string read_steps(std::string_view text, std::vector<std::chrono::milliseconds>& out)
{
    while (!text.empty()) {
        std::chrono::milliseconds step{};
        if (auto wrong = read_milliseconds(next_piece(text, '+'), step); !wrong.empty())
            return wrong;
        out.push_back(step);
    }
    return {};
}

/// Host and port from the front; the host may stand in brackets.
std::string read_host_port(std::string_view& text, std::string& host, std::uint16_t& port,
                           std::uint64_t least_port)
{
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == text.npos || text.substr(end + 1, 1) != ":")
            return "an IPv6 address stands in brackets, with a colon behind them";
        host = text.substr(1, end - 1);
        text.remove_prefix(end + 2);
    } else {
        host = next_piece(text, ':');
    }
    std::uint64_t number = 0;
    const auto digits = next_piece(text, ':');
    if (host.empty() || !read_number(digits, least_port, 65535, number).empty())
        return "it reads LISTEN_ADDRESS:PORT:TARGET_HOST:PORT, such as 127.0.0.1:0:broker:5001";
    port = static_cast<std::uint16_t>(number);
    return {};
}

} // namespace

std::string read_number(std::string_view text, std::uint64_t least, std::uint64_t most,
                        std::uint64_t& out)
{
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        return fmt::format("takes a number from {} to {}, not \"{}\"", least, most, text);
    out = value;
    return {};
}

std::string read_decimal(std::string_view text, double& out)
{
    double value = 0;
    const auto [end, failed] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (failed != std::errc{} || end != text.data() + text.size() || !(value >= 0) || value > 1e12)
        return fmt::format("takes a number of at least 0, not \"{}\"", text);
    out = value;
    return {};
}

std::string read_yes_no(std::string_view text, bool& out)
{
    if (text != "true" && text != "false")
        return fmt::format("takes true or false, not \"{}\"", text);
    out = text == "true";
    return {};
}

std::string read_key_values(std::string_view text, key_values& out)
{
    if (text.empty())
        return "takes name=value, several separated by commas";
    while (!text.empty()) {
        const auto piece = next_piece(text, ',');
        const auto equals = piece.find('=');
        if (equals == piece.npos || equals == 0)
            return fmt::format("takes name=value, several separated by commas, not \"{}\"", piece);
        out.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
    }
    return {};
}

std::string read_outcomes(std::string_view text, outcome_shares& out)
{
    key_values shares;
    if (auto wrong = read_key_values(text, shares); !wrong.empty())
        return wrong;
    outcome_shares read{.ack = 0};
    for (const auto& [name, value] : shares) {
        std::uint32_t* const share = name == "ack"           ? &read.ack
                                     : name == "retry"       ? &read.retry
                                     : name == "drop"        ? &read.drop
                                     : name == "retry_after" ? &read.retry_after
                                                             : nullptr;
        if (share == nullptr)
            return fmt::format("knows ack, retry, drop and retry_after, not \"{}\"", name);
        std::uint64_t number = 0;
        if (auto wrong = read_number(value, 0, 1'000'000, number); !wrong.empty())
            return wrong;
        *share = static_cast<std::uint32_t>(number);
    }
    // What is always retried is never done.
    if (read.ack == 0 && read.drop == 0)
        return "needs a share of ack or drop: nothing would ever be done";
    out = read;
    return {};
}

std::string read_settle(std::string_view text, settle_by& by, std::uint32_t& every)
{
    if (text == "auto") {
        by = settle_by::ledger;
    } else if (text == "single") {
        by = settle_by::single;
    } else if (text == "none") {
        by = settle_by::nobody;
    } else if (text.starts_with("multi:")) {
        by = settle_by::every;
        return read_count(text.substr(6), every);
    } else {
        return fmt::format("takes auto, single, multi:N or none, not \"{}\"", text);
    }
    return {};
}

std::string read_milliseconds(std::string_view text, std::chrono::milliseconds& out)
{
    struct unit {
        std::string_view name;
        std::uint64_t factor;
    };
    static constexpr std::array<unit, 5> units{
        {{"ms", 1}, {"min", 60'000}, {"s", 1000}, {"h", 3'600'000}, {"", 1}}};
    for (const auto& each : units) {
        if (!text.ends_with(each.name))
            continue;
        std::uint64_t number = 0;
        const auto digits = text.substr(0, text.size() - each.name.size());
        if (!read_number(digits, 1, 1'000'000'000, number).empty())
            break;
        out = std::chrono::milliseconds(number * each.factor);
        return {};
    }
    return fmt::format("takes a time such as 100ms, 2s or 5min, not \"{}\"", text);
}

std::string read_delay(std::string_view text, settle::delay& out)
{
    const auto colon = text.find(':');
    const auto mode = text.substr(0, colon);
    const auto rest = colon == text.npos ? std::string_view{} : text.substr(colon + 1);
    if (mode == "hold") {
        std::uint32_t budget = 64;
        if (!rest.empty())
            if (auto wrong = read_count(rest, budget); !wrong.empty())
                return wrong;
        out = settle::delay::hold(budget);
        return {};
    }
    std::vector<std::chrono::milliseconds> steps;
    if (auto wrong = read_steps(rest, steps); !wrong.empty())
        return wrong;
    if (mode == "buckets") {
        out = settle::delay::buckets(std::move(steps));
    } else if (mode == "native") {
        if (steps.size() != 2)
            return "takes native:MIN+MAX, such as native:100ms+1s";
        out = settle::delay::native(steps[0], steps[1]);
    } else if (rest.empty() && mode == "none") {
        out = settle::delay::none();
    } else if (rest.empty() && mode == "dlx_ttl") {
        out = settle::delay::dlx_ttl();
    } else if (rest.empty() && mode == "plugin_dme") {
        out = settle::delay::plugin_dme();
    } else {
        return fmt::format("takes none, hold:N, dlx_ttl, buckets:100ms+400ms, native:100ms+1s or "
                           "plugin_dme, not \"{}\"",
                           text);
    }
    return {};
}

std::string read_proxy(std::string_view text, proxy_route& out)
{
    if (auto wrong = read_host_port(text, out.listen_address, out.listen_port, 0); !wrong.empty())
        return wrong;
    return read_host_port(text, out.target_host, out.target_port, 1);
}

} // namespace acquit::bench
