#include "options.h"

#include "body.h"
#include "values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace acquit::bench {

namespace {

/// Reads a value into the options; gives back what is wrong, or nothing.
using reader = std::string (*)(options&, std::string_view);

struct entry {
    std::string_view letter; ///< behind one dash; "": none
    std::string_view word;   ///< behind two
    std::string_view value;  ///< what stands for it in the usage; "": a switch
    std::string_view help;
    reader read;
};

template <auto Member, std::uint64_t Least, std::uint64_t Most>
std::string number(options& o, std::string_view text)
{
    std::uint64_t value = 0;
    auto wrong = read_number(text, Least, Most, value);
    if (wrong.empty())
        o.*Member = static_cast<std::remove_reference_t<decltype(o.*Member)>>(value);
    return wrong;
}
template <auto Member>
std::string decimal(options& o, std::string_view text)
{
    return read_decimal(text, o.*Member);
}
template <auto Member>
std::string text_of(options& o, std::string_view text)
{
    o.*Member = std::string(text);
    return {};
}
template <auto Member>
std::string yes(options& o, std::string_view)
{
    o.*Member = true;
    return {};
}

std::string read_exchange(options& o, std::string_view text)
{
    o.exchange = text == "amq.default" ? "" : std::string(text);
    return {};
}
std::string read_flag(options& o, std::string_view text)
{
    if (text == "persistent")
        o.persistent = true;
    else if (text == "mandatory")
        o.mandatory = true;
    else
        return fmt::format("takes persistent or mandatory, not \"{}\"", text);
    return {};
}
std::string read_multi_ack(options& o, std::string_view text)
{
    o.settle = settle_by::every;
    return number<&options::ack_every, 1, 65535>(o, text);
}
std::string read_proxy_route(options& o, std::string_view text)
{
    return read_proxy(text, o.proxy.emplace());
}
std::string read_retry_after(options& o, std::string_view text)
{
    return read_milliseconds(text, o.retry_after);
}

constexpr std::uint64_t many = std::numeric_limits<std::uint32_t>::max();

constexpr entry table[] = {
    {"h", "uri", "URI", "broker: amqp://user:password@host:port/vhost", text_of<&options::uri>},
    {"d", "id", "ID", "name of this test, shown in its output", text_of<&options::id>},
    {"x", "producers", "N", "producers, each with a connection (1)",
     number<&options::producers, 0, 10'000>},
    {"y", "consumers", "N", "consumers, each with a connection (1)",
     number<&options::consumers, 0, 10'000>},
    {"X", "producer-channel-count", "N", "channels per producer (1)",
     number<&options::producer_channels, 1, 2047>},
    {"Y", "consumer-channel-count", "N", "channels per consumer (1)",
     number<&options::consumer_channels, 1, 2047>},
    {"u", "queue", "NAME", "queue; one of our own without it, deleted at the end",
     text_of<&options::queue>},
    {"qp", "queue-pattern", "NAME-%d", "several queues, shared out among producers and consumers",
     text_of<&options::queue_pattern>},
    {"qpf", "queue-pattern-from", "N", "first number of the pattern",
     number<&options::pattern_from, 0, 1'000'000>},
    {"qpt", "queue-pattern-to", "N", "last number of the pattern",
     number<&options::pattern_to, 0, 1'000'000>},
    {"qq", "quorum-queue", "", "quorum queues: durable, not auto-deleted, persistent messages",
     yes<&options::quorum>},
    {"qa", "queue-args", "K=V,...", "arguments of the queues, such as x-max-length=10",
     [](options& o, std::string_view t) { return read_key_values(t, o.queue_arguments); }},
    {"ad", "auto-delete", "BOOL", "queues go with their last consumer (true)",
     [](options& o, std::string_view t) { return read_yes_no(t, o.auto_delete); }},
    {"p", "predeclared", "", "queues and exchange exist: nothing is declared, bound or deleted",
     yes<&options::predeclared>},
    {"e", "exchange", "NAME", "exchange to publish to (the default exchange)", read_exchange},
    {"t", "type", "TYPE", "type of the exchange (direct)", text_of<&options::exchange_type>},
    {"k", "routing-key", "KEY", "routing key (the queue's name)",
     [](options& o, std::string_view t) { return o.routing_key = std::string(t), std::string(); }},
    {"s", "size", "BYTES", "body of a message, at least 16 (16)",
     number<&options::size, 0, 128u << 20>},
    {"r", "rate", "N", "messages per second that a producer's channel publishes at most",
     decimal<&options::rate>},
    {"C", "pmessages", "N", "messages that a producer's channel publishes",
     number<&options::per_producer, 1, std::uint64_t{1} << 38>},
    {"c", "confirm", "N", "publisher confirms, with so many publishes unanswered at most",
     number<&options::confirm, 1, 1'000'000>},
    {"ct", "confirm-timeout", "SECONDS", "a publish without an answer fails after this (30)",
     [](options& o, std::string_view t) {
         std::uint64_t seconds = 0;
         auto wrong = read_number(t, 1, 1'000'000, seconds);
         o.confirm_timeout = std::chrono::seconds(seconds);
         return wrong;
     }},
    {"f", "flag", "FLAG", "persistent or mandatory; may be given twice", read_flag},
    {"mp", "message-properties", "K=V,...", "such as priority=5; unknown names become headers",
     [](options& o, std::string_view t) { return read_key_values(t, o.properties); }},
    {"q", "qos", "N", "prefetch of a consumer's channel; 0: no limit (256)",
     number<&options::prefetch, 0, 65535>},
    {"a", "autoack", "", "no acknowledgements",
     [](options& o, std::string_view) { return o.settle = settle_by::nobody, std::string(); }},
    {"A", "multi-ack-every", "N", "the same as --settle multi:N", read_multi_ack},
    {"R", "consumer-rate", "N", "messages per second that a consumer's channel takes at most",
     decimal<&options::consumer_rate>},
    {"L", "consumer-latency", "US", "microseconds that a consumer spends on a message",
     [](options& o, std::string_view t) {
         std::uint64_t us = 0;
         auto wrong = read_number(t, 0, 3'600'000'000, us);
         o.work = std::chrono::microseconds(us);
         return wrong;
     }},
    {"D", "cmessages", "N", "messages that a consumer's channel settles before it stops",
     number<&options::per_consumer, 1, std::uint64_t{1} << 38>},
    {"z", "time", "SECONDS", "how long to publish and consume", decimal<&options::seconds>},
    {"i", "interval", "SECONDS", "time between two lines (1)",
     [](options& o, std::string_view t) {
         auto wrong = read_decimal(t, o.interval);
         return wrong.empty() && o.interval < 0.1 ? "takes at least 0.1 s" : wrong;
     }},
    {"ms", "use-millis", "", "latency by the wall clock, between two machines",
     yes<&options::milliseconds>},
    {"M", "framemax", "BYTES", "largest frame, at least 8192",
     number<&options::frame_max, 8192, many>},
    {"b", "heartbeat", "SECONDS", "heartbeat interval; 0: none",
     [](options& o, std::string_view t) {
         std::uint64_t seconds = 0;
         auto wrong = read_number(t, 0, 65535, seconds);
         o.heartbeat_s = static_cast<std::uint16_t>(seconds);
         return wrong;
     }},
    {"o", "output-file", "FILE", "a line of CSV per interval", text_of<&options::csv_file>},

    // What PerfTest does not have.
    {"", "settle", "HOW", "auto (the library's ledger), single, multi:N or none (auto)",
     [](options& o, std::string_view t) { return read_settle(t, o.settle, o.ack_every); }},
    {"", "hold", "US", "of auto: the longest that a settlement waits for company (100)",
     [](options& o, std::string_view t) {
         std::uint64_t us = 0;
         auto wrong = read_number(t, 0, 60'000'000, us);
         o.hold = std::chrono::microseconds(us);
         return wrong;
     }},
    {"", "flush-count", "N", "of auto: settlements that do not wait any longer (prefetch / 4)",
     number<&options::flush_count, 1, 65535>},
    {"", "concurrency", "N", "messages that a channel works on at the same time, with -L (1)",
     number<&options::concurrency, 1, 65535>},
    {"", "outcomes", "K=N,...", "shares of ack, retry, drop and retry_after (ack=1)",
     [](options& o, std::string_view t) { return read_outcomes(t, o.outcomes); }},
    {"", "retry-after", "TIME", "delay of the outcome retry_after (100ms)", read_retry_after},
    {"", "delay", "MODE", "none, hold:N, dlx_ttl, buckets:1s+9s, native:1s+9s, plugin_dme",
     [](options& o, std::string_view t) { return read_delay(t, o.delay); }},
    {"", "seed", "N", "of the outcomes (1)",
     number<&options::seed, 0, std::numeric_limits<std::uint64_t>::max()>},
    {"", "verify", "", "nothing lost, nothing settled twice; else status 1", yes<&options::verify>},
    {"", "settlement-latency", "", "settlement latency in each line, too",
     yes<&options::settlement_latency>},
    {"", "warmup", "SECONDS", "from the start; counts in no total", decimal<&options::warm_up>},
    {"", "json", "FILE", "all figures as JSON", text_of<&options::json_file>},
    {"", "hdr", "FILE", "settlement latency by percentile, as HdrHistogram prints it",
     text_of<&options::hdr_file>},
    {"", "report", "FILE", "a report to read, one HTML file", text_of<&options::report_file>},
    {"", "proxy", "ADDRESS", "no load: watch others between LISTEN:PORT and TARGET:PORT",
     read_proxy_route},
};

/// PerfTest's, for which there is nothing here.
struct unsupported {
    std::string_view letter;
    std::string_view word;
};
constexpr unsupported elsewhere[] = {
    {"B", "body"},
    {"bc", "body-count"},
    {"bfc", "body-field-count"},
    {"ca", "consumer-args"},
    {"cri", "connection-recovery-interval"},
    {"ctp", "consumers-thread-pools"},
    {"dcr", "disable-connection-recovery"},
    {"E", "exclusive"},
    {"env", "environment-variables"},
    {"hst", "heartbeat-sender-threads"},
    {"H", "uris"},
    {"jb", "json-body"},
    {"K", "random-routing-key"},
    {"l", "legacy-metrics"},
    {"m", "ptxsize"},
    {"mh", "metrics-help"},
    {"mf", "metrics-format"},
    {"n", "ctxsize"},
    {"na", "nack"},
    {"niot", "nio-threads"},
    {"niotp", "nio-thread-pool"},
    {"P", "publishing-interval"},
    {"po", "polling"},
    {"pi", "polling-interval"},
    {"prsd", "producer-random-start-delay"},
    {"pst", "producer-scheduler-threads"},
    {"Q", "global-qos"},
    {"qf", "queue-file"},
    {"re", "requeue"},
    {"rkcs", "routing-key-cache-size"},
    {"S", "slow-start"},
    {"sb", "skip-binding-queues"},
    {"se", "sasl-external"},
    {"sq", "stream-queue"},
    {"st", "shutdown-timeout"},
    {"sni", "server-name-indication"},
    {"T", "body-content-type"},
    {"udsc", "use-default-ssl-context"},
    {"vl", "variable-latency"},
    {"vr", "variable-rate"},
    {"vs", "variable-size"},
};

template <class Entry>
bool is(const Entry& e, std::string_view name)
{
    return name.starts_with("--") ? !e.word.empty() && name.substr(2) == e.word
                                  : !e.letter.empty() && name.substr(1) == e.letter;
}

std::string unknown(std::string_view name)
{
    for (const auto& each : elsewhere)
        if (is(each, name))
            return fmt::format("{} (--{} of PerfTest) is not supported", name, each.word);
    // It may be an address with a password in it.
    if (name.find("://") != name.npos)
        return "an address goes behind --uri";
    return fmt::format("there is no option \"{}\"", name);
}

std::string check_consuming(const options& o)
{
    const bool by_ledger = o.settle == settle_by::ledger;
    if (o.per_consumer != 0 && o.consumers == 0)
        return "-D needs a consumer";
    if (!by_ledger && (o.hold || o.flush_count != 0))
        return "--hold and --flush-count belong to --settle auto";
    if (!by_ledger && (o.outcomes.retry_after != 0 || o.delay.kind() != settle::delay::mode::none))
        return "retry_after and --delay need --settle auto";
    if (o.settle == settle_by::nobody && !o.outcomes.only_acks())
        return "without acknowledgements there are no --outcomes";
    if (o.prefetch == 0 && o.settle != settle_by::single && o.settle != settle_by::nobody)
        return "-q 0, no limit, is possible with --settle single or none only";
    if (o.settle == settle_by::every && o.ack_every > o.prefetch)
        return fmt::format("--settle multi:{} never comes to an ack with a prefetch of {}",
                           o.ack_every, o.prefetch);
    if (o.settle == settle_by::every && o.concurrency > 1)
        return "--concurrency above 1 needs --settle auto or single";
    if (o.prefetch != 0 && o.concurrency > o.prefetch)
        return "--concurrency above the prefetch (-q) would be idle";
    if (o.predeclared && (o.outcomes.retry_after != 0 || o.delay.copies()))
        return "retry_after declares what it needs: not with -p";
    return {};
}

/// What no single option can know.
std::string check(options& o)
{
    if (o.proxy)
        return {};
    if (o.producers == 0 && o.consumers == 0)
        return "neither a producer nor a consumer: nothing to do";
    if (std::uint64_t{o.producers} * o.producer_channels > producers_max)
        return fmt::format("more than {} channels that publish", producers_max);
    if (o.per_producer != 0 && o.producers == 0)
        return "-C needs a producer";
    if (o.predeclared && o.queue.empty() && o.queue_pattern.empty())
        return "-p needs the name of the queue (-u)";
    if (!o.queue_pattern.empty()) {
        if (!o.queue.empty())
            return "-u and -qp exclude each other";
        if (o.queue_pattern.find("%d") == std::string::npos)
            return "-qp needs a %d where the number goes";
        if (o.pattern_to < o.pattern_from)
            return "-qpt is below -qpf";
    }
    if (o.verify && o.consumers == 0)
        return "--verify needs a consumer: it watches what is settled";
    if (o.verify && !o.exchange.empty() && o.exchange_type != "direct")
        return "--verify needs each message in one queue: a direct exchange";
    if (o.quorum) {
        o.persistent = true;
        o.auto_delete = false;
        o.prefetch = std::min<std::uint32_t>(o.prefetch, 2000); // RabbitMQ sends no more
        o.concurrency = std::min(o.concurrency, o.prefetch);
    }
    if (o.delay.kind() == settle::delay::mode::native && !o.quorum)
        return "--delay native needs a quorum queue (-qq)";
    o.size = std::max<std::uint32_t>(o.size, 16);
    return check_consuming(o);
}

std::string without_password(std::string_view text)
{
    const auto scheme = text.find("://");
    if (scheme == text.npos)
        return std::string(text);
    const auto at = text.rfind('@');
    const auto colon = text.find(':', scheme + 3);
    if (at == text.npos || colon == text.npos || colon > at)
        return std::string(text);
    return std::string(text.substr(0, colon + 1)) + "***" + std::string(text.substr(at));
}

std::string quoted(std::string_view text)
{
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,@%+*";
    if (!text.empty() && text.find_first_not_of(plain) == text.npos)
        return std::string(text);
    std::string out = "'";
    for (const char c : text)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

} // namespace

std::vector<std::string> options::queues() const
{
    if (queue_pattern.empty())
        return {queue};
    std::vector<std::string> names;
    const auto at = queue_pattern.find("%d");
    for (auto n = pattern_from; n <= pattern_to; ++n)
        names.push_back(queue_pattern.substr(0, at) + std::to_string(n) +
                        queue_pattern.substr(at + 2));
    return names;
}

std::string options::settle_text() const
{
    switch (settle) {
    case settle_by::ledger:
        return "auto";
    case settle_by::single:
        return "single";
    case settle_by::every:
        return fmt::format("multi:{}", ack_every);
    case settle_by::nobody:
        break;
    }
    return "none";
}

parsed parse(std::span<const std::string_view> arguments)
{
    parsed result;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        std::string_view name = arguments[i];
        if (name == "-?" || name == "--help") {
            result.wants_help = true;
            return result;
        }
        if (name == "-v" || name == "--version") {
            result.wants_version = true;
            return result;
        }
        std::optional<std::string_view> value;
        if (const auto equals = name.find('='); name.starts_with("--") && equals != name.npos) {
            value = name.substr(equals + 1);
            name = name.substr(0, equals);
        }
        const auto* const found = std::ranges::find_if(table, [&](auto& e) { return is(e, name); });
        if (!name.starts_with('-') || found == std::end(table)) {
            result.error = unknown(name);
            return result;
        }
        if (found->value.empty()) {
            if (value) {
                result.error = fmt::format("{} takes no value", name);
                return result;
            }
            value = "";
        } else if (!value) {
            if (i + 1 == arguments.size()) {
                result.error = fmt::format("{} needs a value", name);
                return result;
            }
            value = arguments[++i];
        }
        if (const auto wrong = found->read(result.values, *value); !wrong.empty()) {
            result.error = fmt::format("{} {}", name, wrong);
            return result;
        }
    }
    result.error = check(result.values);
    return result;
}

std::string usage()
{
    std::string out =
        "acquit-bench: load for RabbitMQ, and what it measures\n\n"
        "    acquit-bench -h amqp://localhost -C 100000 -D 100000 -s 128 -q 256 --verify\n"
        "    acquit-bench --proxy 127.0.0.1:5000:broker:5001 --report seen.html\n\n";
    for (const auto& e : table) {
        if (e.word == "settle")
            out += "\nWhat PerfTest does not have:\n";
        const auto flag = e.letter.empty() ? std::string() : fmt::format("-{},", e.letter);
        const auto word = fmt::format("--{} {}", e.word, e.value);
        out += fmt::format("  {:<5}{:<28} {}\n", flag, word, e.help);
    }
    return out + "  -?,  --help\n  -v,  --version\n";
}

std::string command_line(std::span<const std::string_view> arguments)
{
    std::string out = "acquit-bench";
    for (const auto& each : arguments)
        out += ' ' + quoted(without_password(each));
    return out;
}

} // namespace acquit::bench
