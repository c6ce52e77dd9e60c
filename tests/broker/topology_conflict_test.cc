// Rows Q4, R3, R4a and R5 below the service: conflicts with what exists, dead-letter queues and limits.
#include "topology_support.h"

#include <acquit/runtime/log.h>
#include <acquit/settle/queue.h>

#include <mutex>

using namespace acquit;
using namespace acquit::tests;
namespace wire = acquit::amqp::wire;
using settle::declare_queue;
using settle::queue_kind;
using settle::retry_limit;

namespace {

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

} // namespace

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
