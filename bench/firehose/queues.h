#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::firehose {

struct consumer;

/// A queue is a number of messages, all alike. What comes back is delivered again before the rest,
/// with redelivered = 1; which body it had is not kept.
struct queue {
    std::string name;
    bool endless = false;
    std::uint64_t ready = 0;    ///< never delivered
    std::uint64_t returned = 0; ///< to be delivered again
    std::vector<consumer*> consumers{};

    [[nodiscard]] std::uint64_t available() const noexcept
    {
        return endless ? UINT64_MAX : ready + returned;
    }
};

/// Every name is a queue, made when it is first used; so many that a client can make us remember.
class queue_table {
public:
    static constexpr std::size_t size_max = 100'000;

    explicit queue_table(std::uint64_t messages) : messages_(messages) {}

    /// Null: too many of them.
    queue* find(std::string_view name)
    {
        if (const auto found = queues_.find(name); found != queues_.end())
            return &found->second;
        if (queues_.size() == size_max)
            return nullptr;
        queue made{.name = std::string(name), .endless = messages_ == 0, .ready = messages_};
        return &queues_.emplace(made.name, made).first->second;
    }
    /// The first consumer of an empty queue finds it full again.
    void refill(queue& q) const noexcept
    {
        if (q.consumers.empty() && q.ready + q.returned == 0)
            q.ready = messages_;
    }
    [[nodiscard]] bool all_empty() const noexcept
    {
        for (const auto& [name, q] : queues_) {
            if (q.available() != 0)
                return false;
        }
        return true;
    }

private:
    std::map<std::string, queue, std::less<>> queues_;
    std::uint64_t messages_;
};

} // namespace acquit::firehose
