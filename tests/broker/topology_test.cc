// Rows Q4, R4a, R5, D4 to D7 and D9 below the service: what is declared for limits and delays, what is
// checked, and what a refusal says.
#include "broker.h"

#include <acquit/runtime/log.h>
#include <acquit/settle/delay_topology.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/topology.h>

#include <gtest/gtest.h>

#include <mutex>

#include <unistd.h>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;
using settle::check_delay;
using settle::declare_delay;
using settle::declare_queue;
using settle::queue_kind;
using settle::retry_limit;

namespace {

using steady = std::chrono::steady_clock;

void expect_says(const std::string& text, const std::vector<std::string>& parts)
{
    for (const auto& part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

/// What a start_error says; other errors are no answer.
task<std::string> refusal_of(task<> what)
{
    try {
        co_await std::move(what);
    } catch (const settle::start_error& refused) {
        co_return refused.what();
    }
    co_return "(it was done)";
}
task<std::string> refusal_of(task<std::string> what)
{
    try {
        (void)co_await std::move(what);
    } catch (const settle::start_error& refused) {
        co_return refused.what();
    }
    co_return "(it was done)";
}

/// Keeps the warnings that are logged meanwhile.
class warnings {
public:
    warnings()
    {
        runtime::set_log_callback([this](const runtime::log_record& r) {
            const std::lock_guard lock(mutex_);
            if (r.level == runtime::log_level::warning)
                texts_.emplace_back(r.text);
        });
    }
    ~warnings() { runtime::set_log_callback({}); }
    warnings(const warnings&) = delete;
    warnings& operator=(const warnings&) = delete;

    [[nodiscard]] std::vector<std::string> about(std::string_view name)
    {
        const std::lock_guard lock(mutex_);
        std::vector<std::string> found;
        for (const auto& text : texts_) {
            if (text.find(name) != std::string::npos)
                found.push_back(text);
        }
        return found;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> texts_;
};

/// A name that leaves room in the broker's words, which end after 255 bytes.
std::string brief(std::string_view suffix)
{
    static int made = 0;
    return "topology." + std::to_string(getpid()) + "." + std::to_string(++made) +
           std::string(suffix);
}

/// The broker's own list: type, flags and arguments of a queue.
std::string listed(const std::string& queue)
{
    const auto all = broker_ctl("-q list_queues name type durable exclusive arguments");
    for (std::size_t at = 0; at < all.size();) {
        const auto end = std::min(all.find('\n', at), all.size());
        if (all.compare(at, queue.size() + 1, queue + "\t") == 0)
            return all.substr(at, end - at);
        at = end + 1;
    }
    return {};
}

task<amqp::received> next_of(amqp::channel& ch, std::string_view queue)
{
    const auto deadline = steady::now() + std::chrono::seconds(30);
    for (;;) {
        if (auto m = co_await ch.get(queue, true))
            co_return std::move(*m);
        require(steady::now() < deadline, std::string(queue) + " stayed empty");
    }
}

/// As a copy is sent to its waiting queue, and how long until it is back.
task<std::chrono::nanoseconds> through(amqp::channel& ch, const std::string& waiting,
                                       const std::string& back, const char* expiration)
{
    const auto sent = steady::now();
    amqp::outgoing copy{.routing_key = waiting, .mandatory = true};
    copy.properties.delivery_mode = 2;
    if (expiration != nullptr)
        copy.properties.expiration = expiration;
    copy.body = amqp::bytes_of(waiting);
    co_await ch.publish_confirmed(copy);
    const auto m = co_await next_of(ch, back);
    require(m.body_text() == waiting, "another message came back");
    require(m.exchange.empty() && m.routing_key == back, "not by the default exchange");
    co_return steady::now() - sent;
}

task<> remove(amqp::channel& ch, std::string queue)
{
    (void)co_await ch.delete_queue({.queue = queue});
}

task<bool> exchange_exists(amqp::connection& c, std::string exchange)
{
    amqp::channel spare(c);
    co_await spare.open();
    try {
        co_await spare.declare_exchange({.exchange = exchange, .type = "direct", .passive = true});
    } catch (const channel_error& missing) {
        require(missing.code() == 404, missing.what());
        co_return false;
    }
    co_await spare.close();
    co_return true;
}

} // namespace

// -- D4, D5: waiting queues

TEST(D4_waiting_queue, of_each_origin_and_type_leads_back_to_its_queue)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await ch.confirm_select();
        const std::vector<delay> ways{delay::dlx_ttl(),
                                      delay::dlx_ttl().waiting_in(queue_kind::classic),
                                      delay::dlx_ttl().waiting_in(queue_kind::quorum)};
        for (const auto& way : ways) {
            const auto classic = here.name(".c");
            const auto quorum = here.name(".q");
            const auto named = here.name(".n");
            co_await make_queue(ch, named, kind::classic);
            std::vector<settle::queue_description> origins{
                classic_queue{classic}, quorum_queue{quorum}, existing_queue{named}};
            for (const auto& origin : origins) {
                const auto name = co_await declare_queue(c, origin, {});
                co_await declare_delay(c, origin, name, way);
                co_await declare_delay(c, origin, name, way); // a restart: no conflict
                const auto waited = co_await through(ch, name + ".retry", name, "50");
                EXPECT_GE(waited, 50ms) << name;
                co_await check_delay(c, origin, name, way);
                co_await remove(ch, name + ".retry");
            }
        }
    });
}

TEST(D4_waiting_queue, is_a_quorum_queue_that_confirms_what_it_hands_back)
{
    place here;
    const auto queue = here.name();
    const auto waiting = here.name(".later");
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        const settle::queue_description origin = classic_queue{queue};
        (void)co_await declare_queue(c, origin, {});
        co_await declare_delay(c, origin, queue, delay::dlx_ttl(waiting));
        const auto line = listed(waiting);
        expect_says(line, {"quorum", "x-dead-letter-strategy", "at-least-once", "x-overflow",
                           "reject-publish", "x-dead-letter-exchange", "x-dead-letter-routing-key",
                           queue});
        EXPECT_EQ(line.find("x-expires"), std::string::npos) << line;
        EXPECT_EQ(line.find("x-message-ttl"), std::string::npos) << line;
    });
}

TEST(D5_buckets, each_step_leads_back_after_its_time)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await ch.confirm_select();
        const settle::queue_description origin = quorum_queue{queue};
        (void)co_await declare_queue(c, origin, {});
        const auto way = delay::hold(3).overflow_to(delay::buckets({20ms, 70ms}));
        co_await declare_delay(c, origin, queue, way);
        co_await check_delay(c, origin, queue, way);
        const auto shorter = co_await through(ch, queue + ".retry.20", queue, nullptr);
        EXPECT_GE(shorter, 20ms);
        const auto longer = co_await through(ch, queue + ".retry.70", queue, nullptr);
        EXPECT_GE(longer, 70ms);
        expect_says(listed(queue + ".retry.70"), {"quorum", "x-message-ttl", "70"});
        co_await remove(ch, queue + ".retry.20");
        co_await remove(ch, queue + ".retry.70");
    });
}

TEST(D4_waiting_queue, of_a_queue_that_the_server_named_goes_with_the_connection)
{
    place here;
    here.run([&](amqp::connection&, amqp::channel& ch) -> task<> {
        co_await ch.confirm_select();
        std::string waiting;
        amqp::connection other(broker_options());
        co_await with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(other.run());
            co_await other.opened();
            amqp::channel theirs(other);
            co_await theirs.open();
            const settle::queue_description origin = classic_queue{""}.exclusive();
            const auto name = co_await declare_queue(other, origin, {});
            co_await declare_delay(other, origin, name, delay::dlx_ttl());
            waiting = delay::dlx_ttl().target(name);
            expect_says(listed(waiting), {"classic", waiting});
            // Copies are published on another connection than the consumer's.
            co_await ch.publish_confirmed({.routing_key = waiting,
                                           .mandatory = true,
                                           .properties = {.expiration = "1"},
                                           .body = amqp::bytes_of("back")});
            const auto back = co_await next_of(theirs, name);
            EXPECT_EQ(back.body_text(), "back");
            co_await other.close();
        });
        co_await until(ch, "the end of the exclusive queues",
                       [&] { return listed(waiting).empty(); });
    });
}

// -- D9: what is missing

TEST(D9_check, a_missing_waiting_queue_is_named_with_what_to_do_and_is_not_made)
{
    place here;
    const auto queue = here.name();
    const auto waiting = here.name(".later");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        const settle::queue_description origin = existing_queue{queue};
        const auto said =
            co_await refusal_of(check_delay(c, origin, queue, delay::dlx_ttl(waiting)));
        expect_says(said, {waiting, queue, "delay::dlx_ttl", "404", "declare_topology(true)",
                           "x-dead-letter-routing-key"});
        const bool made = co_await queue_exists(c, waiting);
        EXPECT_FALSE(made);
        co_await make_queue(ch, waiting, kind::classic); // made by whomever
        co_await check_delay(c, origin, queue, delay::dlx_ttl(waiting));
    });
}

TEST(D9_check, each_bucket_is_looked_for)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        co_await make_queue(ch, queue + ".retry.1000", kind::classic);
        co_await make_queue(ch, queue + ".retry.3000", kind::classic);
        const settle::queue_description origin = existing_queue{queue};
        const auto way = delay::hold(5).overflow_to(delay::buckets({1s, 2s, 3s}));
        const auto said = co_await refusal_of(check_delay(c, origin, queue, way));
        expect_says(said, {queue + ".retry.2000", "delay::buckets", "x-message-ttl=l:2000"});
        co_await remove(ch, queue + ".retry.1000");
        co_await remove(ch, queue + ".retry.3000");
    });
}

TEST(D9_check, modes_without_a_target_need_none)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        for (const auto& way : {delay::none(), delay::hold(3)}) {
            co_await check_delay(c, quorum_queue{queue}, queue, way);
            co_await declare_delay(c, quorum_queue{queue}, queue, way);
        }
        const bool made = co_await queue_exists(c, queue + ".retry");
        EXPECT_FALSE(made);
    });
}

TEST(D9_declare, a_waiting_queue_that_leads_elsewhere_is_a_conflict)
{
    place here;
    const auto queue = brief("");
    const auto other = brief(".other");
    const auto waiting = brief(".later");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const settle::queue_description first = classic_queue{queue};
        co_await declare_delay(c, first, queue, delay::dlx_ttl(waiting));
        const settle::queue_description second = classic_queue{other};
        const auto said =
            co_await refusal_of(declare_delay(c, second, other, delay::dlx_ttl(waiting)));
        expect_says(said,
                    {waiting, "406",
                     "x-dead-letter-routing-key is " + queue + " there and " + other + " here"});
        co_await remove(ch, waiting);
    });
}

// -- D6: the plugin, which Debian's packages do not have

TEST(D6_plugin, without_it_the_refusal_says_what_to_install_or_to_use_instead)
{
    place here;
    const auto queue = here.name();
    const auto exchange = here.name(".delay");
    std::string said;
    bool closed = false;
    bool at_4_3 = false;
    runtime::loop events;
    // Not on the connection of `here`: RabbitMQ 3.10 closes it.
    events.run(runtime::with_timeout(patience, [&]() -> task<> {
        amqp::connection c(broker_options());
        try {
            co_await with_scope([&](scope& tasks) -> task<> {
                tasks.spawn(c.run());
                co_await c.opened();
                at_4_3 = c.server_is_at_least(4, 3);
                const settle::queue_description origin = classic_queue{queue};
                (void)co_await declare_queue(c, origin, {});
                said = co_await refusal_of(
                    declare_delay(c, origin, queue, delay::plugin_dme(exchange)));
                co_await c.close();
            });
        } catch (const connection_error& gone) {
            closed = true;
            EXPECT_EQ(gone.code(), 503);
        }
    }()));
    expect_says(said, {queue, "delay::plugin_dme", "rabbitmq_delayed_message_exchange",
                       "delay::dlx_ttl()", "delay::buckets()"});
    expect_says(said, {at_4_3 ? "does not exist for RabbitMQ 4.3" : "install"});
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        EXPECT_EQ(closed, !c.server_is_at_least(4, 0));
        const bool made = co_await exchange_exists(c, exchange);
        EXPECT_FALSE(made);
    });
}

TEST(D6_plugin, a_missing_exchange_is_named_with_what_to_do)
{
    place here;
    const auto queue = here.name();
    const auto exchange = here.name(".delay");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        const auto way = delay::plugin_dme(exchange);
        const auto said = co_await refusal_of(check_delay(c, existing_queue{queue}, queue, way));
        if (c.server_is_at_least(4, 3)) {
            expect_says(said, {"does not exist for RabbitMQ 4.3", "delay::native()"});
            co_return;
        }
        expect_says(said, {exchange, queue, "404", "declare_topology(true)", "x-delayed-type"});
        co_await ch.declare_exchange({.exchange = exchange, .type = "direct"});
        co_await check_delay(c, existing_queue{queue}, queue, way);
    });
}

// -- D7

TEST(D7_native, is_refused_by_name_where_the_server_would_ignore_it)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const settle::queue_description origin = quorum_queue{queue};
        const auto way = delay::native(300ms, 700ms);
        if (!c.server_is_at_least(4, 3)) {
            const auto of_queue = co_await refusal_of(declare_queue(c, origin, {}, way));
            expect_says(of_queue,
                        {queue.substr(0, 60), "delay::native", "4.3", "delay::dlx_ttl()"});
            const auto of_delay = co_await refusal_of(declare_delay(c, origin, queue, way));
            expect_says(of_delay, {queue, "delay::native", "4.3"});
            const bool made = co_await queue_exists(c, queue);
            EXPECT_FALSE(made) << "refused before anything is declared";
            co_return;
        }
        (void)co_await declare_queue(c, origin, {}, way);
        co_await declare_delay(c, origin, queue, way);
        expect_says(listed(queue), {"x-delayed-retry-type", "failed", "x-delayed-retry-min", "300",
                                    "x-delayed-retry-max", "700"});
        co_await publish(c, queue, 1);
        const auto first = co_await ch.get(queue);
        require(first.has_value(), "a message that was confirmed");
        const auto failed = steady::now();
        ch.reject(first->delivery_tag, true);
        (void)co_await next_of(ch, queue);
        EXPECT_GE(steady::now() - failed, 300ms);
    });
}

// -- Q4: both sides of a conflict

TEST(Q4_conflict, shows_every_argument_that_differs_and_changes_nothing)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        wire::table theirs;
        theirs.set("x-max-length", 10)
            .set("x-message-ttl", 5000)
            .set("x-overflow", "reject-publish")
            .set("x-single-active-consumer", true);
        co_await make_queue(ch, queue, kind::classic, theirs);
        const auto before = listed(queue);
        const auto said = co_await refusal_of(declare_queue(
            c, classic_queue{queue}.max_length(20).message_ttl(5s).max_length_bytes(1 << 20), {}));
        expect_says(said, {queue, "406", "PRECONDITION_FAILED",
                           // ours
                           "x-max-length=l:20", "x-message-ttl=l:5000",
                           // theirs, and what of it differs
                           "x-max-length is 10 there and 20 here",
                           "x-overflow is reject-publish there and none here",
                           "x-single-active-consumer is true there and none here",
                           "x-max-length-bytes is none there and 1048576 here"});
        EXPECT_EQ(said.find("x-message-ttl is"), std::string::npos) << said;
        EXPECT_EQ(said.find("at least"), std::string::npos) << said;
        EXPECT_EQ(listed(queue), before);
    });
}

TEST(Q4_conflict, between_types_is_told_with_what_the_other_type_does_not_have)
{
    place here;
    const auto queue = brief("");
    const auto dead = brief(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::classic);
        const auto said = co_await refusal_of(declare_queue(
            c, quorum_queue{queue}, retry_limit{.max_attempts = 3, .dead_letter = dead}));
        expect_says(said, {queue, "406", "x-queue-type is classic there and quorum here",
                           "x-delivery-limit is none there and 2 here",
                           "x-dead-letter-exchange is none there and '' here",
                           "x-dead-letter-routing-key is none there and " + dead + " here",
                           "x-queue-type=S:\"classic\"}"});
        const auto other = brief(".other");
        co_await make_queue(ch, other, kind::quorum);
        const auto other_said =
            co_await refusal_of(declare_queue(c, classic_queue{other}.max_priority(5), {}));
        expect_says(other_said, {other, "406", "x-queue-type is quorum there and classic here",
                                 "x-max-priority is none there and 5 here"});
        co_await remove(ch, queue);
        co_await remove(ch, dead);
        co_await remove(ch, other);
    });
}

TEST(Q4_conflict, of_a_flag_is_told_too)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        wire::table theirs;
        theirs.set("x-expires", 60'000);
        co_await make_queue(ch, queue, kind::classic, theirs);
        const auto said =
            co_await refusal_of(declare_queue(c, classic_queue{queue}.auto_delete(), {}));
        expect_says(said, {"auto_delete is false there and true here",
                           "x-expires is 60000 there and none here"});
    });
}

TEST(Q4_conflict, what_is_no_conflict_is_told_as_the_broker_says_it)
{
    place here;
    const auto queue = here.name();
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        const auto said = co_await refusal_of(
            declare_queue(c, quorum_queue{queue}.argument("x-overflow", "sideways"), {}));
        expect_says(said, {queue, "406", "x-overflow", "sideways"});
        EXPECT_EQ(said.find(" there and "), std::string::npos) << said;
        const bool made = co_await queue_exists(c, queue);
        EXPECT_FALSE(made);
    });
}

// -- R3, R4a, R5: dead-letter queues

TEST(R3_dead_letter, of_a_classic_queue_is_declared_or_looked_for)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const settle::queue_description origin = classic_queue{queue};
        const retry_limit limit{.max_attempts = 3, .dead_letter = dead};
        co_await make_queue(ch, queue, kind::classic);
        const auto unchecked = co_await refusal_of(settle::check_queue(c, origin, limit));
        expect_says(unchecked, {dead, "404", "declare_topology(true)"});
        const bool made = co_await queue_exists(c, dead);
        EXPECT_FALSE(made);
        (void)co_await declare_queue(c, origin, limit);
        expect_says(listed(dead), {"classic", "true"});
        (void)co_await settle::check_queue(c, origin, limit);
        (void)co_await declare_queue(c, origin, limit);
    });
}

TEST(R4a_dead_letter, a_limit_that_the_counts_would_eat_gets_a_warning_and_only_that)
{
    place here;
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        const bool counts_travel = c.server_is_at_least(4, 3);
        const auto warned = [&](const wire::table& arguments, kind k) -> task<std::string> {
            const auto queue = here.name();
            const auto dead = here.name(".dead");
            co_await make_queue(ch, dead, k, arguments);
            const auto before = listed(dead);
            warnings seen;
            (void)co_await declare_queue(c, quorum_queue{queue},
                                         retry_limit{.max_attempts = 3, .dead_letter = dead});
            EXPECT_EQ(listed(dead), before);
            const auto about = seen.about(dead.substr(0, 60));
            EXPECT_LE(about.size(), 1U);
            co_return about.empty() ? "" : about.front();
        };
        wire::table some;
        some.set("x-max-length", 1000).set("x-delivery-limit", 7);
        wire::table unlimited;
        unlimited.set("x-delivery-limit", -1);
        const auto by_default = co_await warned({}, kind::quorum);
        const auto seven = co_await warned(some, kind::quorum);
        std::string without; // before 4.0 such a limit is none at all
        if (c.server_is_at_least(4, 0))
            without = co_await warned(unlimited, kind::quorum);
        const auto classic = co_await warned({}, kind::classic);
        EXPECT_EQ(without, "");
        EXPECT_EQ(classic, "");
        if (counts_travel) {
            expect_says(by_default, {"delivery limit of 20"});
            expect_says(seven, {"delivery limit of 7"});
        } else {
            EXPECT_EQ(by_default, "");
            EXPECT_EQ(seven, "");
        }
    });
}

TEST(R4a_dead_letter, a_classic_queue_sends_copies_without_a_count_so_nothing_is_said)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, dead, kind::quorum);
        warnings seen;
        (void)co_await declare_queue(c, classic_queue{queue},
                                     retry_limit{.max_attempts = 3, .dead_letter = dead});
        EXPECT_TRUE(seen.about(dead.substr(0, 60)).empty());
    });
}

TEST(R5_pair, half_of_it_declares_nothing)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead");
    here.run([&](amqp::connection& c, amqp::channel&) -> task<> {
        const auto no_queue = co_await refusal_of(
            declare_queue(c, quorum_queue{queue}, retry_limit{.max_attempts = 3}));
        expect_says(no_queue, {queue, "add dead_letter"});
        const auto no_limit = co_await refusal_of(
            declare_queue(c, quorum_queue{queue}, retry_limit{.dead_letter = dead}));
        expect_says(no_limit, {queue, "add max_attempts"});
        const auto none = co_await refusal_of(declare_queue(
            c, quorum_queue{queue}, retry_limit{.max_attempts = 0, .dead_letter = dead}));
        expect_says(none, {queue, "max_attempts(0)"});
        const bool made = co_await queue_exists(c, queue);
        const bool dead_made = co_await queue_exists(c, dead);
        EXPECT_FALSE(made || dead_made);
    });
}

TEST(R5_pair, is_arguments_that_a_queue_without_them_does_not_get)
{
    place here;
    const auto queue = here.name();
    const auto dead = here.name(".dead"); // long: the broker's words end before its value
    here.run([&](amqp::connection& c, amqp::channel& ch) -> task<> {
        co_await make_queue(ch, queue, kind::quorum);
        const auto said = co_await refusal_of(declare_queue(
            c, quorum_queue{queue}, retry_limit{.max_attempts = 3, .dead_letter = dead}));
        expect_says(said, {queue, "406", "x-delivery-limit is none there and 2 here",
                           "x-dead-letter-routing-key is none there and " + dead + " here"});
    });
}
