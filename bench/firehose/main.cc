// The stand-in server as a program: acquit-firehose --help tells what it does.

#include "server.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <span>
#include <variant>

#include <sys/resource.h>
#include <sys/signalfd.h>

using namespace acquit::firehose;

namespace {

int signals()
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
    return ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

void allow_many_descriptors()
{
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool write_json(const std::string& file, const std::string& text)
{
    std::FILE* const to = file == "-" ? stdout : std::fopen(file.c_str(), "w");
    if (to == nullptr)
        return false;
    const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size();
    return (to == stdout ? std::fflush(to) : std::fclose(to)) == 0 && written;
}

void print_summary(const statistics& seen, const settings& how)
{
    const auto sum = summarize(seen, how);
    fmt::print(stderr,
               "{} deliveries in {:.3f} s: {:.0f}/s, {:.3f} us of server CPU each; {:.1f} messages "
               "per settlement frame; {} unsettled, {} settled twice, {} unknown tags\n",
               seen.deliveries, sum.seconds, sum.rate, sum.cpu_us_per_message,
               sum.messages_per_frame, seen.left_unsettled, seen.settled_twice, seen.unknown_tags);
    if (sum.server_was_the_limit)
        fmt::print(stderr,
                   "warning: the server waited for its client {:.1f} % of the time only: the rate "
                   "may be its own limit, not the client's\n",
                   100 * sum.waiting_share);
}

} // namespace

int main(int argc, char** argv)
{
    const std::span arguments(const_cast<const char* const*>(argv), static_cast<std::size_t>(argc));
    const auto parsed = parse_arguments(arguments.subspan(arguments.empty() ? 0 : 1));
    if (const auto* const refused = std::get_if<refusal>(&parsed)) {
        if (refused->text.empty()) {
            fmt::print("{}", usage());
            return 0;
        }
        fmt::print(stderr, "acquit-firehose: {}\n\n{}", refused->text, usage());
        return 2;
    }
    const auto& how = std::get<settings>(parsed);
    try {
        allow_many_descriptors();
        server serving(how);
        serving.stop_on(signals());
        fmt::print("listening on {}\n", serving.address());
        std::fflush(stdout);
        serving.run();
        print_summary(serving.seen(), how);
        if (!how.json.empty() && !write_json(how.json, to_json(serving.seen(), how))) {
            fmt::print(stderr, "acquit-firehose: cannot write {}\n", how.json);
            return 1;
        }
        return 0;
    } catch (const std::exception& e) {
        fmt::print(stderr, "acquit-firehose: {}\n", e.what());
        return 1;
    }
}
