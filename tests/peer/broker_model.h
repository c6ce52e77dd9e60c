#pragma once

#include "peer.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::testing {

/// As much of a broker as a service needs: queues that outlive connections, prefetch, a list of
/// unsettled deliveries per channel that refuses unknown tags (406, as RabbitMQ does), redelivery,
/// publisher confirms. Serves any number of peers. No exchanges: what is published to the default
/// exchange reaches the queue of that name or is returned.
class broker_model {
public:
    struct message {
        std::string body;
        std::vector<std::byte> properties;
        std::uint32_t deliveries = 0;
        std::uint64_t position = 0; ///< where it stands again when it is returned
    };
    struct queue {
        std::deque<message> ready;
        std::vector<std::string> acked; ///< bodies, in the order of their acks
        std::vector<std::string> dropped;
        std::uint64_t requeued = 0;       ///< by basic.reject
        std::uint64_t given_back = 0;     ///< by basic.nack
        std::uint64_t lost_unsettled = 0; ///< went back because their channel ended
        std::uint64_t unsettled = 0;
        std::uint64_t delivered = 0;
        std::uint64_t consumers = 0;
    };

    /// Answers what this peer's client says, from now on.
    void serve(peer& p);

    /// Messages with bodies "0" to "count - 1", or with the given prefix before the number.
    void put(const std::string& name, std::size_t count, std::string_view prefix = "");
    void put_body(const std::string& name, std::string body);
    queue& operator[](const std::string& name) { return queues_[name]; }
    /// basic.cancel to every consumer of the queue.
    void cancel_consumers(const std::string& name);
    /// The queue goes, with its consumers.
    void remove(const std::string& name);

    /// Asked first; true: the test has answered, or wants no answer.
    std::function<bool(peer& p, const said& what)> before{};

    std::uint64_t unknown_tags = 0; ///< settlements that were refused with 406

private:
    struct unsettled {
        std::string queue;
        std::string consumer;
        message m;
    };
    struct consumer {
        std::string tag;
        std::string queue;
        bool no_ack;
        std::uint16_t prefetch;
        std::size_t outstanding = 0;
    };
    struct channel {
        peer* owner = nullptr;
        std::uint16_t number = 0;
        std::uint16_t prefetch = 0;
        std::uint64_t next_tag = 1;
        std::uint64_t publishes = 0;
        bool confirms = false;
        std::map<std::uint64_t, unsettled> open;
        std::vector<consumer> consumers;
    };
    using key = std::pair<peer*, std::uint16_t>;

    void answer(peer& p, const said& what);
    void declare(peer& p, const said& what);
    void consume(channel& c, const said& what);
    void cancel(channel& c, const said& what);
    void publish(channel& c, const said& what);
    void get(channel& c, const said& what);
    enum class verdict { ack, drop, requeue, give_back };
    void settle(channel& c, std::uint64_t tag, bool multiple, verdict how);
    void add(const std::string& name, std::string body, std::vector<std::byte> properties = {});
    static void put_back(queue& q, message m);
    void settle_one(channel& c, std::map<std::uint64_t, unsettled>::iterator which, verdict how);
    void end(channel& c);
    void end(peer& p);
    void pump();
    void pump(channel& c);
    void deliver(channel& c, consumer& to);

    std::map<std::string, queue> queues_;
    std::map<key, channel> channels_;
    std::uint64_t names_ = 0;
    std::uint64_t positions_ = 0;
    bool pumping_ = false;
};

} // namespace acquit::testing
