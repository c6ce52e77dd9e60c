#include "settings.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace acquit::firehose {

namespace {

constexpr std::string_view usage_text =
    "acquit-firehose: a stand-in for RabbitMQ that delivers as fast as its client can take, "
    "checks\n"
    "every settlement, and says at the end what it saw. A tool for measuring clients, not a "
    "broker.\n"
    "\n"
    "  --listen HOST:PORT     numeric address; port 0 takes a free one (127.0.0.1:0)\n"
    "  --unix PATH            listens there as well\n"
    "  --messages N           deliveries of each queue; 0: without end (0)\n"
    "  --size LIST            body sizes in bytes, in turn: 16 or 16,1024,128 (16)\n"
    "  --headers KIND         properties of each delivery: none, typical or rich (none)\n"
    "  --rate N               deliveries per second over all consumers, each with its time of\n"
    "                         sending in the first 8 bytes of the body (as fast as it can)\n"
    "  --write PATTERN        write sizes: whole, N bytes, or random:SEED (whole)\n"
    "  --frame-max N          offer at tuning, 8192 to 1048576 bytes (131072)\n"
    "  --channel-max N        offer at tuning (2047)\n"
    "  --heartbeat N          offer at tuning, seconds, 0: off (60)\n"
    "  --send-buffer N        of each socket, bytes; 0: as the kernel likes (0)\n"
    "  --once                 end when every connection that came is gone, at least one\n"
    "  --connections N        end when N connections have come and gone\n"
    "  --lenient              count wrong settlements, do not close the channel for them\n"
    "  --spin                 never sleep: quicker answers, for a core of its own\n"
    "  --json FILE            the result as JSON, - is standard output\n"
    "\n"
    "Login guest/guest, vhost /. Any queue exists and holds --messages deliveries; one that ran "
    "empty\n"
    "is full again when a consumer comes while it has none. Publishes are taken, confirmed and\n"
    "forgotten.\n";

template <class T>
std::optional<T> number(std::string_view text, T least, T most)
{
    T value{};
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        return std::nullopt;
    return value;
}

/// Reads one option at a time; the first that cannot be read stays in `refused`.
class reader {
public:
    explicit reader(std::span<const char* const> arguments) : arguments_(arguments) {}

    bool next()
    {
        if (at_ == arguments_.size() || refused)
            return false;
        name_ = arguments_[at_++];
        inline_ = std::nullopt;
        if (const auto equals = name_.find('='); name_.starts_with("--") && equals != name_.npos) {
            inline_ = name_.substr(equals + 1);
            name_ = name_.substr(0, equals);
        }
        return true;
    }
    [[nodiscard]] std::string_view name() const { return name_; }

    std::string_view value()
    {
        if (inline_)
            return *inline_;
        if (at_ == arguments_.size()) {
            refuse(fmt::format("{} needs a value", name_));
            return "";
        }
        return arguments_[at_++];
    }
    template <class T>
    void number(T& into, T least, T most)
    {
        const auto text = value();
        if (const auto read = firehose::number<T>(text, least, most))
            into = *read;
        else
            refuse(fmt::format("{} takes a number from {} to {}, not \"{}\"", name_, least, most,
                               text));
    }
    void refuse(std::string why)
    {
        if (!refused)
            refused = refusal{std::move(why)};
    }

    std::optional<refusal> refused;

private:
    std::span<const char* const> arguments_;
    std::size_t at_ = 0;
    std::string_view name_;
    std::optional<std::string_view> inline_;
};

// 16 MiB is what brokers take since RabbitMQ 4.0 (max_message_size).
constexpr std::size_t body_size_max = 16 * 1024 * 1024;
constexpr std::size_t sizes_max = 1024;
constexpr std::size_t sizes_sum_max =
    64 * 1024 * 1024; // they are encoded at least once per consumer

void read_sizes(reader& r, std::vector<std::size_t>& sizes)
{
    const auto text = r.value();
    sizes.clear();
    std::size_t sum = 0;
    for (std::size_t begin = 0; begin <= text.size();) {
        const auto end = std::min(text.find(',', begin), text.size());
        const auto size = number<std::size_t>(text.substr(begin, end - begin), 0, body_size_max);
        if (!size || sizes.size() == sizes_max)
            return r.refuse(
                fmt::format("--size takes up to {} numbers from 0 to {} between commas, "
                            "not \"{}\"",
                            sizes_max, body_size_max, text));
        sizes.push_back(*size);
        sum += *size;
        begin = end + 1;
    }
    if (sum > sizes_sum_max)
        r.refuse(fmt::format("--size: {} bytes in all, more than {}", sum, sizes_sum_max));
}

void read_address(reader& r, settings& s)
{
    const auto text = r.value();
    const auto colon = text.rfind(':');
    const auto port =
        colon == text.npos ? std::nullopt : number<std::uint16_t>(text.substr(colon + 1), 0, 65535);
    if (!port || colon == 0)
        return r.refuse(fmt::format("--listen takes HOST:PORT, not \"{}\"", text));
    auto host = text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']'))
        host = host.substr(1, host.size() - 2);
    s.host = host;
    s.port = *port;
}

void read_writes(reader& r, write_pattern& writes)
{
    const auto text = r.value();
    if (text == "whole") {
        writes = {};
    } else if (text.starts_with("random:")) {
        if (const auto seed = number<std::uint64_t>(text.substr(7), 0, UINT64_MAX)) {
            writes = {write_pattern::kind::random, *seed};
            return;
        }
        r.refuse(fmt::format("--write random: takes a seed, not \"{}\"", text.substr(7)));
    } else if (const auto bytes = number<std::uint64_t>(text, 1, 1 << 30)) {
        writes = {write_pattern::kind::fixed, *bytes};
    } else {
        r.refuse(
            fmt::format("--write takes whole, a number of bytes or random:SEED, not \"{}\"", text));
    }
}

void read_headers(reader& r, header_kind& headers)
{
    const auto text = r.value();
    if (text == "none")
        headers = header_kind::none;
    else if (text == "typical")
        headers = header_kind::typical;
    else if (text == "rich")
        headers = header_kind::rich;
    else
        r.refuse(fmt::format("--headers takes none, typical or rich, not \"{}\"", text));
}

void read_option(reader& r, settings& s)
{
    const auto name = r.name();
    if (name == "--help" || name == "-h")
        r.refuse("");
    else if (name == "--listen")
        read_address(r, s);
    else if (name == "--unix")
        s.unix_path = r.value();
    else if (name == "--messages")
        r.number<std::uint64_t>(s.messages, 0, std::uint64_t{1} << 48);
    else if (name == "--size")
        read_sizes(r, s.sizes);
    else if (name == "--headers")
        read_headers(r, s.headers);
    else if (name == "--rate")
        r.number<double>(s.rate, 0.001, 1e7);
    else if (name == "--write")
        read_writes(r, s.writes);
    else if (name == "--frame-max")
        r.number<std::uint32_t>(s.frame_size_max, 8192, 1 << 20);
    else if (name == "--channel-max")
        r.number<std::uint16_t>(s.channel_max, 1, 65535);
    else if (name == "--heartbeat")
        r.number<std::uint16_t>(s.heartbeat_s, 0, 65535);
    else if (name == "--send-buffer")
        r.number<std::uint32_t>(s.send_buffer, 0, 1 << 30);
    else if (name == "--once")
        s.connections = 1;
    else if (name == "--connections")
        r.number<std::uint64_t>(s.connections, 1, 1'000'000);
    else if (name == "--lenient")
        s.lenient = true;
    else if (name == "--spin")
        s.spin = true;
    else if (name == "--json")
        s.json = r.value();
    else
        r.refuse(fmt::format("unknown option \"{}\"", name));
}

} // namespace

std::variant<settings, refusal> parse_arguments(std::span<const char* const> arguments)
{
    settings s;
    reader r(arguments);
    while (r.next())
        read_option(r, s);
    if (r.refused)
        return *r.refused;
    return s;
}

std::string_view usage() noexcept
{
    return usage_text;
}

} // namespace acquit::firehose
