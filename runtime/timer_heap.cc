#include <acquit/runtime/timer_heap.h>

#include <algorithm>

namespace acquit::runtime {

namespace {
constexpr std::size_t children = 4;
}

timer_heap::~timer_heap()
{
    ACQUIT_ASSERT(entries_.empty(), "loop destroyed with {} timers pending", entries_.size());
}

void timer_heap::insert(timer_node& node, time_point deadline) noexcept
{
    ACQUIT_DEBUG_ASSERT(!node.in_heap(), "timer armed twice");
    ACQUIT_ASSERT(entries_.size() < timer_node::nowhere, "too many timers");
    node.order_ = next_order_++;
    entries_.push_back({deadline, &node});
    sift_up(entries_.size() - 1, {deadline, &node});
}

void timer_heap::remove(timer_node& node) noexcept
{
    ACQUIT_DEBUG_ASSERT(node.in_heap(), "timer removed that is not armed");
    const std::size_t index = node.index_;
    node.index_ = timer_node::nowhere;
    const entry last = entries_.back();
    entries_.pop_back();
    if (index == entries_.size())
        return;
    if (index > 0 && last.before(entries_[(index - 1) / children]))
        sift_up(index, last);
    else
        sift_down(index, last);
}

timer_node& timer_heap::pop() noexcept
{
    timer_node& first = *entries_.front().node;
    remove(first);
    return first;
}

void timer_heap::place(std::size_t index, entry moved) noexcept
{
    entries_[index] = moved;
    moved.node->index_ = static_cast<std::uint32_t>(index);
}

void timer_heap::sift_up(std::size_t index, entry moved) noexcept
{
    while (index > 0) {
        const std::size_t parent = (index - 1) / children;
        if (!moved.before(entries_[parent]))
            break;
        place(index, entries_[parent]);
        index = parent;
    }
    place(index, moved);
}

void timer_heap::sift_down(std::size_t index, entry moved) noexcept
{
    for (;;) {
        const std::size_t first = index * children + 1;
        if (first >= entries_.size())
            break;
        const std::size_t end = std::min(first + children, entries_.size());
        std::size_t smallest = first;
        for (std::size_t child = first + 1; child < end; ++child)
            if (entries_[child].before(entries_[smallest]))
                smallest = child;
        if (!entries_[smallest].before(moved))
            break;
        place(index, entries_[smallest]);
        index = smallest;
    }
    place(index, moved);
}

} // namespace acquit::runtime
