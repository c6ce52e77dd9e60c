#pragma once

#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

namespace acquit::amqp::detail {

/// What a verb waits on: the arguments of the broker's answer, or what ended the channel. Lives in
/// the frame of the verb; a channel's list of pending answers points to it until it is complete.
class reply_slot final : public runtime::waiter {
public:
    reply_slot(reply_slot*& registration) noexcept : registration_(&registration)
    {
        registration = this;
    }
    ~reply_slot()
    {
        if (registration_ != nullptr)
            *registration_ = nullptr;
    }

    void complete(std::vector<std::byte> payload) noexcept
    {
        payload_ = std::move(payload);
        done();
    }
    void fail(std::exception_ptr why) noexcept
    {
        failure_ = std::move(why);
        done();
    }

    [[nodiscard]] bool await_ready() const noexcept { return done_; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        return suspend(handle);
    }
    std::vector<std::byte> await_resume()
    {
        if (failure_)
            std::rethrow_exception(failure_);
        if (!done_)
            throw_if_cancelled();
        return std::move(payload_);
    }

private:
    void done() noexcept
    {
        done_ = true;
        registration_ = nullptr;
        if (waiting())
            runtime::loop::current().make_ready(*this);
    }
    void on_cancel() noexcept override
    {
        // The answer may still come; the channel's list keeps its place for it.
        mark_cancelled();
        runtime::loop::current().make_ready(*this);
    }

    reply_slot** registration_;
    std::vector<std::byte> payload_;
    std::exception_ptr failure_;
    bool done_ = false;
};

} // namespace acquit::amqp::detail
