#pragma once

#include <acquit/settle/message.h>
#include <acquit/settle/outcome.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// Many deliveries in one call of a handler: for work that costs about the same for one as for a
/// hundred, such as a transaction or a bulk insert.
///
///     task<outcome> on_events(std::span<delivery> events)
///     {
///         co_await database.insert(events);
///         co_return ack;                          // of each of them
///     }
///
///     s.consume(quorum_queue{"events"}.prefetch(400), on_events)
///         .batch({.size = 100, .within = 50ms})
///         .concurrency(2);                        // two batches at the same time
///
/// A batch is no transaction towards the broker: each of its deliveries is settled as if the outcome
/// had been returned for it alone, and after a crash some may come again.
namespace acquit::settle {

class inbox;
class held_delivery;

/// When a batch is closed: whichever comes first.
struct batch_options {
    /// Deliveries, from 1 to the prefetch; 64 (or the prefetch, where that is less) unless given. What
    /// is larger than the window could never be full.
    std::optional<std::uint32_t> size{};
    /// Since the first of them arrived: above 0, at most an hour.
    std::chrono::nanoseconds within = std::chrono::milliseconds(100);

    [[nodiscard]] std::uint32_t size_for(std::uint16_t prefetch) const noexcept;
    /// Everything that is wrong with it beside this prefetch, in words that follow a queue's name.
    [[nodiscard]] std::vector<std::string> problems(std::uint16_t prefetch) const;
};

/// What a batch handler returned: one outcome for all, or one for each in the order of the batch.
class batch_outcomes {
public:
    batch_outcomes(outcome for_all) noexcept : decided_(for_all) {}
    batch_outcomes(std::vector<outcome> for_each) noexcept : decided_(std::move(for_each)) {}

    /// Of the delivery at this place; `retry()` where the handler returned too few.
    [[nodiscard]] outcome of(std::size_t place) const noexcept;
    /// How many it returned, where that is not one for each of `deliveries`.
    [[nodiscard]] std::optional<std::size_t> mismatch(std::size_t deliveries) const noexcept;

private:
    std::variant<outcome, std::vector<outcome>> decided_;
};

/// The deliveries of one batch after the other, side by side in memory as a span needs them. They
/// stand for those that the inbox holds. Allocates when it is made and never again.
///
///     batch taken(size);
///     while (const auto count = co_await from.take_batch(taken.places())) {
///         work(taken.fill(count));
///         taken.release(from);
///     }
class batch {
public:
    explicit batch(std::size_t size_max);
    ~batch();
    batch(const batch&) = delete;
    batch& operator=(const batch&) = delete;

    [[nodiscard]] std::span<held_delivery*> places() noexcept { return held_; }
    /// The first `count` places were filled.
    [[nodiscard]] std::span<delivery> fill(std::size_t count) noexcept;
    void release(inbox& owner) noexcept;

private:
    std::vector<held_delivery*> held_;
    delivery* stand_ins_;
    std::size_t count_ = 0;
};

} // namespace acquit::settle
