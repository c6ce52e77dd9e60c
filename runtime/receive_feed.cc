#include <acquit/runtime/assert.h>
#include <acquit/runtime/detail/receive_feed.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace acquit::runtime {

void receive_buffer::feed::add(segment_ref segment, std::byte* begin) noexcept
{
    piece& added = pieces_[count_++];
    added.end = segment->begin() + segment->size();
    added.segment = std::move(segment);
    added.next = begin;
    added.id = next_id_++;
    memory_->add({begin, added.end}, added.id);
}

void receive_buffer::feed::pop_front() noexcept
{
    std::move(pieces_.begin() + 1, pieces_.begin() + static_cast<std::ptrdiff_t>(count_),
              pieces_.begin());
    pieces_[--count_] = {};
}

std::size_t receive_buffer::feed::room() const noexcept
{
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count_; ++i)
        bytes += static_cast<std::size_t>(pieces_[i].end - pieces_[i].next);
    return bytes - arrived;
}

// By our own count the next `bytes` lie within the piece that the kernel named.
bool receive_buffer::feed::expected(std::size_t bytes, std::uint16_t id) const noexcept
{
    std::size_t before = arrived;
    for (std::size_t i = 0; i < count_; ++i) {
        const auto size = static_cast<std::size_t>(pieces_[i].end - pieces_[i].next);
        if (before < size)
            return pieces_[i].id == id && bytes <= size - before;
        before -= size;
    }
    return false;
}

void receive_buffer::feed::fed(std::int32_t result, std::uint16_t id, bool goes_on) noexcept
{
    started_ = goes_on;
    if (result > 0 && !over_) {
        const auto bytes = static_cast<std::size_t>(result);
        if (expected(bytes, id)) {
            arrived += bytes;
        } else {
            over_ = true; // where these bytes lie nobody knows
            last_word_ = -EIO;
        }
    } else if (result != -ENOBUFS && result != -EINTR && !over_) {
        over_ = true;
        last_word_ = result;
    }
    if (waiting == nullptr)
        return;
    if (arrived == 0 && !over_)
        return start(); // nothing came of it: there is room, so it goes on
    std::exchange(waiting, nullptr)->finish(0);
}

void receive_buffer::receive_op::await_feed() noexcept
{
    buffer_.feed_->waiting = this;
}

void receive_buffer::receive_op::on_cancel() noexcept
{
    if (!buffer_.is_fed())
        return read_op::on_cancel();
    buffer_.feed_->waiting = nullptr;
    mark_cancelled();
    finish(-ECANCELED);
}

void receive_buffer::choose_policy(stream& from)
{
    policy_chosen_ = true;
    if (loop_.has_virtual_time() || !from.can_be_fed())
        return;
    auto memory = loop_.io().provide();
    if (memory == nullptr)
        return;
    feed_ = std::make_unique<feed>(std::move(memory), from);
    // The segment that is there, from where it is empty.
    if (free_part().size() >= options_.smallest_receive)
        feed_->add(current_, end_);
    count_own();
}

void receive_buffer::supply()
{
    // A segment ahead only when there is little left: the kernel walks through all that it has, and
    // what is used in turns should stay few.
    if (feed_->room() >= options_.smallest_receive ||
        feed_->pieces() == provided_memory::pieces_max)
        return;
    const std::size_t size = options_.headroom + options_.segment_size;
    const bool again =
        feed_->pieces() == 0 && unread().empty() && current_->unique() && current_->size() == size;
    segment_ref next = again ? current_ : loop_.segments().take(size);
    if (!again)
        adopt(*next.get());
    std::byte* const begin = next->begin() + options_.headroom;
    if (again)
        begin_ = end_ = begin;
    feed_->add(std::move(next), begin);
    count_own();
}

void receive_buffer::count_own() noexcept
{
    const bool in_piece = feed_->pieces() != 0 && current_.get() == feed_->front().segment.get();
    own_ = feed_->pieces() + (in_piece ? 0 : 1);
}

bool receive_buffer::fed_ready() noexcept
{
    if (feed_->arrived == 0 && !feed_->over())
        feed_->start();
    return feed_->arrived != 0 || feed_->over();
}

std::int32_t receive_buffer::take_fed()
{
    if (feed_->arrived == 0)
        return feed_->last_word();
    feed::piece& front = feed_->front();
    if (current_.get() != front.segment.get())
        go_on_elsewhere();
    std::size_t bytes = std::min(feed_->arrived, static_cast<std::size_t>(front.end - front.next));
    if (current_.get() != front.segment.get()) {
        bytes = std::min(bytes, free_part().size());
        std::memcpy(end_, front.next, bytes);
    }
    end_ += bytes;
    front.next += bytes;
    feed_->arrived -= bytes;
    if (front.next == front.end)
        feed_->pop_front();
    count_own();
    return static_cast<std::int32_t>(bytes);
}

// What comes next does not lie behind what is unread.
void receive_buffer::go_on_elsewhere()
{
    const feed::piece& front = feed_->front();
    const std::size_t unread_size = unread().size();
    if (unread_size >= required_)
        required_ = 0;
    const auto room = static_cast<std::size_t>(front.end - front.next);
    // Into its headroom, where it has one; what stands before the middle of a piece is somebody's.
    const bool untouched = front.next == front.segment->begin() + options_.headroom;
    if (unread_size == 0 ||
        (untouched && unread_size <= options_.headroom && required_ <= unread_size + room)) {
        std::memmove(front.next - unread_size, begin_, unread_size);
        begin_ = front.next - unread_size;
        end_ = front.next;
        current_ = front.segment;
        aside_ = false;
        return;
    }
    // A frame for which two neighbours do not do is put together in a segment of its own, and what
    // comes is copied there until nothing is unread.
    const std::size_t needed = std::max(required_, unread_size + 1);
    if (aside_ && unread_size + free_part().size() >= needed)
        return;
    segment_ref own =
        loop_.segments().take(std::max({needed, 2 * unread_size, unread_size + room}));
    adopt(*own.get());
    std::memcpy(own->begin(), begin_, unread_size);
    begin_ = own->begin();
    end_ = begin_ + unread_size;
    current_ = std::move(own);
    aside_ = true;
}

} // namespace acquit::runtime
