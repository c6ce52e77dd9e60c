#pragma once

#include "../peer/broker_model.h"
#include "shape.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace acquit::testing {

/// What a handler of the simulation decided.
enum class decision : std::uint8_t { ack, drop, retry, retry_after, fail };

[[nodiscard]] const char* name(decision d) noexcept;

/// Sees both sides of a service, what its handlers decide and what its broker is told, and says what
/// does not agree. At every step:
///
/// * no settlement of what was not handled, and none but the one that was decided; where a copy
///   replaces a message, none before the broker has the copy;
/// * no delivery settled twice (the broker's 406), nothing given back that a handler has seen;
/// * no message leaves the broker for good unless a handler said so;
/// * no delayed retry before its time;
/// * no more handlers at once than were allowed, no attempt beyond the limit;
/// * at the end every message is done for, or in a queue.
class witness {
public:
    witness(const shape& s, broker_model& broker);
    witness(const witness&) = delete;
    witness& operator=(const witness&) = delete;

    /// A message that the world has published.
    void expect(const std::string& body) { fates_[body]; }

    // Handlers say these. `begin` gives the number for `end`.
    std::uint64_t begin(const std::string& body, std::uint64_t tag, std::uint32_t attempt);
    void end(std::uint64_t number, decision decided, std::chrono::nanoseconds delay = {});
    /// Cancelled before it could decide.
    void give_up(std::uint64_t number);
    /// How often handlers began with this message.
    [[nodiscard]] unsigned calls(const std::string& body) { return fates_[body].calls; }

    /// Messages that are in no queue although nobody is done with them: a process keeps them.
    [[nodiscard]] std::size_t nowhere() const;
    /// From now on delays may end early.
    void stopping();
    void one_life_is_over() { stopping_ = false; }
    /// A process ended with so many copies unconfirmed: they may still come, before their time.
    void expect_late_arrivals(std::uint64_t most) { on_their_way_ = most; }
    /// The service is gone, and what it alone kept: at most so many messages.
    void forgive_lost(std::uint64_t most);

    /// After everything: whatever is neither done for nor in a queue is lost. `finished`: nothing may be
    /// left outside the dead-letter queue.
    void expect_nothing_lost(bool finished);
    void violation(std::string what);
    void note(std::string what);
    /// Print a line for each step, for who looks at one seed.
    void print_notes(bool yes) noexcept { prints_notes_ = yes; }

    [[nodiscard]] const std::vector<std::string>& violations() const noexcept
    {
        return violations_;
    }
    [[nodiscard]] std::uint32_t in_handler() const noexcept { return in_handler_; }

    struct counts {
        std::uint64_t begun = 0;
        std::uint64_t decided[5] = {}; ///< by decision
        std::uint64_t given_up = 0;
        std::uint64_t settled[4] = {}; ///< by verdict
    };
    /// Delayed copies that came before their time, unless their service was stopping.
    [[nodiscard]] std::uint64_t early() const noexcept { return early_; }
    [[nodiscard]] const counts& so_far() const noexcept { return counts_; }

private:
    struct record {
        std::string body;
        std::string queue;
        bool hops = false; // it has still to wait: no handler sees it
        bool begun = false;
        std::uint32_t attempt = 0;
        std::optional<decision> decided;
        bool settled = false;
    };
    struct fate {
        unsigned calls = 0;
        bool done = false;     ///< a handler's ack or drop, or the limit, has reached the broker
        bool forgiven = false; ///< lost with a process that kept it alone
        /// Attempts whose copies the broker has had.
        std::set<std::uint32_t> copied;
        /// When the copy may come that follows the attempt with this number.
        std::map<std::uint32_t, runtime::time_point> due;
    };

    void delivered(const broker_model::traced& d);
    void entered(const std::string& queue, const broker_model::message& m);
    void settled(const broker_model::traced& d, broker_model::verdict how);
    void vanished(const std::string& body, std::string_view why);
    [[nodiscard]] bool is_final(decision d) const noexcept;
    [[nodiscard]] std::chrono::nanoseconds late_max() const;
    /// What is wrong with this settlement, or nothing.
    [[nodiscard]] std::string objection(const record& r, broker_model::verdict how) const;
    [[nodiscard]] std::string objection_to_retry(const record& r, broker_model::verdict how) const;
    /// The message, or what was made of it, is with the broker.
    [[nodiscard]] bool is_there(const record& r) const;
    [[nodiscard]] bool at_limit(const record& r) const noexcept
    {
        return shape_.max_attempts && r.attempt >= *shape_.max_attempts;
    }

    const shape& shape_;
    broker_model& broker_;
    std::unordered_map<std::uint64_t, record> deliveries_;
    std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> latest_; // by body and tag
    std::map<std::string, fate> fates_;
    std::vector<std::string> violations_;
    counts counts_;
    std::uint32_t in_handler_ = 0;
    bool prints_notes_ = false;
    bool stopping_ = false;
    std::uint64_t early_ = 0;
    std::uint64_t on_their_way_ = 0;
};

} // namespace acquit::testing
