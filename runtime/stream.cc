#include <acquit/runtime/error.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/stream.h>

#include <cerrno>

namespace acquit::runtime {

void read_op::begin() noexcept
{
    result_ = 0;
    asked_ = false;
    wait_for_callback();
    stream_.start_read(*this);
}

void read_op::finish(std::int32_t result) noexcept
{
    result_ = result;
    if (result == -ECANCELED && asked_)
        mark_cancelled();
    loop::current().make_ready(*this);
}

void read_op::on_cancel() noexcept
{
    asked_ = true;
    stream_.cancel_read(*this);
}

void read_op::throw_failure() const
{
    throw_if_cancelled();
    throw io_error(-result_, "reading from " + stream_.peer());
}

void write_op::set(std::span<const std::byte> bytes) noexcept
{
    single_ = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    set(std::span<const iovec>(&single_, 1));
}

void write_op::set(std::span<const iovec> parts) noexcept
{
    parts_ = parts;
    offset_ = 0;
    (void)advance(0); // skips empty parts
}

void write_op::begin(std::span<const std::byte> bytes) noexcept
{
    set(bytes);
    begin();
}

void write_op::begin(std::span<const iovec> parts) noexcept
{
    set(parts);
    begin();
}

void write_op::begin() noexcept
{
    result_ = 0;
    asked_ = false;
    wait_for_callback();
    stream_.start_write(*this);
}

std::span<const std::byte> write_op::next_bytes() const noexcept
{
    if (parts_.empty())
        return {};
    const auto& part = parts_.front();
    return std::span(static_cast<const std::byte*>(part.iov_base), part.iov_len).subspan(offset_);
}

std::span<const iovec> write_op::whole_parts() const noexcept
{
    return offset_ == 0 && parts_.size() > 1 ? parts_ : std::span<const iovec>{};
}

bool write_op::advance(std::size_t written) noexcept
{
    offset_ += written;
    while (!parts_.empty() && offset_ >= parts_.front().iov_len) {
        offset_ -= parts_.front().iov_len;
        parts_ = parts_.subspan(1);
    }
    return !parts_.empty();
}

void write_op::finish(std::int32_t result) noexcept
{
    result_ = result;
    if (result == -ECANCELED && asked_)
        mark_cancelled();
    loop::current().make_ready(*this);
}

void write_op::on_cancel() noexcept
{
    asked_ = true;
    stream_.cancel_write(*this);
}

void write_op::throw_failure() const
{
    throw_if_cancelled();
    throw io_error(-result_, "writing to " + stream_.peer());
}

} // namespace acquit::runtime
