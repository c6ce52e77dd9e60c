#pragma once

#include <acquit/amqp/error.h>
#include <acquit/runtime/waiter.h>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace acquit::amqp {

namespace detail {
class publish_record;
}

/// What became of a publish.
struct publish_answer {
    std::uint64_t number = 0; ///< of the publish on its channel, from 1
    std::optional<publish_error::reason> failure{};
    /// Of a returned message: why, e.g. 312 no-route. Of a lost one: what the broker closed the
    /// channel or the connection with. Else 0.
    std::uint16_t code = 0;
    std::exception_ptr cause{}; ///< of a lost one: what ended the channel

    [[nodiscard]] bool confirmed() const noexcept { return !failure; }
    /// In words: why it was returned or lost.
    [[nodiscard]] std::string text() const;
    /// Throws the failure as publish_error.
    void require_confirmed() const;
};

/// The receipt of a message that was sent: holds the broker's answer, once there is one, until
/// somebody asks.
///
///     auto receipt = co_await orders.send({.routing_key = "orders", .body = bytes});
///     ...
///     co_await receipt.confirmed();
///
/// It may be moved while nobody waits on it, dropped at any time (then `publisher::flush` tells of a
/// failure), and kept for longer than its publisher. Loop thread only.
class publish_ticket {
public:
    /// Of no message: there is nothing to ask of it.
    publish_ticket() noexcept = default;
    ~publish_ticket() { drop(); }
    publish_ticket(publish_ticket&& other) noexcept { take_over(other); }
    publish_ticket& operator=(publish_ticket&& other) noexcept
    {
        if (this != &other) {
            drop();
            take_over(other);
        }
        return *this;
    }

    /// From 1 per channel; 0: no message, or one without confirms.
    [[nodiscard]] std::uint64_t number() const noexcept { return answer_.number; }
    /// Null while there is no answer.
    [[nodiscard]] const publish_answer* answer() const noexcept
    {
        return answered_ ? &answer_ : nullptr;
    }

    class answer_op;
    class confirm_op;
    /// Awaits the answer, whatever it is. One coroutine at a time; cancelled, it may be asked again.
    [[nodiscard]] answer_op answered() noexcept;
    /// Awaits the confirm. Throws publish_error.
    [[nodiscard]] confirm_op confirmed() noexcept;

private:
    friend class detail::publish_record;

    void drop() noexcept;
    void take_over(publish_ticket& other) noexcept;
    void take(publish_answer answer) noexcept;

    detail::publish_record* open_ = nullptr; // until it is answered
    answer_op* waiting_ = nullptr;
    publish_answer answer_;
    bool answered_ = false;
};

class [[nodiscard]] publish_ticket::answer_op : public runtime::waiter {
public:
    explicit answer_op(publish_ticket& asked) noexcept : ticket_(asked) {}
    [[nodiscard]] bool await_ready() const noexcept { return ticket_.answered_; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        enter();
        if (!suspend(handle)) {
            ticket_.waiting_ = nullptr;
            return false;
        }
        return true;
    }
    const publish_answer& await_resume()
    {
        if (!ticket_.answered_)
            throw_if_cancelled();
        return ticket_.answer_;
    }

private:
    friend class publish_ticket;
    void enter() noexcept;
    void wake() noexcept;
    void on_cancel() noexcept override;

    publish_ticket& ticket_;
};

class [[nodiscard]] publish_ticket::confirm_op final : public publish_ticket::answer_op {
public:
    using answer_op::answer_op;
    void await_resume() { answer_op::await_resume().require_confirmed(); }
};

inline publish_ticket::answer_op publish_ticket::answered() noexcept
{
    return answer_op(*this);
}

inline publish_ticket::confirm_op publish_ticket::confirmed() noexcept
{
    return confirm_op(*this);
}

} // namespace acquit::amqp
