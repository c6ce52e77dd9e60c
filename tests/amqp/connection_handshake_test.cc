#include "../peer/host.h"

#include <acquit/runtime/socket.h>

#include <gtest/gtest.h>

// How a connection comes up, and all the ways in which it does not.
namespace acquit::testing {
namespace {

using amqp::connection;
using amqp::connection_error;

TEST(connection, opens_with_what_both_sides_agree_on)
{
    host_options o;
    o.server.frame_size_max = 65536;
    o.server.channel_max = 100;
    o.server.heartbeat_s = 7;
    virtually(
        [](host& there) -> task<> {
            const auto ended = co_await connected(there, [](connection& c, peer& p) -> task<> {
                EXPECT_TRUE(c.is_open());
                EXPECT_EQ(c.session().tuned().frame_size_max, 65536U);
                EXPECT_EQ(c.session().tuned().channel_max, 100U);
                EXPECT_EQ(c.session().tuned().heartbeat_s, 7U);
                EXPECT_EQ(p.session().user(), "guest");
                EXPECT_EQ(p.session().vhost(), "/");
                co_return;
            });
            EXPECT_FALSE(ended) << text_of(ended);
            co_await there.latest().gone();
            EXPECT_EQ(there.latest().count<wire::connection::close>(), 1U);
        },
        o);
}

// c20, c89
TEST(connection, gives_up_on_a_peer_that_accepts_and_never_speaks)
{
    virtually([](host& there) -> task<> {
        there.be_silent();
        auto options = there.client();
        options.connect_timeout = 3s;
        connection c(options);
        const auto began = runtime::loop::current().now();
        const auto ended = as<connection_error>(co_await failure_of(c.run()));
        EXPECT_TRUE(ended);
        if (!ended)
            co_return;
        EXPECT_EQ(ended->code(), 0);
        EXPECT_NE(std::string(ended->what()).find("within 3000 ms"), std::string::npos)
            << ended->what();
        EXPECT_EQ(runtime::loop::current().now() - began, 3s);
        EXPECT_TRUE(c.is_over());
    });
}

// c89: one deadline covers everything until the connection is open.
TEST(connection, has_one_deadline_for_connecting_and_handshake_together)
{
    virtually([](host& there) -> task<> {
        there.be_silent();
        auto options = there.client();
        options.connect_timeout = 10s;
        options.connector = [slow = options.connector]() -> task<std::unique_ptr<runtime::stream>> {
            co_await runtime::sleep(6s);
            co_return co_await slow();
        };
        connection c(options);
        const auto began = runtime::loop::current().now();
        EXPECT_TRUE(as<connection_error>(co_await failure_of(c.run())));
        EXPECT_EQ(runtime::loop::current().now() - began, 10s);
    });
}

TEST(connection, says_that_connecting_took_too_long)
{
    virtually([](host& there) -> task<> {
        auto options = there.client();
        options.connect_timeout = 2s;
        options.connector = []() -> task<std::unique_ptr<runtime::stream>> {
            co_await runtime::sleep(1h);
            co_return nullptr;
        };
        connection c(options);
        const auto began = runtime::loop::current().now();
        EXPECT_TRUE(as<connection_error>(co_await failure_of(c.run())));
        EXPECT_EQ(runtime::loop::current().now() - began, 2s);
    });
}

TEST(connection, reports_a_refused_connect_as_such)
{
    virtually([](host& there) -> task<> {
        there.refuse(1);
        connection c(there.client());
        const auto ended = as<connection_error>(co_await failure_of(c.run()));
        EXPECT_TRUE(ended);
        if (ended) {
            EXPECT_EQ(ended->code(), 0);
        }
    });
}

// C2
TEST(connection, says_403_for_a_refused_login)
{
    virtually([](host& there) -> task<> {
        auto options = there.client();
        options.session.password = "wrong";
        connection c(options);
        const auto ended = as<connection_error>(co_await failure_of(c.run()));
        EXPECT_TRUE(ended);
        if (!ended)
            co_return;
        EXPECT_EQ(ended->code(), 403);
        EXPECT_NE(ended->text().find("ACCESS_REFUSED"), std::string::npos) << ended->text();
        EXPECT_EQ(std::string(ended->what()).find("wrong"), std::string::npos)
            << "the password shows";
    });
}

TEST(connection, names_the_vhost_that_does_not_exist)
{
    virtually([](host& there) -> task<> {
        auto options = there.client();
        options.session.vhost = "nowhere";
        connection c(options);
        const auto ended = as<connection_error>(co_await failure_of(c.run()));
        EXPECT_TRUE(ended);
        if (!ended)
            co_return;
        EXPECT_EQ(ended->code(), 530);
        EXPECT_NE(ended->text().find("nowhere"), std::string::npos) << ended->text();
    });
}

TEST(connection, explains_a_silent_close_during_the_handshake)
{
    virtually([](host& there) -> task<> {
        there.be_silent();
        connection c(there.client());
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn([](host& h) -> task<> {
                co_await h.connected(1);
                co_await runtime::sleep(1s);
                h.latest().hang_up();
            }(there));
            const auto ended = as<connection_error>(co_await failure_of(c.run()));
            EXPECT_TRUE(ended);
            if (ended) {
                EXPECT_NE(std::string(ended->what()).find("during the AMQP handshake"),
                          std::string::npos)
                    << ended->what();
            }
        });
    });
}

// The handshake may arrive in any pieces, and with any order of what is ready.
TEST(connection, opens_however_the_bytes_arrive)
{
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(seed);
        host_options o;
        o.stream.chunk_seed = seed;
        o.stream.capacity = 1 + seed * 7;
        o.shuffle_seed = seed;
        virtually(
            [](host& there) -> task<> {
                const auto ended = co_await connected(there, [](connection& c, peer&) -> task<> {
                    amqp::channel ch(c);
                    co_await ch.open();
                    co_await ch.close();
                });
                EXPECT_FALSE(ended) << text_of(ended);
            },
            o);
    }
}

TEST(connection, can_be_closed_at_every_moment_of_the_handshake)
{
    // One byte per microsecond: the close falls behind every byte of the handshake once.
    int closed_early = 0;
    for (int after = 0; after < 1400; after += 7) {
        SCOPED_TRACE(after);
        host_options o;
        o.stream.capacity = 1;
        o.stream.delay = 1us;
        virtually(
            [after, &closed_early](host& there) -> task<> {
                connection c(there.client());
                co_await runtime::with_scope([&](scope& s) -> task<> {
                    std::exception_ptr ended;
                    s.spawn([](connection& each, std::exception_ptr& why) -> task<> {
                        why = co_await failure_of(each.run());
                    }(c, ended));
                    co_await runtime::sleep(std::chrono::microseconds(after));
                    const bool early = !c.is_open();
                    co_await c.close();
                    EXPECT_TRUE(c.is_over());
                    co_await settle_down();
                    EXPECT_EQ(early, ended != nullptr) << text_of(ended);
                    closed_early += early ? 1 : 0;
                });
            },
            o);
    }
    EXPECT_GT(closed_early, 50);
    EXPECT_LT(closed_early, 200) << "the range no longer reaches an open connection";
}

TEST(connection, ends_with_an_error_at_every_cut_of_the_handshake)
{
    // What the peer sends breaks off after every byte; the client never hangs and says why.
    bool opened = false;
    for (std::size_t bytes = 1; !opened && bytes < 3000; bytes += 3) {
        SCOPED_TRACE(bytes);
        virtually([bytes, &opened](host& there) -> task<> {
            auto options = there.client();
            options.connector = [bytes, inner = options.connector,
                                 &there]() -> task<std::unique_ptr<runtime::stream>> {
                auto stream = co_await inner();
                there.latest().cut_after(bytes);
                co_return stream;
            };
            connection c(options);
            co_await runtime::with_scope([&](scope& s) -> task<> {
                std::exception_ptr ended;
                s.spawn([](connection& each, std::exception_ptr& why) -> task<> {
                    why = co_await failure_of(each.run());
                }(c, ended));
                const auto failed = co_await failure_of(c.opened());
                opened = !failed;
                if (failed) {
                    EXPECT_TRUE(as<connection_error>(failed)) << text_of(failed);
                }
                co_await c.close();
                co_await settle_down();
                EXPECT_TRUE(!failed || ended);
            });
        });
    }
    EXPECT_TRUE(opened);
}

TEST(connection, may_be_cancelled_while_it_runs)
{
    virtually([](host& there) -> task<> {
        connection c(there.client());
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(c.run());
            co_await c.opened();
            s.cancel();
        });
        EXPECT_TRUE(c.is_over());
    });
}

// The same over a socket and the kernel.
TEST(connection, opens_and_closes_over_tcp)
{
    runtime::loop events;
    events.run([](runtime::loop& owner) -> task<> {
        auto incoming = runtime::listener::tcp(owner, "127.0.0.1", 0);
        amqp::host_port where;
        where.host = "127.0.0.1";
        where.port = incoming.port();
        amqp::connection_options options;
        options.hosts.assign(1, where);
        connection c(options);
        std::unique_ptr<peer> there;
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(c.run());
            auto accepted = co_await incoming.accept();
            there = std::make_unique<peer>(std::move(accepted), amqp::server_options{});
            s.spawn(there->serve());
            co_await c.opened();
            amqp::channel ch(c);
            co_await ch.open();
            ch.ack(1);
            co_await ch.close();
            co_await c.close();
            co_await there->gone();
            EXPECT_EQ(there->count<wire::basic::ack>(), 1U);
            EXPECT_EQ(there->count<wire::connection::close>(), 1U);
        });
    }(events));
}

TEST(connection_death, is_an_assertion_when_destroyed_while_it_runs)
{
    EXPECT_DEATH(virtually([](host& there) -> task<> {
                     auto c = std::make_unique<connection>(there.client());
                     co_await runtime::with_scope([&](scope& s) -> task<> {
                         s.spawn(c->run());
                         co_await c->opened();
                         c.reset();
                     });
                 }),
                 "destroyed while run\\(\\) is active");
}

} // namespace
} // namespace acquit::testing
