// What a queue that exists has in other arguments than ours, as far as the broker tells.
//
// RabbitMQ refuses a queue.declare that does not fit (406) and names one argument, the first that
// differs:
//
//     PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/':
//         received '20' but current is '10'
//         received none but current is the value '10' of type 'signedint'
//         received the value '20' of type 'signedint' but current is none
//
// Asked again with the broker's own value it names the next one, until nothing differs: then the
// arguments that were sent are its arguments (of those that it compares: unknown ones are not). The
// text has 255 bytes at most: with long names its end is missing, and leaving out our own value makes
// room for the broker's.
#pragma once

#include <acquit/amqp/connection.h>
#include <acquit/runtime/task.h>
#include <acquit/settle/queue_description.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::settle::detail {

struct argument_conflict {
    std::string argument; // also durable, auto_delete, exclusive
    // "none" where it is absent; nothing where the text ends before it.
    std::optional<std::string> theirs;

    friend bool operator==(const argument_conflict&, const argument_conflict&) = default;
};

// From the text of a 406; nothing if it says anything else.
[[nodiscard]] std::optional<argument_conflict> conflict_in(std::string_view text);

// Gives `queue` the value that the broker has; false if it has that already, or it cannot be told
// which value that is.
bool take_over(queue_description& queue, const argument_conflict& conflict);

struct queue_difference {
    std::string argument;
    std::string ours;
    std::string theirs;
};

struct queue_differences {
    std::vector<queue_difference> found;
    queue_description theirs; // ours, with what was found
    bool complete = false;    // nothing else differs
};

// Of a queue that exists. Declares nothing: each question is preceded by a look whether the queue is
// still there. Never throws for what the broker refuses; it ends then.
[[nodiscard]] runtime::task<queue_differences> find_differences(amqp::connection& c,
                                                                queue_description ours);

// "the one that exists has, as far as the broker tells, arguments {...}: x-max-length is 10 there and 20 here; ..."
[[nodiscard]] std::string describe(const queue_differences& differences);

} // namespace acquit::settle::detail
