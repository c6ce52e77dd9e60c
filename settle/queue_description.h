/// What the steps of queue.h collapse into: a queue, its bindings and how it is consumed, as plain
/// data.
///
/// A string is a description too: of a queue that exists, whatever its type, of which nothing is
/// declared.
#pragma once

#include <acquit/amqp/wire/table.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace acquit::settle {

enum class queue_kind : std::uint8_t {
    existing, // named only: consumed as it is, never declared
    classic,
    quorum,
};

[[nodiscard]] std::string_view name(queue_kind kind) noexcept;

/// What happens to a message that would make the queue too long (RabbitMQ: x-overflow).
enum class overflow_policy : std::uint8_t {
    drop_head,      // the oldest leaves, dead-lettered where the queue has a dead-letter exchange
    reject_publish, // the new one is refused; its publisher gets a nack
    reject_publish_dlx, // refused and dead-lettered; classic queues only
};

[[nodiscard]] std::string_view name(overflow_policy policy) noexcept;

struct binding {
    std::string exchange;
    std::string key;
    amqp::wire::table arguments;
};

inline constexpr std::uint16_t default_prefetch = 256;
/// RabbitMQ: a consumer of a quorum queue never gets more than this many unsettled deliveries.
inline constexpr std::uint16_t quorum_prefetch_max = 2000;

/// AMQP 0-9-1 4.2.5.5: a field name is a short string.
inline constexpr std::size_t argument_name_max = 255;

struct queue_description {
    queue_description() = default;
    queue_description(std::string existing) : name{std::move(existing)} {}
    queue_description(const char* existing) : name{existing} {}

    std::string name; // "": the server chooses one (classic only)
    queue_kind kind = queue_kind::existing;
    bool durable = true;
    bool exclusive = false;
    bool auto_delete = false;
    amqp::wire::table
        arguments; // of queue.declare, x-queue-type included; see topology_arguments.h
    std::vector<binding> bindings;

    std::uint16_t prefetch = default_prefetch;
    amqp::wire::table consume_arguments; // of basic.consume

    std::vector<std::string> step_problems; // what the steps found as they were called

    /// Everything that is wrong with it, one text each: which queue, what, and what to do. Empty:
    /// usable.
    [[nodiscard]] std::vector<std::string> problems() const;

    /// Sets one declare argument; a second, different value for the same name is a problem.
    template <class Value>
    void set_argument(std::string_view argument, const Value& value)
    {
        amqp::wire::table one;
        if (argument.size() <= argument_name_max)
            one.set(argument, value);
        merge_argument(arguments, argument, one);
    }
    template <class Value>
    void set_consume_argument(std::string_view argument, const Value& value)
    {
        amqp::wire::table one;
        if (argument.size() <= argument_name_max)
            one.set(argument, value);
        merge_argument(consume_arguments, argument, one);
    }
    /// Adds to step_problems: "queue 'name': " + what.
    void add_problem(std::string_view what);

private:
    void merge_argument(amqp::wire::table& into, std::string_view argument,
                        const amqp::wire::table& one);
};

/// Reads an integer or a text argument back; nothing if it is absent or of another type.
[[nodiscard]] std::optional<std::int64_t> integer_argument(const amqp::wire::table& arguments,
                                                           std::string_view argument) noexcept;
[[nodiscard]] std::optional<std::string_view> text_argument(const amqp::wire::table& arguments,
                                                            std::string_view argument) noexcept;

} // namespace acquit::settle
