#include <acquit/amqp/uri.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace acquit::amqp {

namespace {

constexpr std::uint16_t port_plain = 5672;
constexpr std::uint16_t port_tls = 5671;

constexpr const char* hint = "; a special character in a user, password or vhost must be "
                             "percent-encoded (@ is %40, : is %3A, / is %2F, # is %23, ? is %3F)";

bool is_unreserved(char c) noexcept
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

bool is_sub_delim(char c) noexcept
{
    return std::string_view("!$&'()*+,;=").find(c) != std::string_view::npos;
}

int hex_value(char c) noexcept
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Percent-decoding. Raw characters must be unreserved, a sub-delimiter or in `also`.
std::optional<std::string> decode(std::string_view text, std::string_view also = {})
{
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '%') {
            const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
            const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return std::nullopt;
            }
            decoded += static_cast<char>(high * 16 + low);
            i += 2;
        } else if (is_unreserved(c) || is_sub_delim(c) || also.find(c) != also.npos) {
            decoded += c;
        } else {
            return std::nullopt;
        }
    }
    return decoded;
}

template <class Number>
std::optional<Number> number(std::string_view text) noexcept
{
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
        return std::nullopt;
    }
    return value;
}

bool is_ipv6(std::string_view text) noexcept
{
    const auto address = text.substr(0, text.find('%')); // a zone may follow (RFC 6874)
    return std::count(address.begin(), address.end(), ':') >= 2 &&
           std::all_of(address.begin(), address.end(),
                       [](char c) { return hex_value(c) >= 0 || c == ':' || c == '.'; });
}

/// Takes the text apart from left to right; the first thing wrong ends it. Errors never quote what
/// may be a part of a password: a raw '/' or '@' moves pieces of it anywhere.
class parser {
public:
    uri_result run(std::string_view text)
    {
        uri_result result;
        if (!all(text)) {
            result.error = std::move(error_);
        } else {
            result.address = std::move(address_);
        }
        return result;
    }

private:
    bool fail(std::string text)
    {
        error_ = std::move(text);
        return false;
    }

    bool all(std::string_view text)
    {
        if (!scheme(text)) {
            return false;
        }
        if (text.find('#') != text.npos) {
            return fail(fmt::format("the address has a '#', which has no meaning here{}", hint));
        }
        std::string_view query_text;
        if (const auto at = text.find('?'); at != text.npos) {
            query_text = text.substr(at + 1);
            text = text.substr(0, at);
        }
        const auto slash = std::min(text.find('/'), text.size());
        return authority(text.substr(0, slash)) && path(text.substr(slash)) && query(query_text);
    }

    bool scheme(std::string_view& text)
    {
        const auto end = text.find("://");
        if (end == text.npos) {
            return fail("an address begins with amqp://, amqps:// or amqp+unix://");
        }
        std::string name(text.substr(0, end));
        std::transform(name.begin(), name.end(), name.begin(), [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        });
        if (name != "amqp" && name != "amqps" && name != "amqp+unix") {
            return fail("an address begins with amqp://, amqps:// or amqp+unix://");
        }
        address_.tls = name == "amqps";
        unix_ = name == "amqp+unix";
        text.remove_prefix(end + 3);
        return true;
    }

    bool authority(std::string_view text)
    {
        if (const auto at = text.find('@'); at != text.npos) {
            if (text.find('@', at + 1) != text.npos) {
                return fail(fmt::format("the address has more than one '@'{}", hint));
            }
            if (!userinfo(text.substr(0, at))) {
                return false;
            }
            text = text.substr(at + 1);
        }
        if (unix_) {
            return text.empty() ||
                   fail("amqp+unix:// takes no host: amqp+unix://user:password@/path/of/socket");
        }
        for (;;) {
            const auto comma = text.find(',');
            if (!host(text.substr(0, comma))) {
                return false;
            }
            if (comma == text.npos) {
                break;
            }
            text = text.substr(comma + 1);
        }
        const auto& hosts = address_.hosts;
        if (hosts.size() > 1 &&
            std::any_of(hosts.begin(), hosts.end(), [](const auto& h) { return h.host.empty(); })) {
            return fail("a list of hosts has an empty one");
        }
        return true;
    }

    bool userinfo(std::string_view text)
    {
        const auto colon = text.find(':');
        address_.user = decode(text.substr(0, colon));
        if (!address_.user) {
            return fail(fmt::format("the user has a character that cannot stand there{}", hint));
        }
        if (colon != text.npos) {
            address_.password = decode(text.substr(colon + 1));
            if (!address_.password) {
                return fail(
                    fmt::format("the password has a character that cannot stand there{}", hint));
            }
        }
        return true;
    }

    bool host(std::string_view text)
    {
        host_port parsed;
        std::string_view rest;
        if (text.starts_with('[')) {
            const auto end = text.find(']');
            const auto inner =
                end == text.npos ? std::nullopt : decode(text.substr(1, end - 1), ":");
            if (!inner || !is_ipv6(*inner)) {
                return fail("brackets hold an IPv6 address: [::1]");
            }
            parsed.host = *inner;
            rest = text.substr(end + 1);
            if (!rest.empty() && !rest.starts_with(':')) {
                return fail("only :port may follow an IPv6 address");
            }
        } else {
            const auto colon = std::min(text.find(':'), text.size());
            rest = text.substr(colon);
            if (rest.find(':', 1) != rest.npos) {
                return fail(fmt::format(
                    "the host has more than one ':'; IPv6 goes into brackets, [::1]{}", hint));
            }
            const auto decoded = decode(text.substr(0, colon));
            if (!decoded) {
                return fail(
                    fmt::format("the host has a character that cannot stand there{}", hint));
            }
            parsed.host = *decoded;
        }
        parsed.port = address_.tls ? port_tls : port_plain;
        if (rest.size() > 1) {
            const auto port = number<std::uint16_t>(rest.substr(1));
            if (!port || *port == 0) {
                return fail(fmt::format("the port is not a number from 1 to 65535{}", hint));
            }
            parsed.port = *port;
        }
        address_.hosts.push_back(std::move(parsed));
        return true;
    }

    bool path(std::string_view text)
    {
        if (unix_) {
            auto decoded = decode(text, ":@/");
            if (!decoded || decoded->size() < 2) {
                return fail("amqp+unix:// needs the path of a socket");
            }
            address_.unix_path = std::move(*decoded);
            return true;
        }
        if (text.empty()) {
            return true; // no vhost was given, which is not the empty one
        }
        text.remove_prefix(1);
        address_.vhost = decode(text, ":");
        if (!address_.vhost) {
            return fail(fmt::format("the vhost has a character that cannot stand there{}", hint));
        }
        return true;
    }

    bool query(std::string_view text)
    {
        while (!text.empty()) {
            const auto end = std::min(text.find('&'), text.size());
            const auto pair = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (pair.empty()) {
                continue;
            }
            const auto equals = pair.find('=');
            const auto name = decode(pair.substr(0, equals), ":@/?");
            const auto value =
                decode(equals == pair.npos ? std::string_view{} : pair.substr(equals + 1), ":@/?");
            if (!name || !value) {
                return fail(fmt::format(
                    "a query parameter has a character that cannot stand there{}", hint));
            }
            if (!parameter(*name, *value)) {
                return false;
            }
        }
        return true;
    }

    template <class Number>
    bool number_parameter(std::string_view name, std::string_view value,
                          std::optional<Number>& into)
    {
        into = number<Number>(value);
        return into.has_value() || fail(fmt::format("{} must be a number from 0 to {}", name,
                                                    std::numeric_limits<Number>::max()));
    }

    bool parameter(const std::string& name, const std::string& value)
    {
        if (name == "heartbeat") {
            return number_parameter(name, value, address_.heartbeat_s);
        }
        if (name == "connection_timeout") {
            return number_parameter(name, value, address_.connection_timeout_ms);
        }
        if (name == "channel_max") {
            return number_parameter(name, value, address_.channel_max);
        }
        if (name == "auth_mechanism") {
            std::string mechanism = value;
            std::transform(mechanism.begin(), mechanism.end(), mechanism.begin(), [](char c) {
                return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
            });
            address_.auth_mechanisms.push_back(std::move(mechanism));
        } else if (name == "cacertfile") {
            address_.cacertfile = value;
        } else if (name == "certfile") {
            address_.certfile = value;
        } else if (name == "keyfile") {
            address_.keyfile = value;
        } else if (name == "verify") {
            if (value != "verify_peer" && value != "verify_none") {
                return fail("verify must be verify_peer or verify_none");
            }
            address_.verify = value == "verify_peer";
        } else if (name == "fail_if_no_peer_cert") {
            if (value != "true" && value != "false") {
                return fail("fail_if_no_peer_cert must be true or false");
            }
            address_.fail_if_no_peer_cert = value == "true";
        } else if (name == "server_name_indication") {
            address_.server_name_indication = value == "disable" ? std::string() : value;
        } else if (name == "connection_name") {
            address_.connection_name = value;
        } else if (name == "vhost" && unix_) {
            address_.vhost = value;
        } else {
            address_.unknown_parameters.push_back(name);
        }
        return true;
    }

    uri address_;
    std::string error_;
    bool unix_ = false;
};

} // namespace

uri_result parse_uri(std::string_view text)
{
    return parser{}.run(text);
}

std::string uri_encode(std::string_view text)
{
    std::string encoded;
    for (const char c : text) {
        if (is_unreserved(c)) {
            encoded += c;
        } else {
            encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return encoded;
}

std::string uri::describe() const
{
    if (!unix_path.empty()) {
        return fmt::format("amqp+unix://{}{}", unix_path,
                           vhost ? "?vhost=" + uri_encode(*vhost) : std::string());
    }
    std::string text = tls ? "amqps://" : "amqp://";
    const char* separator = "";
    for (const auto& [host, port] : hosts) {
        const bool brackets = host.find(':') != host.npos;
        text += fmt::format("{}{}{}{}:{}", separator, brackets ? "[" : "", host,
                            brackets ? "]" : "", port);
        separator = ",";
    }
    if (vhost) {
        text += "/" + uri_encode(*vhost);
    }
    return text;
}

} // namespace acquit::amqp
