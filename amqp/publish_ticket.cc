#include <acquit/amqp/detail/publish_record.h>
#include <acquit/amqp/publish_ticket.h>
#include <acquit/amqp/wire/constants.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/loop.h>

#include <utility>

namespace acquit::amqp {

std::string publish_answer::text() const
{
    if (!cause)
        return code != 0 ? wire::reply_name(code) : "";
    try {
        std::rethrow_exception(cause);
    } catch (const std::exception& e) {
        return e.what();
    }
}

void publish_answer::require_confirmed() const
{
    if (failure)
        throw publish_error(*failure, code, text(), number, 1, cause);
}

void publish_ticket::drop() noexcept
{
    ACQUIT_ASSERT(waiting_ == nullptr, "the ticket of publish {} destroyed while it is awaited",
                  answer_.number);
    if (open_ != nullptr)
        open_->holder = nullptr;
}

void publish_ticket::take_over(publish_ticket& other) noexcept
{
    ACQUIT_ASSERT(other.waiting_ == nullptr, "the ticket of publish {} moved while it is awaited",
                  other.answer_.number);
    open_ = std::exchange(other.open_, nullptr);
    answer_ = std::exchange(other.answer_, {});
    answered_ = std::exchange(other.answered_, false);
    if (open_ != nullptr)
        open_->holder = this;
}

void publish_ticket::take(publish_answer answer) noexcept
{
    open_->holder = nullptr;
    open_ = nullptr;
    answer_ = std::move(answer);
    answered_ = true;
    if (auto* op = std::exchange(waiting_, nullptr))
        op->wake();
}

void publish_ticket::answer_op::enter() noexcept
{
    ACQUIT_ASSERT(ticket_.open_ != nullptr,
                  "awaited a ticket of no message, or of one that is sent "
                  "without confirms");
    ACQUIT_ASSERT(ticket_.waiting_ == nullptr, "the ticket of publish {} awaited twice at a time",
                  ticket_.answer_.number);
    ticket_.waiting_ = this;
}

void publish_ticket::answer_op::wake() noexcept
{
    runtime::loop::current().make_ready(*this);
}

void publish_ticket::answer_op::on_cancel() noexcept
{
    ticket_.waiting_ = nullptr;
    mark_cancelled();
    wake();
}

} // namespace acquit::amqp
