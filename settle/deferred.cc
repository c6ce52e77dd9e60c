#include <acquit/runtime/assert.h>
#include <acquit/runtime/error.h>
#include <acquit/settle/deferred.h>
#include <acquit/settle/handler.h>

namespace acquit::settle {

using detail::decided_node;

deferred_delivery& deferred_delivery::operator=(deferred_delivery&& other) noexcept
{
    if (this != &other) {
        if (state_ != nullptr)
            owner_->hand_over(*state_);
        owner_ = std::move(other.owner_);
        state_ = std::exchange(other.state_, nullptr);
    }
    return *this;
}

deferred_delivery::~deferred_delivery()
{
    if (state_ != nullptr)
        owner_->hand_over(*state_);
}

const delivery& deferred_delivery::operator*() const noexcept
{
    ACQUIT_DEBUG_ASSERT(state_ != nullptr, "a deferred delivery that is empty has no message");
    return *state_;
}

void deferred_delivery::settle(outcome decided) noexcept
{
    if (state_ == nullptr)
        return;
    state_->decided_ = decided;
    owner_->hand_over(*std::exchange(state_, nullptr));
    owner_.reset();
}

deferred_delivery delivery::defer()
{
    ACQUIT_ASSERT(deferrals_ != nullptr, "defer() of a delivery that no subscription has received");
    return deferrals_->defer(*this);
}

deferrals::deferrals(receiver decided, void* object, std::string counter_header)
    : post_node(&deferrals::posted), loop_(runtime::loop::current()), receiver_(decided),
      object_(object), counter_header_(std::move(counter_header))
{
}

deferred_delivery deferrals::defer(delivery& d)
{
    ACQUIT_ASSERT(!d.deferred_, "defer() for the second time, of the delivery with tag {}", d.tag_);
    ACQUIT_DEBUG_ASSERT(runtime::loop::current_or_null() == &loop_,
                        "defer() on another thread than the handler's");
    deferred_state& state = spare();
    state.stand_for(d);
    state.counter_header_ = &counter_header_;
    try {
        state.keep_in(state.own_, true);
    } catch (...) {
        put_back(state);
        throw;
    }
    state.generation_ = generation_;
    ++(closed_ ? abandoned_ : in_hand_);
    d.deferred_ = true;
    return {shared_from_this(), state};
}

deferred_state& deferrals::spare()
{
    if (free_ == nullptr)
        return storage_.emplace_back();
    return *std::exchange(free_, free_->next_free_);
}

void deferrals::put_back(deferred_state& state) noexcept
{
    state.decided_.reset();
    trim(state.own_);
    state.next_free_ = std::exchange(free_, &state);
}

void deferrals::hand_over(deferred_state& state) noexcept
{
    decided_node& node = state;
    decided_node* newest = decided_.load(std::memory_order_relaxed);
    do {
        if (newest == &closed_mark_)
            return;
        node.next = newest;
        // Released: what this thread wrote. Acquired: that the loop is done with the node of the post
        // before, which it was when it emptied the list.
    } while (!decided_.compare_exchange_weak(newest, &node, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
    // From here on the state is the loop's. The loop itself lives: it cannot be over before it has run
    // this post (`until_closed`).
    if (newest == nullptr)
        loop_.post(static_cast<runtime::post_node&>(*this));
}

void deferrals::posted(runtime::post_node& node) noexcept
{
    auto& self = static_cast<deferrals&>(node);
    if (self.closed_) {
        self.post_under_way_ = false;
        self.loop_.expected_post_came();
        self.over();
        return;
    }
    self.act_on(self.decided_.exchange(nullptr, std::memory_order_acq_rel));
}

void deferrals::collect() noexcept
{
    // Only this thread takes from the list: what is not empty now stays so.
    if (closed_ || decided_.load(std::memory_order_relaxed) == nullptr)
        return;
    act_on(decided_.exchange(&under_way_mark_, std::memory_order_acq_rel));
}

void deferrals::act_on(decided_node* newest_first) noexcept
{
    decided_node* oldest_first = nullptr;
    while (newest_first != nullptr && newest_first != &under_way_mark_) {
        decided_node* const next = std::exchange(newest_first->next, oldest_first);
        oldest_first = std::exchange(newest_first, next);
    }
    while (oldest_first != nullptr) {
        auto& state =
            static_cast<deferred_state&>(*std::exchange(oldest_first, oldest_first->next));
        if (state.generation_ == generation_) {
            --in_hand_;
            receiver_(object_, state, state.decided_ ? &*state.decided_ : nullptr);
        }
        put_back(state);
    }
}

void deferrals::abandon() noexcept
{
    collect();
    ++generation_;
    abandoned_ += std::exchange(in_hand_, 0);
}

void deferrals::close() noexcept
{
    if (closed_)
        return;
    abandon();
    closed_ = true;
    // What came since then is abandoned as well. Whoever found the list empty is going to post.
    post_under_way_ = decided_.exchange(&closed_mark_, std::memory_order_acq_rel) != nullptr;
    if (post_under_way_)
        loop_.expect_post();
    else
        over();
}

void deferrals::over() noexcept
{
    if (waiting_ != nullptr)
        loop_.make_ready(*std::exchange(waiting_, nullptr));
}

void detail::require_deferred(const delivery& d)
{
    if (!d.is_deferred())
        throw runtime::error("a deferring handler returned without having called defer()");
}

} // namespace acquit::settle
