// Puts messages into a queue of a real broker, for a client to take out again; or removes the queue.
//
//     acquit-fill URI QUEUE classic|quorum MESSAGES BODY
//     acquit-fill URI QUEUE delete

#include <acquit/acquit.h>
#include <acquit/amqp/channel.h>
#include <acquit/amqp/uri.h>
#include <acquit/runtime/loop.h>

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace acquit;

namespace {

task<> fill(amqp::channel& c, std::string queue, std::string type, std::uint64_t messages,
            std::size_t size)
{
    amqp::wire::table arguments;
    arguments.set("x-queue-type", std::string_view(type));
    (void)co_await c.declare_queue(
        {.queue = queue, .durable = true, .arguments = arguments.view()});
    co_await c.confirm_select();
    const std::vector<std::byte> body(size, std::byte{'x'});
    for (std::uint64_t i = 0; i < messages; ++i) {
        co_await c.publish({.routing_key = queue,
                            .mandatory = true,
                            .properties = {.delivery_mode = 2},
                            .body = body});
        if (i % 2000 == 1999 && co_await c.wait_for_confirms() != 0)
            throw std::runtime_error("the broker refused a message");
    }
    if (co_await c.wait_for_confirms() != 0)
        throw std::runtime_error("the broker refused a message");
}

task<> work(int argc, char** argv)
{
    amqp::connection broker(amqp::options_from_uri(argv[1]));
    co_await with_scope([&](scope& tasks) -> task<> {
        tasks.spawn(broker.run());
        co_await broker.opened();
        amqp::channel c(broker);
        co_await c.open();
        if (argc == 4)
            (void)co_await c.delete_queue({.queue = argv[2]});
        else
            co_await fill(c, argv[2], argv[3], std::strtoull(argv[4], nullptr, 10),
                          std::strtoull(argv[5], nullptr, 10));
        co_await c.close();
        co_await broker.close();
    });
}

} // namespace

int main(int argc, char** argv)
{
    try {
        if (argc != 6 && !(argc == 4 && std::string_view(argv[3]) == "delete"))
            throw std::runtime_error("URI QUEUE classic|quorum MESSAGES BODY, or URI QUEUE delete");
        runtime::loop events;
        events.run(work(argc, argv));
        return 0;
    } catch (const std::exception& e) {
        fmt::print(stderr, "acquit-fill: {}\n", e.what());
        return 1;
    }
}
