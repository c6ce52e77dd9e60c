// What the tests of topology share.
#pragma once

#include "broker.h"

#include <acquit/settle/topology.h>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace acquit::tests {

inline void expect_says(const std::string& text, const std::vector<std::string>& parts)
{
    for (const auto& part : parts)
        EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

/// What a start_error says; other errors are no answer.
inline task<std::string> refusal_of(task<> what)
{
    try {
        co_await std::move(what);
    } catch (const settle::start_error& refused) {
        co_return refused.what();
    }
    co_return "(it was done)";
}
inline task<std::string> refusal_of(task<std::string> what)
{
    try {
        (void)co_await std::move(what);
    } catch (const settle::start_error& refused) {
        co_return refused.what();
    }
    co_return "(it was done)";
}

/// A name that leaves room in the broker's words, which end after 255 bytes.
inline std::string brief(std::string_view suffix)
{
    static int made = 0;
    return "topology." + std::to_string(getpid()) + "." + std::to_string(++made) +
           std::string(suffix);
}

/// The broker's own list: type, flags and arguments of a queue.
inline std::string listed(const std::string& queue)
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

inline task<> remove(amqp::channel& ch, std::string queue)
{
    (void)co_await ch.delete_queue({.queue = queue});
}

} // namespace acquit::tests
