#include <acquit/runtime/loop.h>
#include <acquit/runtime/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <unistd.h>

namespace acquit::runtime {

namespace {
// UIO_MAXIOV: the kernel refuses longer arrays.
constexpr std::size_t most_parts = 1024;
} // namespace

socket_stream::socket_stream(loop& owner, int fd, std::string peer) noexcept
    : loop_(owner), fd_(fd), peer_(std::move(peer))
{
}

socket_stream::~socket_stream()
{
    ACQUIT_ASSERT(reading_ == nullptr && writing_ == nullptr && feeding_ == nullptr,
                  "stream to {} destroyed with an operation in flight", peer_);
    close();
}

void socket_stream::shutdown_write() noexcept
{
    ACQUIT_ASSERT(writing_ == nullptr, "shutdown_write while a write is in flight");
    if (fd_ >= 0)
        ::shutdown(fd_, SHUT_WR);
}

void socket_stream::close() noexcept
{
    if (fd_ < 0)
        return;
    if (reading_ != nullptr || writing_ != nullptr || feeding_ != nullptr) {
        if (reading_ != nullptr)
            loop_.io().cancel(reading_->token);
        if (feeding_ != nullptr)
            loop_.io().cancel(feeding_->token);
        if (writing_ != nullptr)
            loop_.io().cancel(writing_->token);
        // The kernel must know them by file before the number can be someone else's.
        loop_.io().submit();
    }
    ::shutdown(fd_, SHUT_RDWR);
    ::close(std::exchange(fd_, -1));
}

void socket_stream::start_read(read_op& operation) noexcept
{
    ACQUIT_ASSERT(reading_ == nullptr && feeding_ == nullptr, "one read at a time");
    ACQUIT_ASSERT(!operation.into().empty(), "a read needs room for a byte");
    if (fd_ < 0)
        return operation.finish(-ECONNABORTED);
    reading_ = &operation;
    operation.token = loop_.io().recv(fd_, operation.into(), {&socket_stream::read_done, this});
    loop_.prepared();
}

void socket_stream::read_done(void* self, std::int32_t result, std::uint32_t) noexcept
{
    auto& stream = *static_cast<socket_stream*>(self);
    auto& operation = *std::exchange(stream.reading_, nullptr);
    if (stream.fd_ < 0)
        operation.finish(-ECONNABORTED);
    else if (result == -EINTR && !operation.cancel_asked())
        stream.start_read(operation);
    else
        operation.finish(result == -EINTR ? -ECANCELED : result);
}

void socket_stream::cancel_read(read_op& operation) noexcept
{
    if (reading_ != &operation)
        return;
    loop_.io().cancel(operation.token);
    loop_.prepared();
}

void socket_stream::start_feed(stream_feed& feed) noexcept
{
    ACQUIT_ASSERT(reading_ == nullptr && feeding_ == nullptr, "one read at a time");
    if (fd_ < 0)
        return feed.fed(-ECONNABORTED, 0, false);
    feeding_ = &feed;
    feed.token = loop_.io().recv_into(fd_, feed.memory(), {&socket_stream::feed_done, this});
    loop_.prepared();
}

void socket_stream::stop_feed(stream_feed& feed) noexcept
{
    if (feeding_ != &feed)
        return;
    loop_.io().cancel_now(feed.token);
    feeding_ = nullptr;
}

void socket_stream::feed_done(void* self, std::int32_t result, std::uint32_t flags) noexcept
{
    auto& stream = *static_cast<socket_stream*>(self);
    auto& feed = *stream.feeding_;
    const bool goes_on = ring::more_follow(flags);
    if (!goes_on)
        stream.feeding_ = nullptr;
    if (stream.fd_ < 0 && result <= 0)
        result = -ECONNABORTED;
    feed.fed(result, ring::piece_of(flags), goes_on);
}

void socket_stream::start_write(write_op& operation) noexcept
{
    ACQUIT_ASSERT(writing_ == nullptr, "one write at a time");
    if (fd_ < 0)
        return operation.finish(-ECONNABORTED);
    if (operation.next_bytes().empty())
        return operation.finish(0);
    writing_ = &operation;
    continue_write();
}

void socket_stream::continue_write() noexcept
{
    write_op& operation = *writing_;
    const completion_target target{&socket_stream::write_done, this};
    if (const auto parts = operation.whole_parts(); !parts.empty()) {
        operation.message.msg_iov = const_cast<iovec*>(parts.data());
        operation.message.msg_iovlen = std::min(parts.size(), most_parts);
        operation.token = loop_.io().sendmsg(fd_, &operation.message, target);
    } else {
        operation.token = loop_.io().send(fd_, operation.next_bytes(), target);
    }
    loop_.prepared();
}

void socket_stream::write_done(void* self, std::int32_t result, std::uint32_t) noexcept
{
    auto& stream = *static_cast<socket_stream*>(self);
    auto& operation = *stream.writing_;
    const bool more = result >= 0 && operation.advance(static_cast<std::size_t>(result));
    const bool again = more || result == -EINTR;
    if (again && stream.fd_ >= 0 && !operation.cancel_asked())
        return stream.continue_write();
    stream.writing_ = nullptr;
    if (result >= 0 && !more)
        operation.finish(0);
    else if (stream.fd_ < 0)
        operation.finish(-ECONNABORTED);
    else
        operation.finish(again ? -ECANCELED : result);
}

void socket_stream::cancel_write(write_op& operation) noexcept
{
    if (writing_ != &operation)
        return;
    loop_.io().cancel(operation.token);
    loop_.prepared();
}

} // namespace acquit::runtime
