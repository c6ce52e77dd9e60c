// acquit-bench: puts load on a broker and measures, or watches other clients do so.

#include "load.h"
#include "options.h"
#include "proxy.h"
#include "text.h"
#include "writers.h"

#include <acquit/amqp/connection_options.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace acquit;
using namespace acquit::bench;

namespace {

void log_to_stderr(const runtime::log_record& record)
{
    if (record.level < runtime::log_level::warning)
        return;
    std::string line(record.text);
    for (const auto& field : record.fields)
        line += fmt::format("  {}: {}", field.name, field.value);
    fmt::print(stderr, "{}\n", line);
}

void say(const std::string& line)
{
    fmt::print("{}\n", line);
    std::fflush(stdout); // somebody watches, maybe through a pipe
}

int run(const options& o, const std::string& command)
{
    if (!o.proxy)
        (void)amqp::options_from_uri(o.uri); // a bad address is told of before anything is opened
    writers out(o, command);
    runtime::loop events;
    result about;
    const watcher seen{.begins =
                           [&](const result& first) {
                               about = first;
                               out.begins(first);
                               say(fmt::format("id: {}, {}{}", first.id,
                                               first.proxy ? "" : "broker: ", first.broker));
                           },
                       .ticks =
                           [&](const sample& s, const std::string& progress) {
                               out.ticks(s);
                               say(line_of(about, s, progress, o.settlement_latency));
                           }};
    const result done = events.run(o.proxy ? run_proxy(o, seen) : run_load(o, seen));
    fmt::print("{}", summary_of(done));
    out.ends(done);
    return done.verified ? 0 : 1;
}

} // namespace

int main(int argc, char** argv)
{
    const std::vector<std::string_view> arguments(argv + 1, argv + argc);
    parsed told = parse(arguments);
    if (told.wants_help) {
        fmt::print("{}", usage());
        return 0;
    }
    if (told.wants_version) {
        fmt::print("acquit-bench {}\n", version_text());
        return 0;
    }
    if (!told.error.empty()) {
        fmt::print(stderr, "acquit-bench: {}\nacquit-bench --help tells what there is.\n",
                   told.error);
        return 2;
    }
    if (told.values.id.empty())
        told.values.id = fmt::format("bench-{}", ::getpid());
    try {
        runtime::set_log_callback(log_to_stderr);
        return run(told.values, command_line(arguments));
    } catch (const std::exception& e) {
        std::fflush(stdout);
        fmt::print(stderr, "acquit-bench: {}\n", e.what());
        return 1;
    }
}
