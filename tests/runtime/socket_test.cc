#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timeout.h>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

using two_streams = std::pair<std::unique_ptr<socket_stream>, std::unique_ptr<socket_stream>>;

two_streams connected(loop& owner)
{
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    return {std::make_unique<socket_stream>(owner, fds[0], "left"),
            std::make_unique<socket_stream>(owner, fds[1], "right")};
}

std::span<const std::byte> bytes_of(const std::string& text)
{
    return std::as_bytes(std::span(text));
}

task<std::string> read_all(stream& from)
{
    std::string all;
    std::array<char, 1000> part;
    while (const auto count = co_await from.read_some(std::as_writable_bytes(std::span(part))))
        all.append(part.data(), count);
    co_return all;
}

task<> write_and_finish(stream& to, std::string text)
{
    co_await to.write(bytes_of(text));
    to.shutdown_write();
}

std::string pattern(std::size_t size)
{
    std::string text(size, '\0');
    for (std::size_t index = 0; index < size; ++index)
        text[index] = static_cast<char>(index * 7 + index / 251);
    return text;
}

task<> echo_once(listener& on)
{
    const auto peer = co_await on.accept();
    const std::string heard = co_await read_all(*peer);
    co_await peer->write(bytes_of(heard));
}

std::string temporary_folder()
{
    std::string name = testing::TempDir() + "acquit_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    return name;
}

} // namespace

TEST(socket, echoes_over_tcp)
{
    loop events;
    auto root = [](loop& owner) -> task<std::string> {
        auto incoming = listener::tcp(owner, "127.0.0.1", 0);
        EXPECT_NE(incoming.port(), 0);
        std::string answer;
        scope all;
        all.spawn(echo_once(incoming));
        const auto client = co_await connect_tcp("127.0.0.1", incoming.port());
        EXPECT_EQ(client->peer(), "127.0.0.1:" + std::to_string(incoming.port()));
        co_await write_and_finish(*client, "across the wire");
        answer = co_await read_all(*client);
        co_await all.join();
        co_return answer;
    };
    EXPECT_EQ(events.run(root(events)), "across the wire");
}

TEST(socket, resolves_names_off_the_loop)
{
    loop events;
    auto root = [](loop& owner) -> task<std::string> {
        auto incoming = listener::tcp(owner, "127.0.0.1", 0);
        scope all;
        all.spawn(echo_once(incoming));
        const auto client = co_await connect_tcp("localhost", incoming.port());
        co_await write_and_finish(*client, "by name");
        const auto answer = co_await read_all(*client);
        co_await all.join();
        co_return answer;
    };
    EXPECT_EQ(events.run(root(events)), "by name");
}

TEST(socket, echoes_over_a_unix_socket_and_removes_its_path)
{
    const std::string folder = temporary_folder();
    const std::string path = folder + "/socket";
    loop events;
    auto root = [](loop& owner, std::string where) -> task<std::string> {
        auto incoming = listener::unix_path(owner, where);
        scope all;
        all.spawn(echo_once(incoming));
        const auto client = co_await connect_unix(where);
        EXPECT_EQ(client->peer(), "unix:" + where);
        co_await write_and_finish(*client, "local");
        const auto answer = co_await read_all(*client);
        co_await all.join();
        co_return answer;
    };
    EXPECT_EQ(events.run(root(events, path)), "local");
    EXPECT_NE(::access(path.c_str(), F_OK), 0);
    ::rmdir(folder.c_str());
}

TEST(socket, a_refused_connect_names_host_port_address_and_reason)
{
    loop events;
    auto root = [](loop& owner) -> task<std::uint16_t> {
        auto closed = listener::tcp(owner, "127.0.0.1", 0);
        const auto port = closed.port();
        closed.close();
        try {
            (void)co_await connect_tcp("127.0.0.1", port);
            ADD_FAILURE() << "connected";
        } catch (const io_error& failure) {
            EXPECT_EQ(failure.code(), ECONNREFUSED);
            EXPECT_EQ(std::string(failure.what()),
                      fmt::format("cannot connect to 127.0.0.1:{0} (127.0.0.1:{0}: Connection "
                                  "refused): Connection refused",
                                  port));
        }
        co_return port;
    };
    EXPECT_NE(events.run(root(events)), 0);
}

TEST(socket, a_name_that_does_not_exist_is_named_in_the_error)
{
    loop events;
    auto root = []() -> task<std::string> {
        try {
            (void)co_await connect_tcp("no-such-host.invalid", 5672);
        } catch (const io_error& failure) {
            co_return failure.what();
        }
        co_return "connected";
    };
    const auto text = events.run(root());
    EXPECT_NE(text.find("cannot resolve \"no-such-host.invalid\""), std::string::npos) << text;
}

TEST(socket, a_missing_unix_path_is_named_in_the_error)
{
    loop events;
    auto root = []() -> task<std::string> {
        try {
            (void)co_await connect_unix("/nowhere/at/all");
        } catch (const io_error& failure) {
            co_return failure.what();
        }
        co_return "connected";
    };
    EXPECT_EQ(events.run(root()),
              "cannot connect to unix:/nowhere/at/all: No such file or directory");
}

TEST(socket, a_connect_that_nobody_answers_ends_at_the_deadline_of_its_attempt)
{
    loop events;
    auto root = [](loop& owner) -> task<std::string> {
        // A listener with a full backlog answers nothing any more.
        auto silent = listener::tcp(owner, "127.0.0.1", 0);
        EXPECT_EQ(::listen(silent.fd(), 0), 0);
        std::vector<std::unique_ptr<stream>> fill;
        for (int count = 0; count < 64; ++count) {
            try {
                fill.push_back(
                    co_await connect_tcp("127.0.0.1", silent.port(), {.attempt_timeout = 20ms}));
            } catch (const io_error& failure) {
                EXPECT_EQ(failure.code(), ETIMEDOUT);
                co_return failure.what();
            }
        }
        co_return "";
    };
    EXPECT_NE(events.run(root(events)).find("not done within 20 ms"), std::string::npos);
}

TEST(stream, writes_more_than_the_socket_holds_and_gathers_parts_in_order)
{
    loop events;
    auto [left, right] = connected(events);
    auto root = [](stream& from, stream& to) -> task<> {
        const std::string big = pattern(3'000'000);
        // Many parts, empty ones and more than one call may take among them.
        std::vector<iovec> parts;
        for (std::size_t at = 0; at < big.size();) {
            const std::size_t size = std::min<std::size_t>(big.size() - at, (at / 1000) % 1900);
            parts.push_back({const_cast<char*>(big.data()) + at, size});
            at += size;
            if (size == 0)
                parts.push_back({const_cast<char*>(big.data()) + at++, 1});
        }
        EXPECT_GT(parts.size(), 1024u);
        scope all;
        all.spawn([](stream& out, std::span<const iovec> what) -> task<> {
            co_await out.write(what);
            out.shutdown_write();
        }(from, parts));
        const std::string got = co_await read_all(to);
        EXPECT_TRUE(got == big) << got.size();
        co_await all.join();
    };
    events.run(root(*left, *right));
}

TEST(stream, cancelling_a_read_waits_for_the_kernel_and_leaves_the_stream_usable)
{
    loop events;
    auto [left, right] = connected(events);
    auto root = [](stream& from, stream& to) -> task<> {
        for (int round = 0; round < 20; ++round) {
            std::array<std::byte, 8> memory{};
            bool cancelled = false;
            scope reading;
            reading.spawn([](stream& in, std::span<std::byte> into, bool& ended) -> task<> {
                try {
                    (void)co_await in.read_some(into);
                } catch (const operation_cancelled&) {
                    ended = true;
                    throw;
                }
            }(to, memory, cancelled));
            if (round % 2 == 0)
                co_await sleep(duration(1)); // one turn: the read has reached the kernel
            reading.cancel();
            co_await reading.join();
            EXPECT_TRUE(cancelled);
        }
        std::array<std::byte, 8> memory{};
        co_await from.write(bytes_of("still"));
        EXPECT_EQ(co_await to.read_some(memory), 5u);
    };
    events.run(root(*left, *right));
}

TEST(stream, a_read_that_has_bytes_when_it_is_cancelled_gives_them)
{
    loop events;
    auto [left, right] = connected(events);
    auto root = [](stream& from, stream& to) -> task<std::size_t> {
        std::array<std::byte, 8> memory{};
        std::size_t got = 0;
        std::string written;
        for (int round = 0; round < 50; ++round) {
            scope reading;
            reading.spawn([](stream& in, std::span<std::byte> into, std::size_t& count) -> task<> {
                count += co_await in.read_some(into);
            }(to, memory, got));
            co_await sleep(duration(1));
            co_await from.write(bytes_of("x"));
            reading.cancel();
            co_await reading.join();
        }
        from.shutdown_write();
        got += (co_await read_all(to)).size();
        co_return got;
    };
    EXPECT_EQ(events.run(root(*left, *right)), 50u) << "bytes are read once or still there";
}

TEST(stream, cancelling_a_write_that_nobody_reads)
{
    loop events;
    auto [left, right] = connected(events);
    auto root = [](stream& to) -> task<bool> {
        try {
            co_await with_timeout(5ms, [](stream& out) -> task<> {
                const std::string big = pattern(10'000'000);
                co_await out.write(bytes_of(big));
            }(to));
        } catch (const timed_out&) {
            co_return true;
        }
        co_return false;
    };
    EXPECT_TRUE(events.run(root(*left)));
}

TEST(stream, closing_it_ends_operations_in_flight_with_an_error)
{
    loop events;
    auto [left, right] = connected(events);
    auto root = [](stream& closed) -> task<std::string> {
        std::string text;
        scope all;
        all.spawn([](stream& in, std::string& into) -> task<> {
            std::array<std::byte, 8> memory{};
            try {
                (void)co_await in.read_some(memory);
                into = "bytes";
            } catch (const io_error& failure) {
                EXPECT_EQ(failure.code(), ECONNABORTED);
                into = failure.what();
            }
        }(closed, text));
        co_await sleep(duration(1));
        closed.close();
        closed.close();
        co_await all.join();
        bool later = false;
        try {
            co_await closed.write(bytes_of("x"));
        } catch (const io_error& failure) {
            later = failure.code() == ECONNABORTED;
        }
        EXPECT_TRUE(later);
        co_return text;
    };
    EXPECT_EQ(events.run(root(*left)), "reading from left: Software caused connection abort");
}

TEST(stream, writing_to_a_peer_that_is_gone_is_an_error_and_no_signal)
{
    loop events;
    auto [left, right] = connected(events);
    right.reset();
    auto root = [](stream& to) -> task<int> {
        try {
            co_await to.write(bytes_of("x"));
        } catch (const io_error& failure) {
            co_return failure.code();
        }
        co_return 0;
    };
    EXPECT_EQ(events.run(root(*left)), EPIPE);
}

TEST(stream, operations_without_a_coroutine_call_back_from_the_ready_queue)
{
    loop events;
    auto [left, right] = connected(events);
    struct reader final : read_op {
        reader(stream& from, std::span<std::byte> into, event& done)
            : read_op(from, into), end(done)
        {
        }
        void on_ready() noexcept override
        {
            if (result() > 0) {
                total += result();
                begin();
            } else {
                end.set();
            }
        }
        event& end;
        int total = 0;
    };
    struct writer final : write_op {
        writer(stream& to, std::string text) : write_op(to), bytes(std::move(text)), out(to) {}
        void start() { begin(bytes_of(bytes)); }
        void on_ready() noexcept override
        {
            EXPECT_EQ(result(), 0);
            if (++rounds < 10)
                begin(bytes_of(bytes));
            else
                out.shutdown_write();
        }
        std::string bytes;
        stream& out;
        int rounds = 0;
    };
    std::array<std::byte, 100> memory{};
    event ended;
    reader in(*right, memory, ended);
    writer out(*left, "0123456789");
    in.begin();
    out.start();
    auto root = [](event& awaited) -> task<> { co_await awaited.wait(); };
    events.run(root(ended));
    EXPECT_EQ(in.total, 100);
}

TEST(listener, an_accept_can_be_cancelled)
{
    loop events;
    auto root = [](loop& owner) -> task<bool> {
        auto incoming = listener::tcp(owner, "127.0.0.1", 0);
        try {
            co_await with_timeout(
                2ms, [](listener& on) -> task<> { (void)co_await on.accept(); }(incoming));
        } catch (const timed_out&) {
            co_return true;
        }
        co_return false;
    };
    EXPECT_TRUE(events.run(root(events)));
}

TEST(listener, says_what_it_could_not_bind)
{
    loop events;
    auto taken = listener::tcp(events, "127.0.0.1", 0);
    try {
        auto again = listener::tcp(events, "127.0.0.1", taken.port());
        FAIL() << "bound twice";
    } catch (const io_error& failure) {
        EXPECT_EQ(failure.code(), EADDRINUSE);
        EXPECT_NE(std::string(failure.what()).find(std::to_string(taken.port())),
                  std::string::npos);
    }
    EXPECT_THROW(listener::tcp(events, "localhost", 0), io_error);
}

TEST(stream_misuse, destroying_a_stream_with_a_read_in_flight_ends_the_program)
{
    auto in_flight = [] {
        loop events;
        auto both = connected(events);
        auto root = [](two_streams& streams) -> task<> {
            scope all;
            all.spawn([](stream& in) -> task<> {
                std::array<std::byte, 8> memory{};
                (void)co_await in.read_some(memory);
            }(*streams.first));
            co_await sleep(duration(1));
            streams.first.reset();
        };
        events.run(root(both));
    };
    EXPECT_DEATH(in_flight(), "destroyed with an operation in flight");
}
