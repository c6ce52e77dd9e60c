#include "faults.h"

#include <acquit/runtime/timer.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace acquit::testing {

const char* name(fault_kind f) noexcept
{
    switch (f) {
    case fault_kind::cut:
        return "cut";
    case fault_kind::lost_frame:
        return "lost frame";
    case fault_kind::last_frame:
        return "last frame";
    case fault_kind::reset:
        return "reset";
    case fault_kind::hang_up:
        return "hang-up";
    case fault_kind::server_closes:
        return "server closes";
    case fault_kind::channel_closed:
        return "channel closed";
    case fault_kind::consumer_ended:
        return "consumer ended";
    case fault_kind::deaf:
        return "deaf";
    case fault_kind::mute:
        return "mute";
    case fault_kind::blocked:
        return "blocked";
    case fault_kind::refused:
        return "refused";
    case fault_kind::silent:
        return "silent";
    case fault_kind::returned:
        return "returned";
    case fault_kind::nacked:
        return "nacked";
    case fault_kind::confirmed_late:
        return "confirmed late";
    case fault_kind::unconfirmed:
        return "unconfirmed";
    case fault_kind::count_:
        break;
    }
    return "?";
}

faults::faults(const shape& s, host& there, witness& seen, std::string queue)
    : shape_(s), host_(there), witness_(seen), queue_(std::move(queue)),
      random_(runtime::random_source(s.seed + 1)())
{
    host_.model.before = [this](peer& p, const said&) { return on_frame(p); };
    if (!s.calm())
        host_.model.on_publish = [this](const said& what) { return on_publish(what); };
}

faults::~faults()
{
    host_.model.before = nullptr;
    host_.model.on_publish = nullptr;
}

std::uint64_t faults::total() const noexcept
{
    return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

std::chrono::nanoseconds faults::up_to(std::chrono::nanoseconds most)
{
    return std::chrono::nanoseconds(random_.below(static_cast<std::uint64_t>(most.count()) + 1));
}

task<> faults::inject()
{
    const auto end = runtime::loop::current().now() + shape_.trouble;
    auto next = runtime::loop::current().now() + up_to(2 * shape_.between_faults);
    for (;;) {
        // The ends of lasting faults are events of this loop, too: one timer for all.
        auto until = next;
        for (const auto& each : pending_)
            until = std::min(until, each.due);
        if (until >= end)
            break;
        co_await runtime::sleep_until(until);
        const auto now = runtime::loop::current().now();
        std::vector<pending> due;
        std::erase_if(pending_, [&](pending& each) {
            if (each.due > now)
                return false;
            due.push_back(std::move(each));
            return true;
        });
        std::sort(due.begin(), due.end(),
                  [](const pending& a, const pending& b) { return a.order < b.order; });
        for (auto& each : due)
            each.what();
        if (now >= next) {
            one();
            next = now + up_to(2 * shape_.between_faults) + std::chrono::microseconds(1);
        }
    }
    co_await runtime::sleep_until(end);
    heal();
}

void faults::later(std::chrono::nanoseconds after, std::function<void()> what)
{
    pending_.push_back({runtime::loop::current().now() + after, order_++, std::move(what)});
}

std::vector<peer*> faults::alive()
{
    std::vector<peer*> found;
    for (std::size_t i = 0; i < host_.connects(); ++i) {
        if (!host_.at(i).is_over() && host_.at(i).session().is_open() &&
            !doomed_.contains(&host_.at(i)))
            found.push_back(&host_.at(i));
    }
    return found;
}

void faults::one()
{
    const auto what =
        static_cast<fault_kind>(random_.below(static_cast<std::uint64_t>(fault_kind::returned)));
    const auto there = alive();
    if (there.empty())
        return; // it shall come back before more goes wrong
    auto& victim = *there[random_.below(there.size())];
    if (what == fault_kind::refused) {
        host_.refuse(random_.between(1, 3));
    } else if (what == fault_kind::silent) {
        host_.be_silent();
        later(up_to(std::chrono::seconds(12)), [this] { host_.be_silent(false); });
    } else {
        apply(what, victim);
        return;
    }
    ++counts_[static_cast<std::size_t>(what)];
    witness_.note(fmt::format("FAULT: {}", name(what)));
    if (random_.below(2) == 0)
        apply(fault_kind::reset, victim); // so that there is somebody to be refused
}

void faults::apply(fault_kind what, peer& p)
{
    const auto heartbeat = std::chrono::seconds(shape_.heartbeat_s);
    switch (what) {
    case fault_kind::cut:
        p.cut_after(random_.below(random_.below(2) == 0 ? 60 : 3000));
        cut_.insert(&p);
        break;
    case fault_kind::lost_frame:
    case fault_kind::last_frame:
        countdowns_[&p] = {random_.between(1, 12), what == fault_kind::last_frame};
        break;
    case fault_kind::reset:
        doomed_.insert(&p);
        p.reset();
        break;
    case fault_kind::hang_up:
        doomed_.insert(&p);
        p.hang_up();
        break;
    case fault_kind::server_closes:
        p.close(wire::reply_code::connection_forced, "CONNECTION_FORCED - simulated");
        break;
    case fault_kind::channel_closed: {
        const auto consuming = p.channel_of<wire::basic::consume>();
        const auto number =
            random_.below(3) == 0 ? static_cast<std::uint16_t>(random_.between(1, 4)) : consuming;
        if (number == 0 ||
            !host_.model.close_channel(p, number, wire::reply_code::precondition_failed,
                                       "PRECONDITION_FAILED - simulated"))
            return;
        break;
    }
    case fault_kind::consumer_ended:
        host_.model.cancel_consumers(queue_);
        break;
    case fault_kind::deaf:
        p.stop_listening();
        later(up_to(random_.below(4) == 0 ? 4 * heartbeat : heartbeat), [&p] { p.listen(); });
        break;
    case fault_kind::mute:
        p.freeze();
        later(up_to(random_.below(4) == 0 ? 4 * heartbeat : heartbeat), [&p] { p.thaw(); });
        break;
    case fault_kind::blocked:
        p.block("low on memory");
        later(up_to(std::chrono::seconds(5)), [&p] {
            if (!p.is_over() && p.session().is_open())
                p.unblock();
        });
        break;
    case fault_kind::refused:
    case fault_kind::silent:
    case fault_kind::returned:
    case fault_kind::nacked:
    case fault_kind::confirmed_late:
    case fault_kind::unconfirmed:
    case fault_kind::count_:
        return;
    }
    ++counts_[static_cast<std::size_t>(what)];
    witness_.note(fmt::format("FAULT: {}", name(what)));
}

bool faults::on_frame(peer& p)
{
    if (doomed_.contains(&p))
        return true;
    const auto found = countdowns_.find(&p);
    if (found == countdowns_.end() || --found->second.frames != 0)
        return false;
    const bool answered = found->second.answered;
    countdowns_.erase(found);
    witness_.note("FAULT: the connection breaks at this frame");
    if (!answered) {
        doomed_.insert(&p);
        p.reset();
        return true;
    }
    // After the answer stands in its output, and perhaps on its way.
    runtime::loop::current().post([this, &p] {
        doomed_.insert(&p);
        p.reset();
    });
    return false;
}

broker_model::publish_fate faults::on_publish(const said& what)
{
    using kind = broker_model::publish_fate::kind;
    if (healed_ || random_.below(100) >= shape_.copy_trouble)
        return {};
    const auto count = [this](fault_kind f) {
        ++counts_[static_cast<std::size_t>(f)];
        witness_.note(fmt::format("FAULT: the next copy is {}", name(f)));
    };
    const auto dice = random_.below(10);
    if (dice < 2 && what.mandatory) {
        count(fault_kind::returned);
        return {.what = kind::returned, .delay = up_to(std::chrono::milliseconds(100))};
    }
    if (dice < 5) {
        count(fault_kind::nacked);
        return {.what = kind::nacked, .delay = up_to(std::chrono::milliseconds(100))};
    }
    if (dice < 9) {
        count(fault_kind::confirmed_late);
        return {.delay = up_to(std::chrono::seconds(random_.below(4) == 0 ? 40 : 1))};
    }
    count(fault_kind::unconfirmed);
    return {.delay = runtime::duration::max()};
}

void faults::heal()
{
    healed_ = true;
    witness_.note("faults are over");
    for (auto& each : std::exchange(pending_, {}))
        each.what();
    host_.refuse(0);
    host_.be_silent(false);
    countdowns_.clear();
    // What would break later breaks now: from here on nothing does.
    for (peer* each : std::exchange(cut_, {})) {
        if (!each->is_over()) {
            doomed_.insert(each);
            each->reset();
        }
    }
}

} // namespace acquit::testing
