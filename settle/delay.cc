#include <acquit/settle/delay.h>
#include <acquit/settle/detail/descriptor_text.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace acquit::settle {

namespace {

using std::chrono::milliseconds;

constexpr std::string_view server_prefix = "amq.";

// From a second to an hour by factors of two to five: a delay is reached in few hops.
const std::vector<milliseconds>& default_steps()
{
    static const std::vector<milliseconds> steps{milliseconds(1'000),     milliseconds(2'500),
                                                 milliseconds(5'000),     milliseconds(15'000),
                                                 milliseconds(60'000),    milliseconds(300'000),
                                                 milliseconds(1'200'000), milliseconds(3'600'000)};
    return steps;
}

} // namespace

delay delay::hold(std::uint32_t budget)
{
    delay d;
    d.mode_ = mode::hold;
    d.budget_ = budget;
    return d;
}

delay delay::dlx_ttl(std::string waiting_queue)
{
    delay d;
    d.mode_ = mode::dlx_ttl;
    d.name_ = std::move(waiting_queue);
    return d;
}

delay delay::buckets(std::vector<milliseconds> steps)
{
    delay d;
    d.mode_ = mode::buckets;
    if (steps.empty())
        d.steps_ = default_steps();
    else
        d.steps_ = std::move(steps);
    return d;
}

delay delay::plugin_dme(std::string exchange)
{
    delay d;
    d.mode_ = mode::plugin_dme;
    d.name_ = std::move(exchange);
    return d;
}

delay delay::native(milliseconds min, milliseconds max)
{
    delay d;
    d.mode_ = mode::native;
    d.min_ = min;
    d.max_ = max;
    return d;
}

delay delay::overflow_to(const delay& beyond) const
{
    delay d = *this;
    d.overflow_ = std::make_shared<const delay>(beyond);
    return d;
}

delay delay::waiting_in(queue_kind kind) const
{
    delay d = *this;
    d.waiting_kind_ = kind;
    return d;
}

std::string delay::target(const std::string& queue) const
{
    if (!name_.empty())
        return name_;
    // Names that begin with amq. can be chosen by the server alone (RabbitMQ: 403 on declare).
    const std::size_t from = queue.starts_with(server_prefix) ? server_prefix.size() : 0;
    return queue.substr(from) + (mode_ == mode::plugin_dme ? ".delay" : ".retry");
}

std::string delay::bucket(const std::string& queue, milliseconds step) const
{
    return fmt::format("{}.{}", target(queue), step.count());
}

bool delay::copies() const noexcept
{
    return mode_ == mode::dlx_ttl || mode_ == mode::buckets || mode_ == mode::plugin_dme ||
           (overflow_ != nullptr && overflow_->copies());
}

milliseconds delay::step_for(std::chrono::nanoseconds left) const
{
    const auto above = std::upper_bound(steps_.begin(), steps_.end(), left);
    return above == steps_.begin() ? steps_.front() : *std::prev(above);
}

std::optional<std::string> delay::target_problem(const queue_description& queue) const
{
    if (mode_ != mode::dlx_ttl && mode_ != mode::buckets && mode_ != mode::plugin_dme)
        return std::nullopt;
    const auto longest =
        mode_ == mode::buckets ? bucket(queue.name, steps_.back()) : target(queue.name);
    if (longest.size() > detail::short_string_max)
        return fmt::format("the delay would wait in '{}...', a name of {} bytes, and AMQP allows "
                           "{}: give the delay a shorter one",
                           longest.substr(0, 64), longest.size(), detail::short_string_max);
    if (name_.starts_with(server_prefix))
        return fmt::format("the delay waits in '{}': names that begin with amq. belong to the "
                           "server, choose another one",
                           name_);
    if (mode_ == mode::dlx_ttl && name_ == queue.name && !name_.empty())
        return fmt::format("the delay waits in '{}', the queue itself: give it a queue of its own",
                           name_);
    return std::nullopt;
}

std::optional<std::string> delay::problem(const queue_description& queue,
                                          bool declare_topology) const
{
    const bool quorum = queue.kind == queue_kind::quorum;
    if (overflow_ != nullptr) {
        if (mode_ != mode::hold)
            return "overflow_to belongs to delay::hold, which alone can be full";
        if (overflow_->mode_ != mode::dlx_ttl && overflow_->mode_ != mode::buckets)
            return "overflow_to takes delay::dlx_ttl or delay::buckets";
        if (auto inner = overflow_->problem(queue, declare_topology))
            return inner;
    }
    if (waiting_kind_ && mode_ != mode::dlx_ttl && mode_ != mode::buckets)
        return "waiting_in belongs to delay::dlx_ttl and delay::buckets, which have waiting queues";
    if (waiting_kind_ == queue_kind::existing)
        return "waiting_in takes queue_kind::classic or queue_kind::quorum";
    if (auto wrong = target_problem(queue))
        return wrong;
    switch (mode_) {
    case mode::hold:
        if (budget_ == 0 || budget_ >= queue.prefetch)
            return fmt::format("delay::hold({}) with a prefetch of {}: each held delivery uses a "
                               "slot, so give at least 1 and less than the prefetch",
                               budget_, queue.prefetch);
        break;
    case mode::buckets:
        if (steps_.front() < milliseconds(1) ||
            std::adjacent_find(steps_.begin(), steps_.end(), std::greater_equal<>{}) !=
                steps_.end())
            return "delay::buckets: steps must ascend, from 1 ms on";
        if (steps_.back() > std::chrono::hours(24 * 365))
            return "delay::buckets: a step may be a year at most";
        break;
    case mode::native:
        if (!quorum)
            return "delay::native is a feature of quorum queues: declare a quorum_queue, or use "
                   "delay::dlx_ttl";
        if (min_ < milliseconds(1) || max_ < min_)
            return fmt::format(
                "delay::native({} ms, {} ms): min is at least 1 ms and max not below it",
                min_.count(), max_.count());
        if (!declare_topology)
            return "delay::native is made of arguments of the queue: use declare_topology(true), "
                   "or declare the queue with x-delayed-retry-type, -min and -max yourself and "
                   "leave delay::native out";
        break;
    case mode::none:
    case mode::dlx_ttl:
    case mode::plugin_dme:
        break;
    }
    return std::nullopt;
}

std::string_view name(delay::mode m) noexcept
{
    switch (m) {
    case delay::mode::none:
        return "none";
    case delay::mode::hold:
        return "hold";
    case delay::mode::dlx_ttl:
        return "dlx_ttl";
    case delay::mode::buckets:
        return "buckets";
    case delay::mode::plugin_dme:
        return "plugin_dme";
    case delay::mode::native:
        return "native";
    }
    return "unknown";
}

std::uint64_t expiration_ms(std::chrono::nanoseconds d) noexcept
{
    if (d.count() <= 0)
        return 1;
    const auto up = static_cast<std::uint64_t>(std::chrono::ceil<milliseconds>(d).count());
    return std::min(up, expiration_max_ms);
}

} // namespace acquit::settle
