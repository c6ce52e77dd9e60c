// A service that retries and delays in a process of its own, for tests that kill it or its broker:
//
//     broker_worker URI QUEUE classic|quorum none|hold|dlx_ttl|buckets|rolling SEED
//
// What becomes of a message is decided by its number, its attempt and the seed. It says "begin N"
// when a handler begins with message N, "done N" right before it acks, "wait N" right before it asks
// for a delay, and "again N" right before it asks for another try.
#include <acquit/acquit.h>
#include <acquit/runtime/random.h>

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

using namespace acquit;

namespace {

void say(std::string_view what, std::string_view number)
{
    const auto line = fmt::format("{} {}\n", what, number);
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0)
        std::_Exit(3);
}

delay delay_of(std::string_view mode)
{
    if (mode == "hold")
        return delay::hold(20);
    if (mode == "dlx_ttl")
        return delay::dlx_ttl();
    if (mode == "buckets")
        return delay::buckets({50ms, 200ms, 400ms});
    return delay::none();
}

class decider {
public:
    decider(std::uint64_t seed, bool rolling) : seed_(seed), rolling_(rolling) {}

    task<outcome> operator()(delivery& d)
    {
        const std::string number(d.text());
        say("begin", number);
        runtime::random_source random(seed_ ^ (std::strtoull(number.c_str(), nullptr, 10) << 20) ^
                                      d.attempt());
        co_await sleep(std::chrono::microseconds(random.below(rolling_ ? 20'000 : 4'000)));
        const auto roll = rolling_ ? 0 : random.below(100);
        if (roll < 50) {
            say("done", number);
            co_return ack;
        }
        if (roll < 75) {
            say("again", number);
            co_return retry();
        }
        say("wait", number);
        co_return retry_after(std::chrono::milliseconds(random.between(1, 900)));
    }

private:
    std::uint64_t seed_;
    bool rolling_;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc != 6)
        return 2;
    const std::string queue = argv[2];
    const std::string_view mode = argv[4];
    const decider handler(std::strtoull(argv[5], nullptr, 10), mode == "rolling");
    service s{argv[1]};
    s.declare_topology(true).reconnect_backoff(backoff::fixed(100ms));
    const auto steps = [&](auto& made) {
        made.max_attempts(mode == "rolling" ? 4 : 3)
            .dead_letter(queue + ".dead")
            .delay(delay_of(mode))
            .concurrency(mode == "rolling" ? 16 : 8);
    };
    if (std::string_view(argv[3]) == "quorum")
        // By default a quorum queue dead-letters at most once: what it moved to a classic queue right
        // before the broker is killed is lost.
        steps(s.consume(quorum_queue{queue}.prefetch(50).at_least_once_dead_lettering(), handler));
    else
        steps(s.consume(classic_queue{queue}.prefetch(50), handler));
    return run(s);
}
