#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/ring.h>

#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace acquit::runtime {

constinit thread_local loop* loop::current_ = nullptr;

namespace {

struct function_post final : post_node {
    explicit function_post(std::function<void()> call)
        : post_node(&function_post::run), function(std::move(call))
    {
    }
    static void run(post_node& node) noexcept
    {
        const std::unique_ptr<function_post> self(&static_cast<function_post&>(node));
        self->function();
    }
    std::function<void()> function;
};

/// The loop is the current one of its thread for so long.
class current_for_now {
public:
    current_for_now(loop*& current, loop* self) noexcept
        : current_(current), previous_(std::exchange(current, self))
    {
    }
    ~current_for_now() { current_ = previous_; }
    current_for_now(const current_for_now&) = delete;
    current_for_now& operator=(const current_for_now&) = delete;

private:
    loop*& current_;
    loop* previous_;
};

} // namespace

/// The root task of `run`.
struct loop::root_state final : task_owner {
    spawned_task* root = nullptr;
    bool done = false;
    std::exception_ptr failure;
    void task_ended(spawned_task&, std::exception_ptr with) noexcept override
    {
        failure = std::move(with);
        done = true;
        root = nullptr;
    }
};

loop::loop(const loop_options& options)
    : options_(options), random_(options.shuffle_seed),
      segments_(nullptr, [](segment_pool* pool) { pool->close(); }), outer_(current_),
      thread_(std::this_thread::get_id())
{
    if (!options.virtual_time) {
        ring_ = std::make_unique<ring>(
            ring_options{.entries = options.entries, .provided_memory = options.provided_memory});
        now_ = std::chrono::steady_clock::now();
    }
    // Blocking, since io_uring ends a read of an empty non-blocking descriptor at once.
    event_fd_ = ::eventfd(0, EFD_CLOEXEC);
    if (event_fd_ < 0)
        throw io_error(errno, "eventfd");
    unusual_ = options_.shuffle_seed != 0;
    current_ = this;
}

loop::~loop()
{
    ACQUIT_ASSERT(root_ == nullptr, "loop destroyed while it runs");
    ACQUIT_ASSERT(ready_.empty(), "loop destroyed while tasks are ready to run");
    if (wake_up_armed_) {
        ring_->cancel(wake_up_);
        while (wake_up_armed_) {
            ring_->submit_and_wait(std::nullopt);
            ring_->reap();
        }
    }
    ACQUIT_ASSERT(ring_ == nullptr || ring_->in_flight() == 0,
                  "loop destroyed with {} operations in flight", ring_->in_flight());
    while (posting_.load() != 0) // another thread is within post(), past its push
        std::this_thread::yield();
    for (auto* node = posted_.exchange(nullptr); node != nullptr;) {
        auto* next = node->next_;
        if (node->run_ == &function_post::run)
            delete static_cast<function_post*>(node);
        node = next;
    }
    for (const int fd : {epoll_fd_, timer_fd_, completion_fd_, event_fd_})
        if (fd >= 0)
            ::close(fd);
    if (current_ == this)
        current_ = outer_;
}

void loop::run_root(task<void> root)
{
    ACQUIT_ASSERT(root_ == nullptr, "loop::run called from within run");
    ACQUIT_ASSERT(thread_ == std::this_thread::get_id(), "a loop runs on the thread that made it");
    const current_for_now here(current_, this);
    root_state state;
    root_ = &state;
    state.root = &root.release().promise().spawn_for(state);
    make_ready(*state.root);
    bool locked = false;
    while (!state.done) {
        if (ring_ == nullptr && nothing_can_happen()) {
            ACQUIT_ASSERT(!locked, "deadlock: the root task was cancelled and still waits");
            locked = true;
            state.root->context.request();
        }
        turn();
    }
    root_ = nullptr;
    if (ring_ != nullptr)
        ring_->submit(); // what the last hooks prepared
    if (locked)
        throw deadlock("deadlock: nothing is ready, no timer is pending, nobody was asked to post; "
                       "nothing can happen any more and the root task still waited");
    if (state.failure != nullptr)
        std::rethrow_exception(state.failure);
}

void loop::cancel_root() noexcept
{
    if (root_ != nullptr && root_->root != nullptr)
        root_->root->context.request();
}

time_point loop::precise_now() const noexcept
{
    return ring_ == nullptr ? now_ : std::chrono::steady_clock::now();
}

void loop::turn()
{
    one_turn(true);
}

void loop::one_turn(bool may_sleep)
{
    ACQUIT_ASSERT(!in_turn_, "a turn within a turn");
    in_turn_ = true;
    ++statistics_.turns;
    may_sleep = may_sleep && ready_.empty() && hooks_.empty();
    if (ring_ != nullptr)
        wait_for_kernel(may_sleep);
    else
        wait_virtually(may_sleep);
    run_posted();
    expire_timers();
    run_ready();
    hooks_.run();
    in_turn_ = false;
}

void loop::wait_for_kernel(bool may_sleep) noexcept
{
    std::optional<duration> limit = duration::zero();
    if (may_sleep) {
        arm_wake_up();
        // First say that we sleep, then look: `post` does it the other way round, so that one of the
        // two sees the other.
        sleeping_.store(true);
        if (posted_.load() == nullptr) {
            if (timers_.empty())
                limit = std::nullopt;
            else
                limit = timers_.earliest() - std::chrono::steady_clock::now();
        }
    }
    ring_->submit_and_wait(limit);
    sleeping_.store(false, std::memory_order_relaxed);
    now_ = std::chrono::steady_clock::now();
    ring_->reap();
}

void loop::wait_virtually(bool may_sleep) noexcept
{
    if (!may_sleep || posted_.load() != nullptr)
        return;
    if (expected_posts_ > 0) {
        sleeping_.store(true);
        if (posted_.load() == nullptr) {
            pollfd wanted{event_fd_, POLLIN, 0};
            if (::poll(&wanted, 1, -1) == 1)
                (void)!::read(event_fd_, &event_count_, sizeof event_count_);
        }
        sleeping_.store(false);
    } else if (!timers_.empty() && timers_.earliest() > now_) {
        now_ = timers_.earliest();
    }
}

bool loop::nothing_can_happen() const noexcept
{
    return ready_.empty() && hooks_.empty() && timers_.empty() && expected_posts_ == 0 &&
           posted_.load() == nullptr;
}

void loop::arm_wake_up() noexcept
{
    if (wake_up_armed_)
        return;
    wake_up_armed_ = true;
    wake_up_ = ring_->read(event_fd_, std::as_writable_bytes(std::span(&event_count_, 1)),
                           {&loop::woken, this});
}

void loop::woken(void* self, std::int32_t, std::uint32_t) noexcept
{
    static_cast<loop*>(self)->wake_up_armed_ = false;
}

void loop::expire_timers() noexcept
{
    while (!timers_.empty() && timers_.earliest() <= now_) {
        ++statistics_.timers;
        make_ready(timers_.pop());
    }
}

void loop::run_ready() noexcept
{
    for (unsigned left = options_.ready_budget; left > 0 && !ready_.empty(); --left) {
        if (options_.shuffle_seed != 0)
            shuffle_ready();
        ++statistics_.resumed;
        ready_.pop_front().run();
    }
}

// Together with the random end at which make_ready_slow inserts, every order is possible.
void loop::shuffle_ready() noexcept
{
    for (auto turns = random_.below(8); turns > 0; --turns)
        ready_.push_back(ready_.pop_front());
}

void loop::make_ready_slow(waiter& node) noexcept
{
    if (options_.shuffle_seed != 0 && random_.below(2) == 0)
        ready_.push_front(node);
    else
        ready_.push_back(node);
    if (outside_)
        signal_foreign_loop();
}

void loop::post(std::function<void()> function)
{
    post(*std::make_unique<function_post>(std::move(function)).release());
}

void loop::post(post_node& node) noexcept
{
    posting_.fetch_add(1);
    node.next_ = posted_.load(std::memory_order_relaxed);
    while (!posted_.compare_exchange_weak(node.next_, &node)) {
    }
    // The node may be gone from here on, and the loop as soon as posting_ is back.
    if (sleeping_.exchange(false)) {
        const std::uint64_t one = 1;
        (void)!::write(event_fd_, &one, sizeof one);
    }
    posting_.fetch_sub(1);
}

void loop::run_posted() noexcept
{
    if (posted_.load(std::memory_order_relaxed) == nullptr)
        return;
    post_node* oldest = nullptr;
    for (auto* node = posted_.exchange(nullptr); node != nullptr;) {
        auto* next = node->next_;
        node->next_ = std::exchange(oldest, node);
        node = next;
    }
    while (oldest != nullptr) {
        auto* node = std::exchange(oldest, oldest->next_);
        ++statistics_.posted;
        node->run_(*node);
    }
}

void loop::at_turn_end(turn_hook& hook) noexcept
{
    hooks_.add(hook);
    prepared();
}

void loop::insert_timer(timer_node& node, time_point deadline) noexcept
{
    timers_.insert(node, deadline);
    prepared();
}

segment_pool& loop::segments()
{
    if (segments_ == nullptr)
        segments_.reset(new segment_pool);
    return *segments_;
}

loop_statistics loop::stats() const noexcept
{
    loop_statistics all = statistics_;
    if (ring_ != nullptr) {
        const auto& kernel = ring_->statistics();
        all.enters = kernel.enters;
        all.submitted = kernel.submitted;
        all.completions = kernel.completions;
    }
    return all;
}

} // namespace acquit::runtime
