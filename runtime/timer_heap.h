#pragma once

#include <acquit/runtime/clock.h>
#include <acquit/runtime/waiter.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace acquit::runtime {

/// What can stand in a timer heap. A waiter, since an expired timer goes to the ready queue.
class timer_node : public waiter {
protected:
    timer_node() noexcept = default;
    ~timer_node() = default;
    [[nodiscard]] bool in_heap() const noexcept { return index_ != nowhere; }

private:
    friend class timer_heap;
    static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t index_ = nowhere;
    std::uint64_t order_ = 0;
};

/// The pending timers of a loop: a heap with four children per node, whose entries know their
/// place. Insert and remove are O(log n); equal deadlines expire in the order in which they were
/// armed. A million take under 100 bytes each, the node included. Inserting allocates only when the
/// heap was never as large before; running out of memory there ends the program.
class timer_heap {
public:
    timer_heap() = default;
    ~timer_heap();
    timer_heap(const timer_heap&) = delete;
    timer_heap& operator=(const timer_heap&) = delete;

    [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    /// Only while it is not empty.
    [[nodiscard]] time_point earliest() const noexcept { return entries_.front().deadline; }

    void insert(timer_node& node, time_point deadline) noexcept;
    void remove(timer_node& node) noexcept;
    timer_node& pop() noexcept;

private:
    struct entry {
        time_point deadline;
        timer_node* node;
        [[nodiscard]] bool before(const entry& other) const noexcept
        {
            return deadline != other.deadline ? deadline < other.deadline
                                              : node->order_ < other.node->order_;
        }
    };
    void place(std::size_t index, entry moved) noexcept;
    void sift_up(std::size_t index, entry moved) noexcept;
    void sift_down(std::size_t index, entry moved) noexcept;

    std::vector<entry> entries_;
    std::uint64_t next_order_ = 0;
};

} // namespace acquit::runtime
