// A service in a process of its own, for tests that signal or kill it:
//
//     broker_consumer URI QUEUE finish|give_back PREFETCH CONCURRENCY gate|forever
//
// Says "begin N" when a handler begins with message N and "done N" right before it acks. A handler
// waits for a line on stdin (gate), or until it is cancelled (forever).
#include <acquit/acquit.h>
#include <acquit/runtime/event.h>

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <string_view>
#include <thread>

#include <unistd.h>

using namespace acquit;

namespace {

void say(std::string_view what, std::string_view number)
{
    const auto line = fmt::format("{} {}\n", what, number);
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
        std::_Exit(3);
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 7)
        return 2;
    const bool gated = std::string_view(argv[6]) == "gate";
    std::promise<void> opened;
    const auto gate = opened.get_future().share();
    std::thread([&opened] {
        if (std::getchar() != EOF)
            opened.set_value();
    }).detach();
    worker_pool waiting{1};
    runtime::event never;

    service s{argv[1]};
    s.drain(std::string_view(argv[3]) == "give_back" ? drain_policy::give_back
                                                     : drain_policy::finish_received);
    s.consume(existing_queue{argv[2]}.prefetch(static_cast<std::uint32_t>(std::atoi(argv[4]))),
              [&](delivery& d) -> task<outcome> {
                  say("begin", d.text());
                  if (gated)
                      co_await offload(waiting, [&gate] { gate.wait(); });
                  else
                      co_await never.wait();
                  say("done", d.text());
                  co_return ack;
              })
        .concurrency(static_cast<std::uint32_t>(std::atoi(argv[5])));
    const int status = run(s);
    std::fflush(stderr);
    std::_Exit(status); // the reader of stdin is still there
}
