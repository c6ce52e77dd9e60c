#include <acquit/runtime/error.h>
#include <acquit/runtime/io_op.h>

#include <cerrno>

#include <poll.h>

namespace acquit::runtime {

void io_op::start() noexcept
{
    auto& owner = loop::current();
    asked_ = false;
    token_ = prepare(owner.io(), {&io_op::completed, this});
    owner.prepared();
}

void io_op::on_cancel() noexcept
{
    asked_ = true;
    loop::current().io().cancel(token_);
    loop::current().prepared();
}

void io_op::completed(void* self, std::int32_t result, std::uint32_t) noexcept
{
    auto& operation = *static_cast<io_op*>(self);
    operation.result_ = result;
    // An operation that was about to sleep may answer a cancel with EINTR as well.
    if (operation.asked_ && (result == -ECANCELED || result == -EINTR))
        operation.mark_cancelled();
    loop::current().make_ready(operation);
}

std::int32_t io_op::result() const
{
    throw_if_cancelled();
    return result_;
}

poll_op wait_readable(int fd) noexcept
{
    return {fd, POLLIN};
}
poll_op wait_writable(int fd) noexcept
{
    return {fd, POLLOUT};
}

void poll_op::await_resume() const
{
    if (const auto events = result(); events < 0)
        throw io_error(-events, "poll");
}

ring_token poll_op::prepare(ring& io, completion_target target) noexcept
{
    return io.poll(fd_, events_, target);
}

} // namespace acquit::runtime
