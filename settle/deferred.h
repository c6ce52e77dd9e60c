#pragma once

#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>
#include <acquit/settle/message.h>
#include <acquit/settle/outcome.h>
#include <acquit/settle/settled_once.h>

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Deciding elsewhere: when a handler returns before anybody knows what becomes of its message,
/// because other threads do the work, or because the work is done for many at once.
///
///     void on_frame(delivery& frame)
///     {
///         encoders.push(frame.defer());            // any queue between threads
///     }
///
///     void encoder()                               // a thread of the pool
///     {
///         while (deferred_delivery frame = encoders.pop())
///             frame.settle(encode(frame.body()) ? ack : retry());
///     }
///
/// A deferred delivery is in hand until it is settled: it uses a slot of the prefetch window, which
/// so bounds how many there are, and a drain waits for it.
namespace acquit::settle {

class deferrals;
class deferred_state;

/// The right to settle one delivery, and a copy of its message. Move-only; used by one thread at a
/// time, whichever. It may outlive its subscription, service and loop: settling does nothing then,
/// and the broker delivers the message again.
///
/// Destroyed without a decision (a bug), the delivery is treated as that of a handler that threw,
/// and counted (`subscription_metrics::undecided`).
class ACQUIT_SETTLED_ONCE deferred_delivery {
public:
    /// Empty, as one that was settled or moved from.
    ACQUIT_MADE_UNSETTLED deferred_delivery() noexcept = default;
    deferred_delivery(deferred_delivery&& other) noexcept
        : owner_(std::move(other.owner_)), state_(std::exchange(other.state_, nullptr))
    {
    }
    deferred_delivery& operator=(deferred_delivery&& other) noexcept;
    ~deferred_delivery();

    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
    /// Of one that is not empty. The views end with the settlement.
    [[nodiscard]] const delivery& operator*() const noexcept;
    [[nodiscard]] const delivery* operator->() const noexcept { return &**this; }
    [[nodiscard]] std::span<const std::byte> body() const noexcept { return (**this).body(); }
    [[nodiscard]] std::string_view text() const noexcept { return (**this).text(); }

    /// Hands the decision to the loop, which acts on it as on the outcome of a handler. Never throws,
    /// takes no lock and no memory; a system call only where it has to wake a loop that sleeps.
    /// Nothing on an empty one.
    ACQUIT_SETTLES void settle(outcome decided) noexcept;

private:
    friend class deferrals;
    deferred_delivery(std::shared_ptr<deferrals> owner, deferred_state& state) noexcept
        : owner_(std::move(owner)), state_(&state)
    {
    }

    std::shared_ptr<deferrals> owner_;
    deferred_state* state_ = nullptr;
};

namespace detail {

/// A place in the list of what was decided.
struct decided_node {
    decided_node* next = nullptr;
};

} // namespace detail

/// What a token stands for. The loop's, then the token's, then the loop's again.
class deferred_state final : public delivery, private detail::decided_node {
public:
    deferred_state() noexcept = default;

private:
    friend class deferrals;
    friend class deferred_delivery;
    std::vector<std::byte> own_; // what its views point to
    std::optional<outcome> decided_;
    std::uint64_t generation_ = 0;
    deferred_state* next_free_ = nullptr;
};

/// The tokens of one subscription: makes them, and takes their decisions over on the loop's thread.
/// The tokens keep it alive. Threads meet at one atomic list, to which each pushes; who finds it
/// empty posts to the loop, so that a burst costs one post.
///
/// States of the list's head:
///
///     empty --push, posts--> list --run on the loop--> empty
///                             | ^
///                    collect  v |  push
///                            under way                 (a post is coming, the list is empty)
///     any --close--> closed                            (tokens hand over to nobody)
///
/// All but `hand_over` is for the loop's thread.
class deferrals final : public std::enable_shared_from_this<deferrals>, private runtime::post_node {
public:
    /// Called for each decision; null: the token was destroyed without one.
    using receiver = void (*)(void* object, delivery& d, const outcome* decided) noexcept;

    /// On the loop where it is going to work; the header is that of `delivery::attempt`. Owned by shared_ptr; somebody awaits `until_closed`
    /// before that loop ends.
    deferrals(receiver decided, void* object, std::string counter_header);

    /// Throws std::bad_alloc, and has done nothing then.
    [[nodiscard]] deferred_delivery defer(delivery& d);
    /// Tokens without a decision.
    [[nodiscard]] std::uint64_t in_hand() const noexcept { return in_hand_; }
    /// Acts on everything that is decided by now, without waiting for the post.
    void collect() noexcept;
    /// What is not decided yet is given up: its tokens settle nothing.
    void abandon() noexcept;
    /// The same for good; nothing is posted any more.
    void close() noexcept;
    /// How many were given up so far.
    [[nodiscard]] std::uint64_t abandoned() const noexcept { return abandoned_; }

    class closed_op;
    /// Until it is closed and the loop has run the last post. Being cancelled closes it.
    [[nodiscard]] closed_op until_closed() noexcept;

private:
    friend class deferred_delivery;
    friend class closed_op;

    void hand_over(deferred_state& state) noexcept;
    static void posted(runtime::post_node& node) noexcept;
    void act_on(detail::decided_node* newest_first) noexcept;
    deferred_state& spare();
    void put_back(deferred_state& state) noexcept;
    [[nodiscard]] bool is_over() const noexcept { return closed_ && !post_under_way_; }
    void over() noexcept;

    runtime::loop& loop_;
    receiver receiver_;
    void* object_;
    std::string counter_header_; // tokens look there when the subscription is gone
    std::deque<deferred_state> storage_;
    deferred_state* free_ = nullptr;
    std::uint64_t in_hand_ = 0;
    std::uint64_t abandoned_ = 0;
    std::uint64_t generation_ = 0; // what is older was abandoned
    closed_op* waiting_ = nullptr;
    bool closed_ = false;
    bool post_under_way_ = false; // once closed
    detail::decided_node under_way_mark_;
    detail::decided_node closed_mark_;
    alignas(64) std::atomic<detail::decided_node*> decided_{nullptr};
};

class [[nodiscard]] deferrals::closed_op final : public runtime::waiter {
public:
    explicit closed_op(deferrals& of) noexcept : of_(of) {}
    [[nodiscard]] bool await_ready() const noexcept { return of_.is_over(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle)) {
            of_.close();
            if (of_.is_over())
                return false;
            wait_uncancelled(handle); // for the post; it comes
        }
        of_.waiting_ = this;
        return true;
    }
    /// Also after being cancelled: what was asked for is done.
    void await_resume() const noexcept {}

private:
    friend class deferrals;
    void wait_uncancelled(std::coroutine_handle<> handle) noexcept { (void)suspend(handle); }
    void on_cancel() noexcept override { of_.close(); }

    deferrals& of_;
};

inline deferrals::closed_op deferrals::until_closed() noexcept
{
    return closed_op(*this);
}

} // namespace acquit::settle
