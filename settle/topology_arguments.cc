#include <acquit/settle/detail/descriptor_text.h>
#include <acquit/settle/queue.h>
#include <acquit/settle/topology_arguments.h>

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace acquit::settle {
namespace {

// From here on -1 is no limit; before, it dead-letters at the first return.
constexpr server_version unlimited_by_minus_one{4, 0, 0};

std::string about(const queue_description& queue, std::string_view what)
{
    return fmt::format("{}: {}", detail::quoted("queue", queue.name), what);
}

void check_against_server(const queue_description& queue, const amqp::wire::table& arguments,
                          server_version server, std::vector<std::string>& problems)
{
    if (queue.kind != queue_kind::quorum)
        return;
    if (integer_argument(arguments, "x-delivery-limit") == -1 && server < unlimited_by_minus_one)
        problems.push_back(
            about(queue,
                  fmt::format("a delivery_limit of -1 means no limit from RabbitMQ 4.0 on, but "
                              "none at all on this {}: leave it out, no limit is the default there",
                              server.text())));
    const auto delayed = text_argument(arguments, "x-delayed-retry-type");
    if (delayed && *delayed != "disabled" && server < delayed_retry_since)
        problems.push_back(about(queue, needs_delayed_retry(server)));
    if (text_argument(arguments, "x-dead-letter-strategy") == "at-least-once" &&
        !arguments.contains("x-dead-letter-exchange"))
        problems.push_back(about(queue, "at_least_once_dead_lettering needs a "
                                        "dead_letter_exchange, or max_attempts with dead_letter"));
}

void add_native_delay(const queue_description& queue, const delay& waiting,
                      declared_arguments& result)
{
    if (waiting.kind() != delay::mode::native)
        return;
    if (const auto problem = waiting.problem(queue, true)) {
        result.problems.push_back(about(queue, *problem));
        return;
    }
    amqp::wire::table native;
    native.set("x-delayed-retry-type", "failed")
        .set("x-delayed-retry-min", std::int64_t{waiting.min().count()})
        .set("x-delayed-retry-max", std::int64_t{waiting.max().count()});
    for (const auto& field : native.view()) {
        amqp::wire::table one;
        one.set_raw(field.name, field.value);
        if (const auto conflict = detail::merge_argument(result.table, field.name, one);
            !conflict.empty())
            result.problems.push_back(about(
                queue, fmt::format("delay::native({} ms, {} ms) contradicts the queue's own steps: "
                                   "{}",
                                   waiting.min().count(), waiting.max().count(), conflict)));
    }
}

} // namespace

server_version server_version::parse(std::string_view text) noexcept
{
    server_version version;
    const std::array<std::uint32_t*, 3> parts{&version.major, &version.minor, &version.patch};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (std::uint32_t* part : parts) {
        const auto [stop, error] = std::from_chars(at, end, *part);
        if (error != std::errc{} || stop == end || *stop != '.')
            break;
        at = stop + 1;
    }
    return version;
}

std::string server_version::text() const
{
    return fmt::format("{}.{}.{}", major, minor, patch);
}

std::vector<std::string> limit_problems(const queue_description& queue, const retry_limit& limit,
                                        bool declare_topology)
{
    std::vector<std::string> problems;
    const auto add = [&](std::string_view what) { problems.push_back(about(queue, what)); };

    if (limit.max_attempts == 0u)
        add("max_attempts(0) would allow no delivery at all: it counts the first one too, so give "
            "at least 1");
    if (limit.dead_letter &&
        (limit.dead_letter->empty() || limit.dead_letter->size() > detail::short_string_max))
        add(fmt::format("dead_letter names a queue of {} bytes: give a name of 1 to {}",
                        limit.dead_letter->size(), detail::short_string_max));
    if (limit.dead_letter && *limit.dead_letter == queue.name && !queue.name.empty())
        add("dead_letter names the queue itself: what reached the limit would come back; name "
            "another queue");
    if (limit.dead_letter && !limit.max_attempts)
        add("dead_letter without max_attempts has no limit to act on: add max_attempts(n)");
    if (limit.max_attempts.value_or(0) != 0 && queue.kind == queue_kind::existing)
        add("max_attempts on a queue of which only the name is known: whether the server counts "
            "depends on its type; use classic_queue or quorum_queue in place of the name");
    if (queue.kind != queue_kind::quorum || (!limit.max_attempts && !limit.dead_letter))
        return problems;

    // From here on the server keeps the limit, by arguments of the queue.
    if (limit.max_attempts && !limit.dead_letter)
        add("max_attempts without dead_letter: a quorum queue would drop what reached the limit; "
            "add dead_letter(name)");
    if (!declare_topology)
        add("max_attempts and dead_letter of a quorum queue are arguments of the queue: use "
            "declare_topology(true), or declare the queue with x-delivery-limit and a dead-letter "
            "exchange yourself and leave the pair out");
    const auto described = integer_argument(queue.arguments, "x-delivery-limit");
    if (described && limit.max_attempts && *described != std::int64_t{*limit.max_attempts} - 1)
        add(fmt::format("a delivery_limit of {} contradicts max_attempts({}), which sets it to {}: "
                        "keep one",
                        *described, *limit.max_attempts, std::int64_t{*limit.max_attempts} - 1));
    const auto key = text_argument(queue.arguments, "x-dead-letter-routing-key");
    if (key && limit.dead_letter && *key != *limit.dead_letter)
        add(fmt::format("a dead_letter_routing_key of '{}' contradicts dead_letter('{}'): keep one",
                        *key, *limit.dead_letter));
    return problems;
}

std::string needs_delayed_retry(server_version server)
{
    return fmt::format("delayed retries by the server (delay::native, delayed_retry) need RabbitMQ "
                       "4.3, and this is {}, which would ignore them: use another delay, such as "
                       "delay::dlx_ttl()",
                       server == server_version{} ? "no RabbitMQ" : "RabbitMQ " + server.text());
}

declared_arguments arguments_of(const queue_description& queue, const retry_limit& limit,
                                server_version server, const delay& waiting)
{
    declared_arguments result{queue.arguments, limit_problems(queue, limit, true), {}};
    add_native_delay(queue, waiting, result);
    if (queue.kind == queue_kind::quorum && result.problems.empty() && limit.max_attempts &&
        limit.dead_letter) {
        result.table.set("x-delivery-limit", std::int64_t{*limit.max_attempts} - 1);
        if (!result.table.contains("x-dead-letter-exchange"))
            result.table.set("x-dead-letter-exchange", "");
        result.table.set("x-dead-letter-routing-key", *limit.dead_letter);
    }
    check_against_server(queue, result.table, server, result.problems);
    return result;
}

declared_arguments dead_letter_arguments_of(const queue_description& queue, server_version server)
{
    declared_arguments result{queue.arguments, {}, {}};
    if (queue.kind == queue_kind::quorum) {
        const auto limit = integer_argument(queue.arguments, "x-delivery-limit");
        if (!queue.arguments.contains("x-delivery-limit") && server >= unlimited_by_minus_one)
            result.table.set("x-delivery-limit", std::int64_t{-1});
        else if (limit && *limit >= 0 && server >= count_travels_since)
            result.warnings.push_back(about(
                queue,
                fmt::format("this dead-letter queue has a delivery limit of {}, and on "
                            "RabbitMQ {} a message brings its delivery count along: it may be "
                            "dropped after its first return; use a classic queue, or "
                            "delivery_limit(-1)",
                            *limit, server.text())));
    }
    check_against_server(queue, result.table, server, result.problems);
    return result;
}

queue_description default_dead_letter_queue(std::string name)
{
    return classic_queue{std::move(name)};
}

} // namespace acquit::settle
