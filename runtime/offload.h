#pragma once

#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace acquit::runtime {

namespace detail {

/// Work for a pool, and its way back. Lives in the awaiting frame.
class offloaded : public waiter, private post_node {
protected:
    offloaded() noexcept : post_node(&offloaded::came_back) {}
    ~offloaded() = default;
    virtual void work() noexcept = 0;
    void submit(class worker_pool_queue& queue);
    void on_cancel() noexcept final;

private:
    friend class worker_pool_queue;
    static void came_back(post_node& node) noexcept;
    loop* loop_ = nullptr;
    worker_pool_queue* queue_ = nullptr;
    offloaded* next_job_ = nullptr;
};

class worker_pool_queue {
public:
    void push(offloaded& job) noexcept;
    /// False when a worker has it already.
    bool remove(offloaded& job) noexcept;
    void close() noexcept;
    void work();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    offloaded* first_ = nullptr;
    offloaded* last_ = nullptr;
    bool closed_ = false;
};

} // namespace detail

/// Threads for what would block or burn a loop's turn. May serve several loops. The destructor
/// waits for the job each thread is at; nothing may be queued any more.
///
///     worker_pool pool(4);
///     auto image = co_await offload(pool, [&] { return decode(bytes); });
class worker_pool {
public:
    /// `threads` >= 1. Throws std::system_error.
    explicit worker_pool(unsigned threads);
    ~worker_pool();
    worker_pool(const worker_pool&) = delete;
    worker_pool& operator=(const worker_pool&) = delete;
    [[nodiscard]] std::size_t threads() const noexcept { return threads_.size(); }
    [[nodiscard]] detail::worker_pool_queue& queue() noexcept { return queue_; }

private:
    detail::worker_pool_queue queue_;
    std::vector<std::thread> threads_;
};

template <class F>
class [[nodiscard]] offload_op final : public detail::offloaded {
    using result_type = std::invoke_result_t<F&>;
    static_assert(!std::is_reference_v<result_type>, "return a value or a pointer");
    using stored = std::conditional_t<std::is_void_v<result_type>, bool, result_type>;

public:
    offload_op(worker_pool& pool, F function) : pool_(pool), function_(std::move(function)) {}
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle)
    {
        if (!suspend(handle))
            return false;
        submit(pool_.queue());
        return true;
    }
    result_type await_resume()
    {
        throw_if_cancelled();
        if (failure_)
            std::rethrow_exception(failure_);
        if constexpr (!std::is_void_v<result_type>)
            return std::move(*result_);
    }

private:
    void work() noexcept override
    {
        try {
            if constexpr (std::is_void_v<result_type>)
                function_();
            else
                result_.emplace(function_());
        } catch (...) {
            failure_ = std::current_exception();
        }
    }
    worker_pool& pool_;
    F function_;
    std::optional<stored> result_;
    std::exception_ptr failure_;
};

/// Runs `function` on a thread of the pool and resumes on the loop with its result or exception.
/// What the function refers to is safe: cancelling takes a job back that no thread has begun
/// (operation_cancelled), and waits for one that runs, whose result then counts.
template <class F>
offload_op<F> offload(worker_pool& pool, F function)
{
    return offload_op<F>(pool, std::move(function));
}

} // namespace acquit::runtime
