#pragma once

#include "peer.h"

#include <acquit/amqp/wire/field_table.h>
#include <acquit/runtime/timer.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace acquit::testing {

/// As much of a broker as a service needs: queues that outlive connections, prefetch, a list of
/// unsettled deliveries per channel that refuses unknown tags (406, as RabbitMQ does), redelivery,
/// counted returns and limits of quorum queues, expiration, dead letters, publisher confirms. Serves
/// any number of peers, by the loop's time.
///
/// Exchanges know exact keys only; what reaches no queue is returned where it is mandatory. A message
/// is known by its body: `instances` says how many with this body are anywhere in the broker.
class broker_model {
public:
    /// Where a message died, and of what: RabbitMQ drops one that comes around to a queue again
    /// without having been rejected in between.
    struct death {
        std::string queue;
        std::string reason;
    };
    struct message {
        std::string body;
        std::vector<std::byte> properties;
        std::uint32_t deliveries = 0;
        std::uint64_t position = 0; ///< where it stands again when it is returned
        std::string exchange{};
        std::string routing_key{};
        std::int64_t returns = 0; ///< counted by a quorum queue
        runtime::time_point expires = runtime::time_point::max();
        std::vector<death> deaths{};
    };
    struct queue {
        std::deque<message> ready;
        std::vector<std::string> acked;   ///< bodies, in the order of their acks
        std::vector<std::string> dropped; ///< rejected without requeue, dead-lettered or not
        std::uint64_t requeued = 0;       ///< by basic.reject
        std::uint64_t given_back = 0;     ///< by basic.nack
        std::uint64_t lost_unsettled = 0; ///< went back because their channel ended
        std::uint64_t unsettled = 0;
        std::uint64_t delivered = 0;
        std::uint64_t consumers = 0;
        std::uint64_t expired = 0;
        std::uint64_t over_limit = 0; ///< returned more often than x-delivery-limit

        // From its declare.
        bool declared = false;
        bool quorum = false;
        std::vector<std::byte> arguments{};
        std::optional<std::string> dead_letter_exchange{};
        std::optional<std::string> dead_letter_routing_key{};
        std::optional<std::int64_t> message_ttl_ms{};
        std::optional<std::int64_t> delivery_limit{};
    };
    enum class verdict : std::uint8_t { ack, drop, requeue, give_back };

    /// What becomes of a publish, and when its publisher hears of it.
    struct publish_fate {
        enum class kind : std::uint8_t { accepted, returned, nacked };
        kind what = kind::accepted;
        /// Until the confirm. `duration::max()`: none ever comes.
        runtime::duration delay{0};
    };
    /// A delivery, from its being sent to its end.
    struct traced {
        std::uint64_t number; ///< of the delivery, over all channels
        std::uint64_t tag;
        const std::string& queue;
        const std::string& body;
        const std::vector<std::byte>& properties; ///< as published
        bool redelivered;
    };

    /// Answers what this peer's client says, from now on.
    void serve(peer& p);

    /// Messages with bodies "0" to "count - 1", or with the given prefix before the number.
    void put(const std::string& name, std::size_t count, std::string_view prefix = "");
    void put_body(const std::string& name, std::string body);
    queue& operator[](const std::string& name) { return queues_[name]; }
    [[nodiscard]] bool has(const std::string& name) const { return queues_.contains(name); }
    [[nodiscard]] const std::map<std::string, queue>& queues() const noexcept { return queues_; }
    /// basic.cancel to every consumer of the queue.
    void cancel_consumers(const std::string& name);
    /// channel.close; what was unsettled on it goes back at once. False: no such channel.
    bool close_channel(peer& p, std::uint16_t channel, wire::reply_code code,
                       std::string_view text);
    /// The queue goes, with its consumers.
    void remove(const std::string& name);

    /// How many messages with this body there are: ready, unsettled or on their way.
    [[nodiscard]] std::size_t instances(const std::string& body) const;
    /// Messages that are ready, unsettled or on their way, in all queues but these.
    [[nodiscard]] std::size_t busy(const std::set<std::string>& but_for) const;
    /// Publishes that were not confirmed yet but will be.
    [[nodiscard]] std::size_t unconfirmed() const;

    /// Asked first; true: the test has answered, or wants no answer.
    std::function<bool(peer& p, const said& what)> before{};
    /// Decides about each publish; without it all are accepted and confirmed at once.
    std::function<publish_fate(const said& what)> on_publish{};
    std::function<void(const traced& delivery)> on_delivered{};
    /// After the fact.
    std::function<void(const traced& delivery, verdict how)> on_settled{};
    /// A message is new to a queue: published, dead-lettered to it, or delayed until now.
    std::function<void(const std::string& queue, const message& m)> on_entered{};
    /// A message has left without an ack and without going anywhere: why.
    std::function<void(const std::string& body, std::string_view why)> on_vanished{};

    std::uint64_t unknown_tags = 0; ///< settlements that were refused with 406
    /// RabbitMQ: until 4.3 a nack counts toward the delivery limit of a quorum queue like a reject.
    bool counts_nacks = true;
    /// Most unsettled deliveries that a consumer ever had beyond its prefetch. Anything but 0 is a
    /// mistake of this model.
    std::uint64_t beyond_prefetch = 0;

private:
    struct unsettled {
        std::string queue;
        std::string consumer;
        message m;
        std::uint64_t number;
        bool redelivered;
    };
    struct consumer {
        std::string tag;
        std::string queue;
        bool no_ack;
        std::uint16_t prefetch;
        std::size_t outstanding = 0;
    };
    struct confirm {
        std::uint64_t tag;
        runtime::time_point due;
        bool nack;
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
        std::vector<confirm> unconfirmed;
    };
    struct binding {
        std::string exchange;
        std::string key;
        std::string queue;
        auto operator<=>(const binding&) const = default;
    };
    struct delayed {
        runtime::time_point due;
        message m;
    };
    // By the order in which peers came, so that a run does not depend on addresses.
    using key = std::pair<std::uint64_t, std::uint16_t>;

    void answer(peer& p, const said& what);
    void declare(channel& c, const said& what);
    void configure(queue& q, const wire::queue::declare& m);
    void consume(channel& c, const said& what);
    void cancel(channel& c, const said& what);
    void publish(channel& c, const said& what);
    void get(channel& c, const said& what);
    void settle(channel& c, std::uint64_t tag, bool multiple, verdict how);
    void settle_one(channel& c, std::map<std::uint64_t, unsettled>::iterator which, verdict how);
    std::uint64_t send(channel& c, const std::string& from, message m, consumer* to);

    void enter(const std::string& name, message m);
    void leave(const message& m);
    [[nodiscard]] std::vector<std::string> route(const std::string& exchange,
                                                 const std::string& routing_key) const;
    /// Back to its queue, or over its limit.
    void put_back(const std::string& name, message m, bool counted);
    /// `m` has left the queue for this reason.
    void dead_letter(const std::string& name, message m, std::string_view reason);
    void vanish(const message& m, std::string_view why);
    void expire();

    channel& channel_of(peer& p, std::uint16_t number);
    [[nodiscard]] static bool is_open(const channel& c);
    void end(channel& c);
    void end(peer& p);
    void pump();
    void pump(channel& c);
    void confirm_due(channel& c);
    void on_time();
    void schedule();

    std::map<std::string, queue> queues_;
    std::map<key, channel> channels_;
    std::map<const peer*, std::uint64_t> serials_;
    std::map<std::string, std::size_t> instances_;
    std::map<std::string, std::string> exchanges_; // and their types
    std::set<binding> bindings_;
    std::vector<delayed> delayed_;
    runtime::callback_timer timer_{
        [](void* self) noexcept { static_cast<broker_model*>(self)->on_time(); }, this};
    std::uint64_t names_ = 0;
    std::uint64_t positions_ = 0;
    std::uint64_t deliveries_ = 0;
    bool pumping_ = false;
};

} // namespace acquit::testing
