#pragma once

#include "body.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace acquit::bench {

/// Keeps book of every message of a run: each that was published, and that the broker did not give
/// back, is settled for good (acked or dropped) exactly once. Two bits of memory per message.
///
///     book kept{run};
///     kept.sent(0, 17);            // producer 0 published its number 17
///     kept.settled({.run = run, .producer = 0, .number = 17});
///     auto found = kept.judge();   // found.good(), found.text()
///
/// Where the producers are another process, what is expected of each is what lies below the highest
/// number that came.
class book {
public:
    struct verdict {
        std::uint64_t published = 0;
        std::uint64_t refused = 0; ///< returned or nacked, and never delivered
        std::uint64_t settled = 0; ///< messages, each counted once
        std::uint64_t lost = 0;
        std::uint64_t twice = 0; ///< settlements beyond the first of a message
        std::uint64_t foreign = 0;
        std::string examples{}; ///< "producer 0: 17, 18, 40"

        [[nodiscard]] bool good() const noexcept { return lost == 0 && twice == 0 && foreign == 0; }
        /// One line, or two where something is wrong; ends with a newline.
        [[nodiscard]] std::string text() const;
    };

    /// Of a process that publishes.
    explicit book(std::uint16_t run) : run_(run) {}
    /// Of one that only consumes: the run is that of the first message.
    book() = default;

    /// Numbers of a producer ascend by one.
    void sent(std::uint16_t producer, std::uint64_t number);
    /// The latest one was not sent after all.
    void unsent(std::uint16_t producer, std::uint64_t number);
    /// The broker returned or nacked it.
    void refused(std::uint16_t producer, std::uint64_t number);
    /// For good. False: it is not of this run.
    bool settled(const stamp& s);
    void foreign() noexcept { ++foreign_; }

    /// Messages that are neither settled nor refused, as far as is known. Cheap.
    [[nodiscard]] std::uint64_t open() const noexcept;
    [[nodiscard]] verdict judge() const;

private:
    class bits {
    public:
        /// False when it was set already.
        bool set(std::uint64_t at);
        [[nodiscard]] bool test(std::uint64_t at) const noexcept;

    private:
        std::vector<std::uint64_t> words_;
    };
    struct line {
        std::uint64_t expected = 0; // numbers below are owed
        bits done;
        bits refused;
    };
    line& of(std::uint16_t producer);

    std::optional<std::uint16_t> run_;
    bool publishes_ = run_.has_value();
    std::vector<line> lines_;
    std::uint64_t sent_ = 0;
    std::uint64_t closed_ = 0; // settled or refused, each message once
    std::uint64_t twice_ = 0;
    std::uint64_t foreign_ = 0;
};

} // namespace acquit::bench
