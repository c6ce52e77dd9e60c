#include <acquit/runtime/assert.h>
#include <acquit/runtime/offload.h>

namespace acquit::runtime {

namespace detail {

void offloaded::submit(worker_pool_queue& queue)
{
    loop_ = &loop::current();
    queue_ = &queue;
    loop_->expect_post();
    queue.push(*this);
}

void offloaded::on_cancel() noexcept
{
    if (!queue_->remove(*this))
        return; // a thread is at it: its result comes
    loop_->expected_post_came();
    mark_cancelled();
    loop_->make_ready(*this);
}

void offloaded::came_back(post_node& node) noexcept
{
    auto& job = static_cast<offloaded&>(node);
    job.loop_->expected_post_came();
    job.loop_->make_ready(job);
}

void worker_pool_queue::push(offloaded& job) noexcept
{
    {
        const std::lock_guard lock(mutex_);
        ACQUIT_ASSERT(!closed_, "work for a pool that ends");
        job.next_job_ = nullptr;
        (last_ != nullptr ? last_->next_job_ : first_) = &job;
        last_ = &job;
    }
    changed_.notify_one();
}

bool worker_pool_queue::remove(offloaded& job) noexcept
{
    const std::lock_guard lock(mutex_);
    offloaded* previous = nullptr;
    for (auto* each = first_; each != nullptr; previous = each, each = each->next_job_) {
        if (each != &job)
            continue;
        (previous != nullptr ? previous->next_job_ : first_) = job.next_job_;
        if (last_ == &job)
            last_ = previous;
        return true;
    }
    return false;
}

void worker_pool_queue::close() noexcept
{
    {
        const std::lock_guard lock(mutex_);
        ACQUIT_ASSERT(first_ == nullptr, "worker pool destroyed with work in its queue");
        closed_ = true;
    }
    changed_.notify_all();
}

void worker_pool_queue::work()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return closed_ || first_ != nullptr; });
        if (first_ == nullptr)
            return;
        offloaded& job = *first_;
        first_ = job.next_job_;
        if (first_ == nullptr)
            last_ = nullptr;
        lock.unlock();
        job.work();
        job.loop_->post(job); // the job may be gone from here on
        lock.lock();
    }
}

} // namespace detail

worker_pool::worker_pool(unsigned threads)
{
    ACQUIT_ASSERT(threads > 0, "a pool needs a thread");
    try {
        for (unsigned index = 0; index < threads; ++index)
            threads_.emplace_back([this] { queue_.work(); });
    } catch (...) {
        queue_.close();
        for (auto& thread : threads_)
            thread.join();
        throw;
    }
}

worker_pool::~worker_pool()
{
    queue_.close();
    for (auto& thread : threads_)
        thread.join();
}

} // namespace acquit::runtime
