// A first run: publishes messages, consumes them with a coroutine handler that acks, drops and
// retries, and says what it cost and that nothing was lost. What bench/run builds and starts.

#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/signals.h>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

using namespace acquit;

namespace {

struct settings {
    std::string uri;
    std::uint64_t messages = 200'000;
    std::uint32_t prefetch = 256;
    std::uint32_t concurrency = 32;
    std::uint32_t body_size = 128;
    bool quorum = false;
};

constexpr const char* usage =
    "acquit-first-run [--uri amqp://USER:PASSWORD@HOST:PORT/VHOST] [options]\n"
    "\n"
    "  --uri URI          the broker; ACQUIT_BROKER_URI without it\n"
    "  --messages N       how many to publish and consume (200000)\n"
    "  --prefetch N       unsettled deliveries at most, 1 to 65535 (256; 2000 on a quorum queue)\n"
    "  --concurrency N    handlers at the same time, 1 to prefetch (32)\n"
    "  --size N           body in bytes, at least 16 (128)\n"
    "  --quorum           a quorum queue instead of a classic one\n"
    "\n"
    "It declares a queue of its own, acquit-first-run.<pid>, and deletes it at the end.\n";

[[noreturn]] void refuse(const std::string& what)
{
    fmt::print(stderr, "acquit-first-run: {}\n\n{}", what, usage);
    std::exit(2);
}

std::uint64_t number(std::string_view name, std::string_view text, std::uint64_t least,
                     std::uint64_t most)
{
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        refuse(fmt::format("{} takes a number from {} to {}, not \"{}\"", name, least, most, text));
    return value;
}

settings parse(int argc, char** argv)
{
    settings s;
    if (const char* uri = std::getenv("ACQUIT_BROKER_URI"))
        s.uri = uri;
    for (int i = 1; i < argc; ++i) {
        std::string_view name = argv[i];
        std::optional<std::string_view> inline_value;
        if (const auto equals = name.find('='); name.starts_with("--") && equals != name.npos) {
            inline_value = name.substr(equals + 1);
            name = name.substr(0, equals);
        }
        const auto value = [&]() -> std::string_view {
            if (inline_value)
                return *inline_value;
            if (i + 1 == argc)
                refuse(fmt::format("{} needs a value", name));
            return argv[++i];
        };
        if (name == "--help" || name == "-h") {
            fmt::print("{}", usage);
            std::exit(0);
        } else if (name == "--uri") {
            s.uri = value();
        } else if (name == "--messages") {
            s.messages = number(name, value(), 1, 100'000'000);
        } else if (name == "--prefetch") {
            s.prefetch = static_cast<std::uint32_t>(number(name, value(), 1, 65535));
        } else if (name == "--concurrency") {
            s.concurrency = static_cast<std::uint32_t>(number(name, value(), 1, 65535));
        } else if (name == "--size") {
            s.body_size = static_cast<std::uint32_t>(number(name, value(), 16, 16 << 20));
        } else if (name == "--quorum") {
            s.quorum = true;
        } else {
            // It may be an address with a password in it.
            refuse(name.find("://") == name.npos ? fmt::format("unknown option \"{}\"", name)
                                                 : std::string("an address goes behind --uri"));
        }
    }
    if (s.uri.empty())
        refuse("which broker? give --uri");
    if (s.quorum && s.prefetch > 2000)
        s.prefetch = 2000;
    if (s.concurrency > s.prefetch)
        s.concurrency = s.prefetch;
    return s;
}

double seconds(std::chrono::nanoseconds d)
{
    return std::chrono::duration<double>(d).count();
}

double cpu_seconds()
{
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto of = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return of(used.ru_utime) + of(used.ru_stime);
}

/// One line that is rewritten on a terminal, and a line per second elsewhere.
class progress {
public:
    ~progress()
    {
        if (terminal_ && shown_)
            fmt::print(stderr, "\n");
    }
    void show(const std::string& line)
    {
        shown_ = true;
        if (terminal_)
            fmt::print(stderr, "\r{:<78}", line);
        else
            fmt::print(stderr, "{}\n", line);
        std::fflush(stderr);
    }

private:
    bool terminal_ = ::isatty(STDERR_FILENO) == 1;
    bool shown_ = false;
};

/// What has become of each message, by its number in the body.
class book {
public:
    explicit book(std::uint64_t messages) : final_(messages), seen_(messages) {}

    /// The decision for this delivery: of a hundred messages one is dropped, three are retried once.
    outcome decide(const delivery& d)
    {
        std::uint64_t id = 0;
        if (d.body().size() < sizeof id)
            return unknown();
        std::memcpy(&id, d.body().data(), sizeof id);
        if (id >= final_.size())
            return unknown();
        if (seen_[id]++ == 0 && id % 100 < 3)
            return retry();
        if (final_[id]++ != 0)
            ++twice_;
        ++done_;
        if (id % 100 == 99) {
            ++dropped_;
            return drop;
        }
        ++acked_;
        return ack;
    }

    [[nodiscard]] std::uint64_t done() const { return done_; }
    [[nodiscard]] std::uint64_t acked() const { return acked_; }
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
    [[nodiscard]] std::uint64_t twice() const { return twice_; }
    [[nodiscard]] std::uint64_t foreign() const { return foreign_; }
    [[nodiscard]] std::uint64_t never_seen() const
    {
        std::uint64_t count = 0;
        for (const auto seen : seen_)
            count += seen == 0 ? 1 : 0;
        return count;
    }

private:
    outcome unknown()
    {
        ++foreign_;
        return drop;
    }

    std::vector<std::uint8_t> final_; // how often an ack or a drop was decided
    std::vector<std::uint8_t> seen_;
    std::uint64_t done_ = 0;
    std::uint64_t acked_ = 0;
    std::uint64_t dropped_ = 0;
    std::uint64_t twice_ = 0;
    std::uint64_t foreign_ = 0;
};

task<std::uint64_t> publish_all(amqp::connection& broker, const settings& s,
                                const std::string& queue)
{
    amqp::channel c(broker);
    co_await c.open();
    co_await c.confirm_select();
    std::vector<std::byte> body(s.body_size);
    progress line;
    auto& loop = runtime::loop::current();
    const auto began = loop.precise_now();
    auto next_line = began + 1s;
    std::uint64_t refused = 0;
    for (std::uint64_t id = 0; id < s.messages; ++id) {
        std::memcpy(body.data(), &id, sizeof id);
        co_await c.publish({.routing_key = queue,
                            .mandatory = true,
                            .properties = {.delivery_mode = 2},
                            .body = body});
        if (id % 2000 == 1999)
            refused += co_await c.wait_for_confirms();
        if (const auto now = loop.now(); now >= next_line) {
            line.show(fmt::format("publishing {:>9} of {}  {:>8.0f}/s", id + 1, s.messages,
                                  static_cast<double>(id + 1) / seconds(now - began)));
            next_line = now + 1s;
        }
    }
    refused += co_await c.wait_for_confirms();
    const auto took = seconds(loop.precise_now() - began);
    line.show(fmt::format("published {} messages of {} bytes in {:.1f} s: {:.0f}/s, {} refused",
                          s.messages - refused, s.body_size, took,
                          static_cast<double>(s.messages) / took, refused));
    co_await c.close();
    co_return s.messages - refused;
}

task<> show_consuming(const book& counts, std::uint64_t messages)
{
    progress line;
    auto& loop = runtime::loop::current();
    std::uint64_t before = 0;
    auto then = loop.now();
    for (;;) {
        co_await sleep(1s);
        const auto now = loop.now();
        line.show(fmt::format("consuming  {:>9} of {}  {:>8.0f}/s", counts.done(), messages,
                              static_cast<double>(counts.done() - before) / seconds(now - then)));
        before = counts.done();
        then = now;
    }
}

struct result {
    report settled;
    double took = 0;
    double cpu = 0;
};

task<result> consume_all(const settings& s, const std::string& queue, book& counts,
                         std::uint64_t published)
{
    service consumer{s.uri};
    consumer.name("acquit-first-run");
    consumer
        .consume(existing_queue{queue}.prefetch(s.prefetch),
                 [&](delivery& d) -> task<outcome> {
                     const outcome decided = counts.decide(d);
                     if (counts.done() == published)
                         consumer.stop();
                     co_return decided;
                 })
        .concurrency(s.concurrency);
    auto& loop = runtime::loop::current();
    const auto began = loop.precise_now();
    const double cpu_before = cpu_seconds();
    result r;
    r.settled = co_await with_scope([&](scope& tasks) -> task<report> {
        tasks.spawn(show_consuming(counts, published));
        tasks.spawn([](service& stopped) -> task<> {
            runtime::signal_watcher signals{SIGINT, SIGTERM};
            for (;;) {
                (void)co_await signals.next();
                stopped.stop();
            }
        }(consumer));
        auto settled = co_await consumer.run();
        tasks.cancel();
        co_return settled;
    });
    r.took = seconds(loop.precise_now() - began);
    r.cpu = cpu_seconds() - cpu_before;
    co_return r;
}

std::string microseconds(std::chrono::nanoseconds d)
{
    return fmt::format("{:.0f} us", static_cast<double>(d.count()) / 1000);
}

bool print_result(const settings& s, const result& r, const book& counts, std::uint64_t published,
                  std::uint64_t queued)
{
    const auto& m = r.settled.queues.front().metrics;
    const auto& latency = m.settlement.settlement_latency;
    const auto& hold = m.settlement.hold_time;
    const double handled = static_cast<double>(m.received);
    fmt::print("\n");
    fmt::print("rate                {:.0f} messages/s, {:.1f} us of client CPU each\n",
               handled / r.took, r.cpu * 1e6 / handled);
    fmt::print("outcomes            {} acked, {} dropped, {} retried\n", m.acked, m.dropped,
               m.retried);
    fmt::print("settlement frames   {:.3f} per message ({} frames, {} flushes)\n",
               static_cast<double>(m.settlement.frames) / static_cast<double>(m.settlement.settled),
               m.settlement.frames, m.settlement.flushes);
    fmt::print("settlement latency  p50 {}  p99 {}  p99.9 {}  max {}  (prefetch {}, {} measured)\n",
               microseconds(latency.percentile(50)), microseconds(latency.percentile(99)),
               microseconds(latency.percentile(99.9)), microseconds(latency.max()), s.prefetch,
               latency.count());
    fmt::print("hold time           p50 {}  p99 {}  max {}  (handler's end to bytes handed over)\n",
               microseconds(hold.percentile(50)), microseconds(hold.percentile(99)),
               microseconds(hold.max()));

    const bool adds_up = published == counts.acked() + counts.dropped() + queued;
    fmt::print("check               {} published = {} acked + {} dropped + {} still queued: {}\n",
               published, counts.acked(), counts.dropped(), queued, adds_up ? "ok" : "WRONG");
    fmt::print("                    settled twice: {}, from elsewhere: {}, unknown fate: {}\n",
               counts.twice(), counts.foreign(), r.settled.unknown());
    if (!r.settled.clean())
        fmt::print("{}", r.settled.text());
    return adds_up && counts.twice() == 0 && counts.foreign() == 0 && r.settled.clean();
}

task<bool> first_run(const settings& s)
{
    const std::string queue = fmt::format("acquit-first-run.{}", ::getpid());
    amqp::connection broker(amqp::options_from_uri(s.uri));
    co_return co_await with_scope([&](scope& tasks) -> task<bool> {
        tasks.spawn(broker.run());
        co_await broker.opened();
        fmt::print(stderr, "broker: {} {} at {}\n", broker.session().server_product(),
                   broker.session().server_version(), broker.peer());
        amqp::channel topology(broker);
        co_await topology.open();
        amqp::wire::table arguments;
        arguments.set("x-queue-type", s.quorum ? "quorum" : "classic");
        (void)co_await topology.declare_queue(
            {.queue = queue, .durable = true, .arguments = arguments.view()});

        std::exception_ptr failed;
        bool good = false;
        try {
            const std::uint64_t published = co_await publish_all(broker, s, queue);
            if (published == 0)
                throw error("the broker took no message");
            book counts(s.messages);
            const auto r = co_await consume_all(s, queue, counts, published);
            const auto left = co_await topology.declare_queue({.queue = queue, .passive = true});
            good = print_result(s, r, counts, published, left.message_count);
        } catch (...) {
            failed = std::current_exception();
        }
        if (topology.is_open())
            (void)co_await topology.delete_queue({.queue = queue});
        if (failed)
            std::rethrow_exception(failed);
        co_await broker.close();
        co_return good;
    });
}

} // namespace

int main(int argc, char** argv)
{
    const settings s = parse(argc, argv);
    try {
        runtime::set_log_callback([](const runtime::log_record& record) {
            if (record.level < runtime::log_level::warning)
                return;
            std::string line(record.text);
            for (const auto& field : record.fields)
                line += fmt::format("  {}: {}", field.name, field.value);
            fmt::print(stderr, "\n{}\n", line);
        });
        runtime::loop loop;
        return loop.run(first_run(s)) ? 0 : 1;
    } catch (const std::exception& e) {
        fmt::print(stderr, "\nacquit-first-run: {}\n", e.what());
        return 1;
    }
}
