#include "broker.h"

#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace acquit::tests {

namespace {

std::string environment(const char* name)
{
    const char* value = std::getenv(name);
    if (value == nullptr)
        throw std::runtime_error(
            std::string(name) +
            " is not set: run this by tests/broker/with VERSION -- test_broker");
    return value;
}

} // namespace

const std::string& broker_uri()
{
    static const std::string uri = environment("ACQUIT_BROKER_URI");
    return uri;
}

amqp::connection_options broker_options()
{
    return amqp::options_from_uri(broker_uri());
}

amqp::connection_options service_options()
{
    return broker_options();
}

std::string broker_ctl(const std::string& arguments)
{
    const std::string command = environment("ACQUIT_BROKER_NODE") + " ctl " +
                                environment("ACQUIT_BROKER_DIR") + " " + arguments + " 2>/dev/null";
    std::FILE* const pipe = popen(command.c_str(), "r");
    require(pipe != nullptr, command);
    std::string said;
    std::array<char, 4096> part{};
    while (const std::size_t n = std::fread(part.data(), 1, part.size(), pipe))
        said.append(part.data(), n);
    require(pclose(pipe) == 0, command + " failed");
    return said;
}

void require(bool holds, std::string_view what)
{
    if (!holds)
        throw std::runtime_error(std::string(what));
}

place::~place()
{
    if (names_.empty())
        return;
    try {
        run([this](amqp::connection&, amqp::channel& ch) -> task<> {
            for (const auto& name : names_) {
                (void)co_await ch.delete_queue({.queue = name});
                co_await ch.delete_exchange({.exchange = name});
            }
        });
    } catch (const std::exception& e) {
        ADD_FAILURE() << "cannot remove what the test left behind: " << e.what();
    }
}

std::string place::name(std::string_view suffix)
{
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    names_.push_back(std::string(test->test_suite_name()) + "." + test->name() + "." +
                     std::to_string(getpid()) + "." + std::to_string(names_.size()) +
                     std::string(suffix));
    return names_.back();
}

amqp::wire::table arguments_of_kind(kind k)
{
    amqp::wire::table arguments;
    arguments.set("x-queue-type", k == kind::quorum ? "quorum" : "classic");
    return arguments;
}

task<> make_queue(amqp::channel& ch, std::string_view queue, kind k, amqp::wire::table more)
{
    more.set("x-queue-type", k == kind::quorum ? "quorum" : "classic");
    (void)co_await ch.declare_queue({.queue = queue, .durable = true, .arguments = more.view()});
}

task<> publish(amqp::connection& c, std::string_view queue, std::size_t n, std::size_t first)
{
    amqp::channel ch(c);
    co_await ch.open();
    co_await ch.confirm_select();
    for (std::size_t i = first; i < first + n; ++i) {
        const std::string body = std::to_string(i);
        co_await ch.publish({.routing_key = queue,
                             .mandatory = true,
                             .properties = {.delivery_mode = std::uint8_t{2}},
                             .body = amqp::bytes_of(body)});
    }
    require(co_await ch.wait_for_confirms() == 0, "the broker did not take all messages");
    co_await ch.close();
}

task<amqp::queue_declared> count(amqp::channel& ch, std::string_view queue)
{
    co_return co_await ch.declare_queue({.queue = queue, .passive = true});
}

task<bool> queue_exists(amqp::connection& c, std::string_view queue)
{
    amqp::channel ch(c);
    co_await ch.open();
    try {
        (void)co_await count(ch, queue);
    } catch (const channel_error& missing) {
        require(missing.code() == 404, missing.what());
        co_return false;
    }
    co_await ch.close();
    co_return true;
}

task<> until_ready(amqp::channel& ch, std::string_view queue, std::size_t messages)
{
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {
        const auto now = co_await count(ch, queue);
        if (now.message_count == messages)
            co_return;
        require(std::chrono::steady_clock::now() < deadline,
                std::string(queue) + " has " + std::to_string(now.message_count) +
                    " ready messages, not " + std::to_string(messages));
    }
}

task<> until_unconsumed(amqp::channel& ch, std::string_view queue)
{
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while ((co_await count(ch, queue)).consumer_count != 0)
        require(std::chrono::steady_clock::now() < deadline,
                std::string(queue) + " is still consumed");
}

task<std::vector<amqp::received>> take_all(amqp::channel& ch, std::string_view queue)
{
    std::vector<amqp::received> taken;
    while (auto m = co_await ch.get(queue, true))
        taken.push_back(std::move(*m));
    co_return taken;
}

std::optional<std::int64_t> header_of(const amqp::received& m, std::string_view name)
{
    const auto headers = m.properties().headers;
    if (!headers)
        return std::nullopt;
    const auto value = headers->find(name);
    return value ? value->as_int64() : std::nullopt;
}

std::optional<std::int64_t> header_of(const message& m, std::string_view name)
{
    const auto value = m.header(name);
    return value ? value->as_int64() : std::nullopt;
}

std::size_t number_in(std::string_view body)
{
    std::size_t n = 0;
    const auto end = body.data() + body.size();
    require(std::from_chars(body.data(), end, n).ptr == end && !body.empty(),
            "a body that is no number");
    return n;
}

task<> until_draining(amqp::channel& ch, service& s)
{
    co_await until(ch, "the drain", [&s] {
        for (std::size_t i = 0; i < s.size(); ++i) {
            if (s[i].state() != settle::health::draining)
                return false;
        }
        return true;
    });
    co_await ch.barrier();
}

void expect_adds_up(const report& r)
{
    for (const auto& line : r.queues) {
        const auto& m = line.metrics;
        EXPECT_EQ(m.received, m.acked + m.dropped + m.retried + m.retries.hops + m.given_back +
                                  m.dropped_unhandled + m.abandoned)
            << r.text();
        EXPECT_EQ(m.in_handler, 0U);
        EXPECT_EQ(m.waiting, 0U);
    }
}

} // namespace acquit::tests
