#pragma once

#include <acquit/runtime/waiter.h>

#include <cstdint>

namespace acquit::runtime {

/// Hooks of the first phase all run before those of the second: settlements are written into output
/// buffers, then each buffer is sent once.
enum class turn_phase : std::uint8_t { settle, send };

/// Something to do once at the end of a turn, however often it was asked for in it. Owned by
/// whoever asks; destroying it takes it back.
///
///     class output : turn_hook { void at_turn_end() noexcept override { start_send(); } ... };
///     loop.at_turn_end(output);
///
/// A hook may ask for itself or others again: what falls into a phase that is still running, or
/// comes later, runs in the same turn (a bound of 16 rounds keeps a bug from stopping the loop);
/// else in the next, which then does not sleep.
class turn_hook {
public:
    explicit turn_hook(turn_phase phase) noexcept : phase_(phase) {}
    turn_hook(const turn_hook&) = delete;
    turn_hook& operator=(const turn_hook&) = delete;

    [[nodiscard]] bool queued() const noexcept { return node_.owner != nullptr; }

protected:
    ~turn_hook() { take_back(); }
    virtual void at_turn_end() noexcept = 0;
    void take_back() noexcept
    {
        if (queued()) {
            node_.owner = nullptr;
            node_.unlink();
        }
    }

private:
    friend class hook_list;
    struct node : list_node {
        turn_hook* owner = nullptr;
    };
    node node_;
    turn_phase phase_;
};

/// The hooks that were asked for. Part of a loop.
class hook_list {
public:
    hook_list() noexcept
    {
        for (auto& head : heads_)
            head.next = head.previous = &head;
    }
    hook_list(const hook_list&) = delete;
    hook_list& operator=(const hook_list&) = delete;
    ~hook_list();

    [[nodiscard]] bool empty() const noexcept
    {
        return heads_[0].next == &heads_[0] && heads_[1].next == &heads_[1];
    }
    void add(turn_hook& hook) noexcept
    {
        if (hook.queued())
            return;
        hook.node_.owner = &hook;
        hook.node_.insert_before(heads_[static_cast<unsigned>(hook.phase_)]);
    }
    void run() noexcept;

private:
    void run_phase(list_node& head) noexcept;
    list_node heads_[2];
};

} // namespace acquit::runtime
