#include "witness.h"

#include <acquit/amqp/wire/properties.h>
#include <acquit/runtime/loop.h>
#include <acquit/settle/attempt.h>
#include <acquit/settle/copy_message.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace acquit::testing {

namespace {

using verdict = broker_model::verdict;

constexpr std::size_t violations_max = 20;

const char* name(verdict v) noexcept
{
    switch (v) {
    case verdict::ack:
        return "ack";
    case verdict::drop:
        return "reject";
    case verdict::requeue:
        return "requeue";
    case verdict::give_back:
        return "give back";
    }
    return "?";
}

/// A body without its padding.
std::string_view short_name(const std::string& body)
{
    return std::string_view(body).substr(0, body.find(':'));
}

} // namespace

const char* name(decision d) noexcept
{
    switch (d) {
    case decision::ack:
        return "ack";
    case decision::drop:
        return "drop";
    case decision::retry:
        return "retry";
    case decision::retry_after:
        return "retry_after";
    case decision::fail:
        return "fail";
    }
    return "?";
}

witness::witness(const shape& s, broker_model& broker) : shape_(s), broker_(broker)
{
    broker.on_delivered = [this](const auto& d) { delivered(d); };
    broker.on_entered = [this](const auto& queue, const auto& m) { entered(queue, m); };
    broker.on_settled = [this](const auto& d, verdict how) { settled(d, how); };
    broker.on_vanished = [this](const auto& body, auto why) { vanished(body, why); };
}

void witness::violation(std::string what)
{
    if (violations_.size() < violations_max)
        violations_.push_back(what);
    note("VIOLATION: " + std::move(what));
}

void witness::note(std::string what)
{
    if (!prints_notes_)
        return;
    const std::chrono::duration<double> at = runtime::loop::current().now().time_since_epoch();
    fmt::print("{:12.6f}  {}\n", at.count(), what); // at once: a run may hang
}

// ---- What the broker saw -------------------------------------------------------------------------

void witness::delivered(const broker_model::traced& d)
{
    const auto headers = wire::properties_view(d.properties).headers().value_or(wire::table_view{});
    deliveries_[d.number] = {.body = d.body,
                             .queue = d.queue,
                             .hops = settle::left_to_wait(headers).count() != 0,
                             .decided = {}};
    latest_[{d.body, d.tag}] = d.number;
    if (prints_notes_)
        note(fmt::format("deliver #{} tag {} of {}: {}{}", d.number, d.tag, d.queue,
                         short_name(d.body), d.redelivered ? ", again" : ""));
}

bool witness::is_final(decision d) const noexcept
{
    return d == decision::ack || d == decision::drop ||
           (d == decision::fail && shape_.on_error == settle::on_failure::drop);
}

std::string witness::objection(const record& r, verdict how) const
{
    if (how == verdict::give_back)
        return r.begun ? "a handler had it" : "";
    if (r.hops) {
        if (r.begun)
            return "a handler had it before its time";
        if (how == verdict::requeue)
            return ""; // its copy failed
        return how == verdict::ack && (is_there(r) || shape_.order == settle::copies::unconfirmed)
                   ? ""
                   : "it was to be sent on";
    }
    if (!r.decided)
        return r.begun ? "its handler was not done" : "no handler was called";
    switch (*r.decided) {
    case decision::ack:
        return how == verdict::ack ? "" : "its handler said ack";
    case decision::drop:
        return how == verdict::drop ? "" : "its handler said drop";
    case decision::fail:
        if (shape_.on_error == settle::on_failure::drop)
            return how == verdict::drop ? "" : "its handler failed, which is a drop";
        break;
    case decision::retry:
    case decision::retry_after:
        break;
    }
    return objection_to_retry(r, how);
}

bool witness::is_there(const record& r) const
{
    const auto& f = fates_.at(r.body);
    return broker_.instances(r.body) != 0 || f.done || f.copied.contains(r.attempt);
}

std::string witness::objection_to_retry(const record& r, verdict how) const
{
    if (how == verdict::requeue)
        return "";
    const bool any_order = shape_.order == settle::copies::unconfirmed;
    const bool copied = is_there(r);
    if (how == verdict::ack) {
        if (!shape_.delay.copies())
            return "its handler wants it again";
        return copied || any_order ? "" : "its handler wants it again, and there is no copy";
    }
    if (copied || shape_.keeps_in_process())
        return "";
    if (at_limit(r) && !shape_.dead_letter)
        return "";
    return "its handler wants it again, and it is nowhere";
}

void witness::settled(const broker_model::traced& d, verdict how)
{
    auto& r = deliveries_[d.number];
    ++counts_.settled[static_cast<std::size_t>(how)];
    if (prints_notes_)
        note(fmt::format("{} #{} tag {}: {}", name(how), d.number, d.tag, short_name(d.body)));
    if (std::exchange(r.settled, true))
        violation(
            fmt::format("delivery #{} of {} was settled twice", d.number, short_name(d.body)));
    if (const auto wrong = objection(r, how); !wrong.empty())
        violation(fmt::format("{} of delivery #{} of {}: {}", name(how), d.number,
                              short_name(d.body), wrong));
    if (how != verdict::ack && how != verdict::drop)
        return;
    if (r.decided && (is_final(*r.decided) || (at_limit(r) && !shape_.dead_letter)))
        fates_[d.body].done = true;
}

void witness::entered(const std::string& queue, const broker_model::message& m)
{
    const auto headers = wire::properties_view(m.properties).headers().value_or(wire::table_view{});
    const auto attempt = settle::copies_counted(headers, settle::default_counter_header);
    if (attempt != 0)
        fates_[m.body].copied.insert(attempt);
    if (queue != "work")
        return;
    if (prints_notes_)
        note(fmt::format("{} comes to the queue, copy {}, {} to wait", short_name(m.body), attempt,
                         settle::left_to_wait(headers)));
    if (attempt == 0 || settle::left_to_wait(headers).count() != 0)
        return;
    const auto& due = fates_[m.body].due;
    const auto found = due.find(attempt);
    if (found == due.end()) {
        violation(
            fmt::format("a copy {} of {} that no handler asked for", attempt, short_name(m.body)));
        return;
    }
    const auto now = runtime::loop::current().now();
    if (stopping_)
        return;
    if (now > found->second + late_max())
        violation(fmt::format("{} comes {} too late", short_name(m.body), now - found->second));
    if (now >= found->second)
        return;
    if (on_their_way_ != 0) { // published early, and its process ended before it was confirmed
        --on_their_way_;
        return;
    }
    ++early_;
    // A budget may be used up; then the report counts it.
    if (shape_.delay.kind() != settle::delay::mode::hold || shape_.delay.overflow() != nullptr)
        violation(fmt::format("{} comes {} too early", short_name(m.body), found->second - now));
}

void witness::vanished(const std::string& body, std::string_view why)
{
    if (why != "rejected") // that is a settlement, which has been looked at
        violation(fmt::format("{} vanished: {}", short_name(body), why));
}

/// How late a delayed copy may be where nothing disturbs it. Without limit among faults, behind a
/// narrow stream, and where a short delay waits behind a longer one.
std::chrono::nanoseconds witness::late_max() const
{
    using settle::delay;
    const auto* const beyond = shape_.delay.overflow();
    const auto kind = beyond != nullptr ? beyond->kind() : shape_.delay.kind();
    // Where one attempt may be decided twice, nobody can tell which decision a copy follows.
    const bool once = shape_.calm() && shape_.end == ending::when_quiet && !shape_.pause &&
                      !(shape_.quorum && shape_.delay.copies()) &&
                      (shape_.quorum || shape_.max_attempts); // else a retry() counts nothing
    if (!once || shape_.capacity < 65536 || shape_.body_max > 1000 || kind == delay::mode::dlx_ttl)
        return std::chrono::hours(1);
    // To the broker and back for each hop, which also waits for its turn in the queue.
    const auto trips = 20 * shape_.on_the_way + std::chrono::milliseconds(30);
    if (kind != delay::mode::buckets)
        return trips;
    const auto& steps = (beyond != nullptr ? *beyond : shape_.delay).steps();
    return steps.front() + 10 * (trips + shape_.handlers.work_max * shape_.patience_in_queue());
}

// ---- What handlers saw ---------------------------------------------------------------------------

std::uint64_t witness::begin(const std::string& body, std::uint64_t tag, std::uint32_t attempt)
{
    ++counts_.begun;
    auto& f = fates_[body];
    ++f.calls;
    const std::uint32_t allowed = shape_.plain ? 1 : shape_.concurrency;
    if (++in_handler_ > allowed)
        violation(fmt::format("{} handlers at once, {} are allowed", in_handler_, allowed));
    const auto found = latest_.find({body, tag});
    if (found == latest_.end()) {
        violation(fmt::format("a handler was given {} with tag {}, which was never delivered",
                              short_name(body), tag));
        return 0;
    }
    auto& r = deliveries_[found->second];
    if (std::exchange(r.begun, true))
        violation(
            fmt::format("delivery #{} of {} was handled twice", found->second, short_name(body)));
    r.attempt = attempt;
    if (shape_.max_attempts) {
        if (attempt > *shape_.max_attempts)
            violation(fmt::format("attempt {} of {}, {} are allowed", attempt, short_name(body),
                                  *shape_.max_attempts));
    }
    if (prints_notes_)
        note(fmt::format("handler begins #{} {} attempt {}", found->second, short_name(body),
                         attempt));
    return found->second;
}

void witness::end(std::uint64_t number, decision decided, std::chrono::nanoseconds delay)
{
    --in_handler_;
    ++counts_.decided[static_cast<std::size_t>(decided)];
    auto& r = deliveries_[number];
    r.decided = decided;
    if (!is_final(decided)) {
        const auto due = runtime::later(runtime::loop::current().now(), delay);
        const auto [found, fresh] = fates_[r.body].due.emplace(r.attempt, due);
        found->second = std::min(found->second, due);
    }
    if (prints_notes_)
        note(fmt::format("handler ends #{} {}: {} {}", number, short_name(r.body), name(decided),
                         delay));
}

void witness::give_up(std::uint64_t number)
{
    --in_handler_;
    ++counts_.given_up;
    if (prints_notes_)
        note(fmt::format("handler of #{} is cancelled", number));
}

// ---- At the end ----------------------------------------------------------------------------------

std::size_t witness::nowhere() const
{
    return static_cast<std::size_t>(
        std::count_if(fates_.begin(), fates_.end(), [this](const auto& each) {
            return !each.second.done && !each.second.forgiven && broker_.instances(each.first) == 0;
        }));
}

void witness::stopping()
{
    note("stop");
    stopping_ = true;
}

void witness::forgive_lost(std::uint64_t most)
{
    std::uint64_t lost = 0;
    for (auto& [body, f] : fates_) {
        if (f.done || broker_.instances(body) != 0)
            continue;
        if (++lost <= most)
            f.forgiven = true;
    }
    if (lost > most)
        violation(
            fmt::format("{} messages went with the process, the report knows of {}", lost, most));
}

void witness::expect_nothing_lost(bool finished)
{
    std::map<std::string, std::size_t> dead;
    if (broker_.has("dead")) {
        for (const auto& m : broker_.queues().at("dead").ready)
            ++dead[m.body];
    }
    for (const auto& [body, f] : fates_) {
        const std::size_t left = broker_.instances(body);
        if (left == 0 && !f.done && !f.forgiven)
            violation(fmt::format("{} is lost", short_name(body)));
        const auto buried = dead.find(body);
        if (finished && left != (buried == dead.end() ? 0 : buried->second))
            violation(fmt::format("{} was left behind", short_name(body)));
        if (shape_.calm() && shape_.end == ending::when_quiet && shape_.counts_exactly() &&
            f.calls > *shape_.max_attempts)
            violation(fmt::format("{} was handled {} times", short_name(body), f.calls));
    }
    if (broker_.unknown_tags != 0)
        violation(fmt::format("{} settlements of unknown tags", broker_.unknown_tags));
    if (broker_.beyond_prefetch != 0)
        violation("the model delivered beyond the prefetch");
}

} // namespace acquit::testing
