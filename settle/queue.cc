#include <acquit/settle/queue.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace acquit::settle {

namespace detail {

queue_base::queue_base(std::string name, queue_kind kind)
{
    description_.name = std::move(name);
    description_.kind = kind;
    if (kind != queue_kind::existing)
        description_.set_argument("x-queue-type", settle::name(kind));
}

void queue_base::set_prefetch(std::uint32_t count)
{
    if (count > std::numeric_limits<std::uint16_t>::max()) {
        description_.add_problem(fmt::format("a prefetch of {}: AMQP allows 1 to 65535", count));
        return;
    }
    if (description_.kind == queue_kind::quorum)
        count = std::min<std::uint32_t>(count, quorum_prefetch_max);
    description_.prefetch = static_cast<std::uint16_t>(count);
}

void queue_base::set_bind(std::string exchange, std::string key, amqp::wire::table arguments)
{
    description_.bindings.push_back({std::move(exchange), std::move(key), std::move(arguments)});
}

void queue_base::set_milliseconds(std::string_view argument, std::chrono::milliseconds value,
                                  std::int64_t least)
{
    set_number(argument, value.count(), least, std::numeric_limits<std::int64_t>::max());
}

void queue_base::set_number(std::string_view argument, std::int64_t value, std::int64_t least,
                            std::int64_t most)
{
    if (value < least)
        description_.add_problem(
            fmt::format("the argument {} is {}: it must be at least {}", argument, value, least));
    else if (value > most)
        description_.add_problem(
            fmt::format("the argument {} is {}: it must be at most {}", argument, value, most));
    else
        description_.set_argument(argument, value);
}

} // namespace detail

existing_queue::existing_queue(std::string name)
    : consumer_steps{std::move(name), queue_kind::existing}
{
}

classic_queue::classic_queue(std::string name) : queue_steps{std::move(name), queue_kind::classic}
{
}

classic_queue& classic_queue::durable(bool yes)
{
    description_.durable = yes;
    return *this;
}

classic_queue& classic_queue::exclusive(bool yes)
{
    description_.exclusive = yes;
    return *this;
}

classic_queue& classic_queue::auto_delete(bool yes)
{
    description_.auto_delete = yes;
    return *this;
}

classic_queue& classic_queue::max_priority(std::uint32_t most)
{
    set_number("x-max-priority", most, 1, 255);
    return *this;
}

quorum_queue::quorum_queue(std::string name) : queue_steps{std::move(name), queue_kind::quorum} {}

quorum_queue& quorum_queue::delivery_limit(std::int64_t returns)
{
    set_number("x-delivery-limit", returns, -1, std::numeric_limits<std::int64_t>::max());
    return *this;
}

quorum_queue& quorum_queue::initial_group_size(std::uint32_t members)
{
    set_number("x-quorum-initial-group-size", members, 1, std::numeric_limits<std::int32_t>::max());
    return *this;
}

quorum_queue& quorum_queue::at_least_once_dead_lettering()
{
    argument("x-dead-letter-strategy", "at-least-once");
    return overflow(overflow_policy::reject_publish);
}

quorum_queue& quorum_queue::delayed_retry(std::chrono::milliseconds min,
                                          std::chrono::milliseconds max)
{
    argument("x-delayed-retry-type", "failed");
    set_milliseconds("x-delayed-retry-min", min, 1);
    set_milliseconds("x-delayed-retry-max", max, std::max<std::int64_t>(min.count(), 1));
    return *this;
}

} // namespace acquit::settle
