#include <acquit/settle/queue.h>
#include <acquit/settle/retry_plan.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace acquit::settle {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// -- A plan in words, so that a table can be read.

std::string shown(disposition how)
{
    switch (how) {
    case disposition::ack:
        return "ack";
    case disposition::reject:
        return "reject";
    case disposition::requeue:
        return "requeue";
    }
    return "?";
}

/// copy to <exchange>/<key>, count, what it says about time; then what becomes of the original.
std::string shown_copy(const retry_plan& plan)
{
    std::string text =
        fmt::format("copy {} to '{}'/'{}'", plan.copies, plan.exchange, plan.routing_key);
    if (plan.expiration_ms)
        text += fmt::format(" expiration {}", *plan.expiration_ms);
    if (plan.x_delay_ms)
        text += fmt::format(" x-delay {}", *plan.x_delay_ms);
    if (plan.left != 0ns)
        text += fmt::format(" left {}", plan.left.count());
    if (!plan.mandatory)
        text += " not mandatory";
    return text;
}

std::string shown(const retry_plan& plan)
{
    std::string text;
    switch (plan.what) {
    case retry_plan::step::settle:
        text = shown(plan.how);
        break;
    case retry_plan::step::copy:
        text = shown_copy(plan) + ", then " + shown(plan.how);
        break;
    case retry_plan::step::later:
        text = fmt::format("{}, after {} {}", shown(plan.how), plan.wait.count(), shown_copy(plan));
        break;
    case retry_plan::step::hold:
        text = fmt::format("hold {}, then ", plan.wait.count());
        if (plan.after == retry_plan::step::copy)
            text += shown_copy(plan) + ", then ";
        text += shown(plan.how);
        break;
    }
    if (plan.dead_letter)
        text += "; dead-lettered";
    if (plan.delay_dropped)
        text += "; delay dropped";
    return text;
}

std::string plan(const retry_rules& rules, outcome decided, std::uint32_t attempt = 1,
                 std::uint32_t held = 0, std::uint64_t random = 0)
{
    return shown(plan_of(rules, decided, attempt, held, random));
}

const retry_limit three{.max_attempts = 3, .dead_letter = "q.dead"};
const retry_limit three_and_gone{.max_attempts = 3};

retry_rules classic(const delay& waiting = {}, const retry_limit& limit = {})
{
    return {.queue = "q", .kind = queue_kind::classic, .limit = limit, .delay = waiting};
}
retry_rules quorum(const delay& waiting = {}, const retry_limit& limit = {})
{
    return {.queue = "q", .kind = queue_kind::quorum, .limit = limit, .delay = waiting};
}

// -- Row by row, written out.

TEST(plan_S1_S2, ack_and_drop_are_what_they_say_whatever_is_declared)
{
    for (const auto& rules : {classic(), classic(delay::hold(2), three), quorum({}, three),
                              quorum(delay::native(1s, 2s)), classic(delay::plugin_dme())}) {
        EXPECT_EQ(plan(rules, ack, 7), "ack");
        EXPECT_EQ(plan(rules, drop, 7), "reject");
    }
}

TEST(plan_S3, a_retry_without_policy_is_requeued)
{
    EXPECT_EQ(plan(classic(), retry(), 9), "requeue");
    EXPECT_EQ(plan(quorum(), retry(), 9), "requeue");
    EXPECT_EQ(plan({.queue = "q", .kind = queue_kind::existing}, retry(), 9), "requeue");
}

TEST(plan_R2, below_the_limit_a_classic_queue_gets_a_copy_with_one_more)
{
    EXPECT_EQ(plan(classic({}, three), retry(), 1), "copy 1 to ''/'q', then reject");
    EXPECT_EQ(plan(classic({}, three), retry(), 2), "copy 2 to ''/'q', then reject");
    EXPECT_EQ(plan(classic({}, three_and_gone), retry(), 2), "copy 2 to ''/'q', then reject");
}

TEST(plan_R3, at_the_limit_the_copy_goes_to_the_dead_letter_queue_or_nothing_does)
{
    EXPECT_EQ(plan(classic({}, three), retry(), 3),
              "copy 3 to ''/'q.dead', then reject; dead-lettered");
    EXPECT_EQ(plan(classic({}, three), retry(), 4'000'000'000),
              "copy 4000000000 to ''/'q.dead', then reject; dead-lettered");
    EXPECT_EQ(plan(classic({}, three_and_gone), retry(), 3), "reject; dead-lettered");
    const retry_limit once{.max_attempts = 1, .dead_letter = "d"};
    EXPECT_EQ(plan(classic({}, once), retry(), 1), "copy 1 to ''/'d', then reject; dead-lettered");
}

TEST(plan_R4, a_quorum_queue_counts_itself_so_retries_are_plain_rejects)
{
    for (std::uint32_t attempt = 1; attempt < 6; ++attempt)
        EXPECT_EQ(plan(quorum({}, three), retry(), attempt), "requeue");
}

TEST(plan_D1, a_classic_queue_without_a_delay_waits_in_the_process)
{
    EXPECT_EQ(plan(classic(), retry_after(5s)), "reject, after 5000000000 copy 1 to ''/'q'");
    EXPECT_EQ(plan(classic({}, three), retry_after(5s), 2),
              "reject, after 5000000000 copy 2 to ''/'q'");
}

TEST(plan_D2, a_quorum_queue_without_a_delay_is_retried_at_once_and_says_so)
{
    EXPECT_EQ(plan(quorum(), retry_after(5s)), "requeue; delay dropped");
    EXPECT_EQ(plan(quorum({}, three), retry_after(5s), 3), "requeue; delay dropped");
}

TEST(plan_D3, a_held_delivery_then_goes_the_way_of_a_retry)
{
    EXPECT_EQ(plan(classic(delay::hold(2)), retry_after(5s)), "hold 5000000000, then requeue");
    EXPECT_EQ(plan(classic(delay::hold(2), three), retry_after(5s), 2),
              "hold 5000000000, then copy 2 to ''/'q', then reject");
    EXPECT_EQ(plan(quorum(delay::hold(2), three), retry_after(5s), 2),
              "hold 5000000000, then requeue");
}

TEST(plan_D3, past_the_budget_it_waits_where_it_overflows_to_or_not_at_all)
{
    const auto full = [](const retry_rules& rules) { return plan(rules, retry_after(5s), 1, 2); };
    EXPECT_EQ(full(classic(delay::hold(2))), "requeue; delay dropped");
    EXPECT_EQ(full(classic(delay::hold(2), three)), "copy 1 to ''/'q', then reject; delay dropped");
    EXPECT_EQ(full(quorum(delay::hold(2), three)), "requeue; delay dropped");
    EXPECT_EQ(full(quorum(delay::hold(2).overflow_to(delay::dlx_ttl()), three)),
              "copy 1 to ''/'q.retry' expiration 5000, then ack");
    EXPECT_EQ(full(classic(delay::hold(2).overflow_to(delay::buckets({2s})))),
              "copy 1 to ''/'q.retry.2000' left 3000000000, then ack");
}

// s91: held beyond the broker's timeout a message would be requeued by the broker, again and again.
TEST(plan_D3, a_delay_near_the_consumer_timeout_is_not_held)
{
    auto rules = classic(delay::hold(2).overflow_to(delay::dlx_ttl()));
    rules.hold_max = 10s;
    EXPECT_EQ(plan(rules, retry_after(10s)), "hold 10000000000, then requeue");
    EXPECT_EQ(plan(rules, retry_after(10s + 1ns)),
              "copy 1 to ''/'q.retry' expiration 10001, then ack");
    rules.delay = delay::hold(2);
    EXPECT_EQ(plan(rules, retry_after(10s + 1ns)), "hold 10000000000, then requeue; delay dropped");
}

TEST(plan_D4, a_copy_waits_with_an_expiration_and_the_original_is_acked)
{
    EXPECT_EQ(plan(classic(delay::dlx_ttl()), retry_after(1500us)),
              "copy 1 to ''/'q.retry' expiration 2, then ack");
    EXPECT_EQ(plan(quorum(delay::dlx_ttl("later")), retry_after(1us), 4),
              "copy 4 to ''/'later' expiration 1, then ack");
}

TEST(plan_D5, the_first_hop_is_the_longest_that_does_not_overshoot)
{
    const auto rules = classic(delay::buckets({1s, 10s}));
    EXPECT_EQ(plan(rules, retry_after(12s)),
              "copy 1 to ''/'q.retry.10000' left 2000000000, then ack");
    EXPECT_EQ(plan(rules, retry_after(10s)), "copy 1 to ''/'q.retry.10000', then ack");
    EXPECT_EQ(plan(rules, retry_after(1ms)), "copy 1 to ''/'q.retry.1000', then ack");
    EXPECT_EQ(shown(next_hop(rules, 5, 2s)),
              "copy 5 to ''/'q.retry.1000' left 1000000000, then ack");
    EXPECT_EQ(shown(next_hop(classic(delay::hold(1).overflow_to(delay::buckets({1s}))), 5, 1s)),
              "copy 5 to ''/'q.retry.1000', then ack");
}

TEST(plan_D6, the_plugin_gets_its_header_and_never_mandatory)
{
    EXPECT_EQ(plan(classic(delay::plugin_dme()), retry_after(1500ms)),
              "copy 1 to 'q.delay'/'q' x-delay 1500 not mandatory, then ack");
    EXPECT_EQ(plan(quorum(delay::plugin_dme("d")), retry_after(1ns), 2),
              "copy 2 to 'd'/'q' x-delay 1 not mandatory, then ack");
}

TEST(plan_D6, a_delay_beyond_what_the_plugin_keeps_is_cut)
{
    // 2^32 ms: the plugin would deliver at once.
    EXPECT_EQ(plan(quorum(delay::plugin_dme("d")),
                   retry_after(std::chrono::milliseconds(4'294'967'296)), 1),
              "copy 1 to 'd'/'q' x-delay 4294967295 not mandatory, then ack; delay dropped");
    EXPECT_EQ(plan(quorum(delay::plugin_dme("d")),
                   retry_after(std::chrono::milliseconds(4'294'967'295)), 1),
              "copy 1 to 'd'/'q' x-delay 4294967295 not mandatory, then ack");
}

TEST(plan_D7, native_leaves_time_and_limit_to_the_server)
{
    for (std::uint32_t attempt = 1; attempt < 6; ++attempt) {
        EXPECT_EQ(plan(quorum(delay::native(1s, 9s), three), retry(), attempt), "requeue");
        EXPECT_EQ(plan(quorum(delay::native(1s, 9s), three), retry_after(5s), attempt), "requeue");
    }
}

TEST(plan_D8, a_delivery_at_the_limit_does_not_wait_again)
{
    for (const auto& waiting :
         {delay::none(), delay::hold(2), delay::dlx_ttl(), delay::buckets(), delay::plugin_dme()}) {
        EXPECT_EQ(plan(classic(waiting, three), retry_after(5s), 3),
                  "copy 3 to ''/'q.dead', then reject; dead-lettered");
        EXPECT_EQ(plan(classic(waiting, three_and_gone), retry_after(5s), 3),
                  "reject; dead-lettered");
    }
    // The server counts a copy from zero: the same cap, by the queue's own arguments.
    for (const auto& waiting : {delay::hold(2), delay::dlx_ttl(), delay::buckets()})
        EXPECT_EQ(plan(quorum(waiting, three), retry_after(5s), 3), "reject; dead-lettered");
}

TEST(plan_D12, a_backoff_delays_retry_itself)
{
    auto rules = classic(delay::dlx_ttl(), three);
    rules.pause = backoff::exponential({.initial = 4s, .factor = 2, .cap = 1min});
    EXPECT_EQ(plan(rules, retry(), 1, 0, std::uint64_t{1} << 63),
              "copy 1 to ''/'q.retry' expiration 2000, then ack");
    EXPECT_EQ(plan(rules, retry(), 2, 0, std::uint64_t{1} << 63),
              "copy 2 to ''/'q.retry' expiration 4000, then ack");
    EXPECT_EQ(plan(rules, retry(), 3, 0, std::uint64_t{1} << 63),
              "copy 3 to ''/'q.dead', then reject; dead-lettered");
    // Full jitter may say: at once.
    EXPECT_EQ(plan(rules, retry(), 1, 0, 0), "copy 1 to ''/'q', then reject");
    // A handler that names a time knows better.
    EXPECT_EQ(plan(rules, retry_after(9s), 1, 0, 0),
              "copy 1 to ''/'q.retry' expiration 9000, then ack");
}

TEST(plan, a_delay_of_nothing_is_no_delay)
{
    for (const auto& waiting :
         {delay::none(), delay::hold(2), delay::dlx_ttl(), delay::buckets(), delay::plugin_dme()}) {
        EXPECT_EQ(plan(classic(waiting), retry_after(0s)), "requeue");
        EXPECT_EQ(plan(classic(waiting), retry_after(-5s)), "requeue");
        EXPECT_EQ(plan(classic(waiting, three), retry_after(0s)), "copy 1 to ''/'q', then reject");
        EXPECT_EQ(plan(quorum(waiting), retry_after(0s)), "requeue");
    }
}

TEST(hold_max, is_three_quarters_of_the_brokers_patience)
{
    EXPECT_EQ(hold_max_of(classic_queue{"q"}), 22min + 30s);
    EXPECT_EQ(hold_max_of(quorum_queue{"q"}.argument("x-consumer-timeout", 4000)), 3s);
    EXPECT_EQ(hold_max_of(quorum_queue{"q"}.consumer_argument("x-consumer-timeout", 8000)), 6s);
    EXPECT_EQ(hold_max_of(quorum_queue{"q"}
                              .argument("x-consumer-timeout", 8000)
                              .consumer_argument("x-consumer-timeout", 4000)),
              3s)
        << "the shorter one";
    for (const std::int64_t senseless : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX, INT64_MIN})
        EXPECT_EQ(hold_max_of(quorum_queue{"q"}.argument("x-consumer-timeout", senseless)),
                  22min + 30s)
            << senseless;
}

// -- All of it, against the rows as a table of their own.

/// What decides. A column that a rule does not name does not matter to it.
struct situation {
    outcome decided = ack;
    queue_kind kind = queue_kind::classic;
    std::string mode; // as delays() names them
    std::uint32_t limit = 0;
    bool dead_letter = false;
    std::uint32_t attempt = 1;
    std::uint32_t held = 0;
    bool pause = false;

    [[nodiscard]] nanoseconds wait() const
    {
        if (decided.kind() == outcome_kind::retry)
            return pause ? nanoseconds(2'500ms) : 0ns;
        return decided.delay();
    }
    [[nodiscard]] std::string text() const
    {
        return fmt::format("{} after {} ns, {} queue, delay {}, limit {} dead-letter {}, attempt "
                           "{}, held {}, pause {}",
                           decided.name(), decided.delay().count(), settle::name(kind), mode, limit,
                           dead_letter, attempt, held, pause);
    }
};

constexpr std::uint32_t budget = 3;
constexpr auto hold_max = 10s;

const std::map<std::string, delay>& delays()
{
    static const std::map<std::string, delay> all{
        {"none", delay::none()},
        {"hold", delay::hold(budget)},
        {"hold>ttl", delay::hold(budget).overflow_to(delay::dlx_ttl("aside"))},
        {"hold>buckets", delay::hold(budget).overflow_to(delay::buckets({1s, 60s}))},
        {"ttl", delay::dlx_ttl()},
        {"buckets", delay::buckets({1s, 60s})},
        {"plugin", delay::plugin_dme()},
        {"native", delay::native(1s, 60s)},
    };
    return all;
}

struct rule {
    const char* row;
    std::function<bool(const situation&)> applies;
    std::function<std::string(const situation&)> result;
};

std::uint64_t whole_ms(nanoseconds d)
{
    return static_cast<std::uint64_t>((d.count() + 999'999) / 1'000'000);
}

std::string to_bucket(const situation& s)
{
    const nanoseconds step = s.wait() >= 60s ? 60s : 1s;
    const auto left = s.wait() > step ? fmt::format(" left {}", (s.wait() - step).count()) : "";
    return fmt::format("copy {} to ''/'q.retry.{}'{}, then ack", s.attempt, whole_ms(step), left);
}

/// The first rule that applies says it. Rows of sections 1, 3 and 4.
const std::vector<rule>& rows()
{
    const auto is = [](outcome_kind k) {
        return [k](const situation& s) { return s.decided.kind() == k; };
    };
    const auto always = [](std::string text) { return [text](const situation&) { return text; }; };
    const auto used_up = [](const situation& s) { return s.limit != 0 && s.attempt >= s.limit; };
    const auto counts_copies = [](const situation& s) {
        return s.kind == queue_kind::classic && s.limit != 0;
    };
    const auto at_once = [](const situation& s) { return s.wait() == 0ns; };
    const auto holds = [](const situation& s) { return s.mode.starts_with("hold"); };
    const auto parks = [](const situation& s) {
        return s.mode == "ttl" || s.mode == "buckets" || s.mode == "plugin" ||
               s.mode.starts_with("hold>");
    };
    const auto to_own_queue = [](const situation& s) {
        return fmt::format("copy {} to ''/'q', then reject", s.attempt);
    };
    const auto aside = [](const std::string& queue) {
        return [queue](const situation& s) {
            return fmt::format("copy {} to ''/'{}' expiration {}, then ack", s.attempt, queue,
                               whole_ms(s.wait()));
        };
    };
    static const std::vector<rule> all{
        {"S1", is(outcome_kind::ack), always("ack")},
        {"S2", is(outcome_kind::drop), always("reject")},
        // Without a wait.
        {"R3",
         [=](auto& s) { return at_once(s) && counts_copies(s) && used_up(s) && s.dead_letter; },
         [](auto& s) {
             return fmt::format("copy {} to ''/'q.dead', then reject; dead-lettered", s.attempt);
         }},
        {"R3", [=](auto& s) { return at_once(s) && counts_copies(s) && used_up(s); },
         always("reject; dead-lettered")},
        {"R2", [=](auto& s) { return at_once(s) && counts_copies(s); }, to_own_queue},
        {"D8",
         [=](auto& s) {
             return at_once(s) && used_up(s) && s.kind == queue_kind::quorum && parks(s);
         },
         always("reject; dead-lettered")},
        {"S3 R4", at_once, always("requeue")},
        // With one.
        {"D7", [](auto& s) { return s.mode == "native"; }, always("requeue")},
        {"D2", [](auto& s) { return s.mode == "none" && s.kind != queue_kind::classic; },
         always("requeue; delay dropped")},
        {"D8",
         [=](auto& s) { return used_up(s) && s.kind == queue_kind::classic && s.dead_letter; },
         [](auto& s) {
             return fmt::format("copy {} to ''/'q.dead', then reject; dead-lettered", s.attempt);
         }},
        {"D8", used_up, always("reject; dead-lettered")},
        {"D1", [](auto& s) { return s.mode == "none"; },
         [](auto& s) {
             return fmt::format("reject, after {} copy {} to ''/'q'", s.wait().count(), s.attempt);
         }},
        {"D4", [](auto& s) { return s.mode == "ttl"; }, aside("q.retry")},
        {"D5", [](auto& s) { return s.mode == "buckets"; }, to_bucket},
        {"D6", [](auto& s) { return s.mode == "plugin"; },
         [](auto& s) {
             return fmt::format("copy {} to 'q.delay'/'q' x-delay {} not mandatory, then ack",
                                s.attempt, whole_ms(s.wait()));
         }},
        {"D3",
         [=](auto& s) {
             return holds(s) && s.held < budget && s.wait() <= hold_max && counts_copies(s);
         },
         [=](auto& s) {
             return fmt::format("hold {}, then {}", s.wait().count(), to_own_queue(s));
         }},
        {"D3", [=](auto& s) { return holds(s) && s.held < budget && s.wait() <= hold_max; },
         [](auto& s) { return fmt::format("hold {}, then requeue", s.wait().count()); }},
        {"D3 D4", [](auto& s) { return s.mode == "hold>ttl"; }, aside("aside")},
        {"D3 D5", [](auto& s) { return s.mode == "hold>buckets"; }, to_bucket},
        {"D3", [=](auto& s) { return s.held < budget && counts_copies(s); },
         [=](auto& s) {
             return fmt::format("hold {}, then {}; delay dropped", nanoseconds(hold_max).count(),
                                to_own_queue(s));
         }},
        {"D3", [](auto& s) { return s.held < budget; },
         always(
             fmt::format("hold {}, then requeue; delay dropped", nanoseconds(hold_max).count()))},
        {"D3 D2", counts_copies, [=](auto& s) { return to_own_queue(s) + "; delay dropped"; }},
        {"D3 D2", [](auto&) { return true; }, always("requeue; delay dropped")},
    };
    return all;
}

std::pair<std::string, const char*> expected(const situation& s)
{
    for (const auto& each : rows()) {
        if (each.applies(s))
            return {each.result(s), each.row};
    }
    return {"no row says it", ""};
}

/// Which combinations a start lets through.
bool allowed(const situation& s)
{
    if (s.mode == "native" && s.kind != queue_kind::quorum)
        return false;
    if (s.kind == queue_kind::existing)
        return s.limit == 0 && !s.dead_letter;
    if (s.kind == queue_kind::quorum)
        return (s.limit != 0) == s.dead_letter;
    return s.limit != 0 || !s.dead_letter;
}

void for_each_situation(const std::function<void(const situation&)>& visit)
{
    const std::vector<outcome> outcomes{ack,
                                        drop,
                                        retry(),
                                        retry_after(0s),
                                        retry_after(1ns),
                                        retry_after(1ms),
                                        retry_after(2'500ms),
                                        retry_after(hold_max),
                                        retry_after(hold_max + 1ns),
                                        retry_after(60s),
                                        retry_after(24h)};
    situation s;
    for (const auto decided : outcomes)
        for (const auto kind : {queue_kind::existing, queue_kind::classic, queue_kind::quorum})
            for (const auto& [mode, waiting] : delays())
                for (const std::uint32_t limit : {0U, 1U, 2U, 5U})
                    for (const bool dead_letter : {false, true})
                        for (std::uint32_t attempt = 1; attempt <= limit + 2; ++attempt)
                            for (const std::uint32_t held : {0U, budget - 1, budget, budget + 1})
                                for (const bool pause : {false, true}) {
                                    s = {decided,     kind,    mode, limit,
                                         dead_letter, attempt, held, pause};
                                    if (allowed(s))
                                        visit(s);
                                }
}

TEST(plan, is_what_the_rows_say_in_every_situation)
{
    std::map<std::string, int> times;
    std::size_t visited = 0;
    for_each_situation([&](const situation& s) {
        retry_rules rules{.queue = "q", .kind = s.kind, .delay = delays().at(s.mode)};
        if (s.limit != 0)
            rules.limit.max_attempts = s.limit;
        if (s.dead_letter)
            rules.limit.dead_letter = "q.dead";
        if (s.pause)
            rules.pause = backoff::fixed(2'500ms);
        rules.hold_max = hold_max;
        const auto [text, row] = expected(s);
        ASSERT_EQ(plan(rules, s.decided, s.attempt, s.held), text) << row << ": " << s.text();
        ++times[row];
        ++visited;
    });
    EXPECT_GT(visited, 10'000U);
    for (const auto& each : rows())
        EXPECT_GT(times[each.row], 0) << each.row << " was never the one that applies";
}

TEST(plan, loses_no_message_and_counts_each_attempt)
{
    for_each_situation([&](const situation& s) {
        retry_rules rules{.queue = "q", .kind = s.kind, .delay = delays().at(s.mode)};
        if (s.limit != 0)
            rules.limit.max_attempts = s.limit;
        if (s.dead_letter)
            rules.limit.dead_letter = "q.dead";
        const auto p = plan_of(rules, s.decided, s.attempt, s.held, 12345);
        const bool copies = p.what == retry_plan::step::copy || p.what == retry_plan::step::later ||
                            (p.what == retry_plan::step::hold && p.after == retry_plan::step::copy);
        SCOPED_TRACE(s.text());
        if (s.decided == ack || s.decided == drop)
            return;
        if (copies) {
            ASSERT_NE(p.how, disposition::requeue) << "a copy and the original";
            ASSERT_EQ(p.copies, s.attempt) << "the copy's attempt is one more";
            ASSERT_TRUE(p.mandatory || p.x_delay_ms) << "could be dropped without a word";
        } else if (!p.dead_letter) {
            ASSERT_EQ(p.how, disposition::requeue) << "neither a copy nor the original";
        }
        if (p.dead_letter) {
            ASSERT_GE(s.attempt, s.limit);
            ASSERT_NE(s.limit, 0U);
        } else if (s.limit != 0 && s.kind == queue_kind::classic) {
            ASSERT_LT(s.attempt, s.limit) << "one attempt too many";
        }
    });
}

} // namespace
} // namespace acquit::settle
