#include <acquit/runtime/assert.h>
#include <acquit/runtime/detail/receive_feed.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace acquit::runtime {

void segment::last_hold_gone() noexcept
{
    if (filled_by_ != nullptr)
        filled_by_->disown(*this);
    pool_.give_back(this);
}

segment_ref segment_pool::take(std::size_t size)
{
    ++held_;
    for (segment** link = &cache_; *link != nullptr; link = &(*link)->next_) {
        segment* found = *link;
        if (found->size_ == size) {
            *link = found->next_;
            found->next_ = nullptr;
            cached_ -= size;
            return segment_ref(found);
        }
    }
    ++allocated_;
    void* memory = ::operator new(sizeof(segment) + size, std::align_val_t{alignof(segment)});
    return segment_ref(::new (memory) segment(*this, size));
}

void segment_pool::give_back(segment* returned) noexcept
{
    --held_;
    if (closed_) {
        free(returned);
        if (held_ == 0)
            delete this;
        return;
    }
    if (cached_ + returned->size_ > cached_bytes)
        return free(returned);
    cached_ += returned->size_;
    returned->next_ = cache_;
    cache_ = returned;
}

void segment_pool::close() noexcept
{
    while (cache_ != nullptr)
        free(std::exchange(cache_, cache_->next_));
    closed_ = true;
    if (held_ == 0)
        delete this;
}

void segment_pool::free(segment* freed) noexcept
{
    freed->~segment();
    ::operator delete(freed, std::align_val_t{alignof(segment)});
}

receive_buffer::receive_buffer(loop& owner, const receive_buffer_options& options)
    : loop_(owner), options_(options)
{
    ACQUIT_ASSERT(options.smallest_receive > 0 && options.smallest_receive <= options.segment_size,
                  "segment_size {}, smallest_receive {}", options.segment_size,
                  options.smallest_receive);
    take_segment(options_.headroom, options_.segment_size);
}

receive_buffer::~receive_buffer()
{
    feed_.reset(); // the kernel lets go first
    while (filled_ != nullptr)
        disown(*filled_);
}

void receive_buffer::clear() noexcept
{
    feed_.reset();
    policy_chosen_ = false;
    own_ = 1;
    begin_ = end_;
    required_ = 0;
}

void receive_buffer::make_room()
{
    const std::size_t unread_size = unread().size();
    if (unread_size >= required_)
        required_ = 0;
    const std::size_t usual = options_.headroom + options_.segment_size;
    if (unread_size == 0 && current_->unique() && current_->size() == usual &&
        required_ <= options_.segment_size) {
        begin_ = end_ = current_->begin() + options_.headroom;
        return;
    }
    const std::byte* const segment_end = current_->begin() + current_->size();
    const auto free = static_cast<std::size_t>(segment_end - end_);
    const auto from_unread = static_cast<std::size_t>(segment_end - begin_);
    if (free >= options_.smallest_receive && from_unread >= required_)
        return;
    const std::size_t headroom = std::max(options_.headroom, unread_size);
    const std::size_t missing = required_ - std::min(required_, unread_size);
    take_segment(headroom, std::max(options_.segment_size, missing));
}

// Goes on in a segment of such parts, with what is unread right before its data part. Where nobody else
// holds the present one and it will do, that is the one: its memory is the warmest.
void receive_buffer::take_segment(std::size_t headroom, std::size_t data)
{
    segment_ref next = current_;
    if (!current_ || current_->size() != headroom + data || current_->holds_ != 2) {
        next = loop_.segments().take(headroom + data);
        adopt(*next.get());
    }
    const std::size_t unread_size = unread().size();
    std::byte* const target = next->begin() + headroom;
    if (unread_size > 0)
        std::memmove(target - unread_size, begin_, unread_size);
    begin_ = target - unread_size;
    end_ = target;
    current_ = std::move(next);
}

std::span<std::byte> receive_buffer::free_part() noexcept
{
    return {end_, current_->begin() + current_->size()};
}

void receive_buffer::adopt(segment& taken) noexcept
{
    taken.filled_by_ = this;
    taken.previous_ = nullptr;
    taken.next_ = filled_;
    if (filled_ != nullptr)
        filled_->previous_ = &taken;
    filled_ = &taken;
    ++segments_;
}

void receive_buffer::disown(segment& gone) noexcept
{
    (gone.previous_ != nullptr ? gone.previous_->next_ : filled_) = gone.next_;
    if (gone.next_ != nullptr)
        gone.next_->previous_ = gone.previous_;
    gone.filled_by_ = nullptr;
    gone.next_ = gone.previous_ = nullptr;
    --segments_;
}

} // namespace acquit::runtime
