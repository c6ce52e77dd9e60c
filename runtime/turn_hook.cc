#include <acquit/runtime/turn_hook.h>

#include <utility>

namespace acquit::runtime {

namespace {
constexpr int rounds_per_turn = 16;
}

hook_list::~hook_list()
{
    for (auto& head : heads_)
        while (head.next != &head) {
            auto* queued = static_cast<turn_hook::node*>(head.next);
            queued->owner = nullptr;
            queued->unlink();
        }
}

void hook_list::run() noexcept
{
    for (auto& head : heads_)
        run_phase(head);
}

void hook_list::run_phase(list_node& head) noexcept
{
    for (int round = 0; round < rounds_per_turn && head.next != &head; ++round) {
        list_node taken;
        taken.insert_before(*head.next); // `taken` becomes the head of what is queued so far
        head.unlink();
        head.next = head.previous = &head;
        while (taken.next != &taken) {
            auto* queued = static_cast<turn_hook::node*>(taken.next);
            auto* hook = std::exchange(queued->owner, nullptr);
            queued->unlink();
            hook->at_turn_end();
        }
    }
}

} // namespace acquit::runtime
