#include "credit.h"

namespace acquit::bench {

credit::credit(std::uint32_t prefetch)
    : prefetch_(prefetch), handings_(prefetch == 0 ? 0 : std::size_t{prefetch} + 1)
{
}

void credit::settled(std::uint64_t messages, runtime::time_point handed_over) noexcept
{
    settled_ += messages;
    if (messages == 0 || size_ == handings_.size())
        return;
    handings_[(head_ + size_) % handings_.size()] = {settled_, handed_over};
    ++size_;
}

void credit::arrived(runtime::time_point now) noexcept
{
    ++arrived_;
    if (arrived_ <= prefetch_ || size_ == 0)
        return;
    const std::uint64_t needed = arrived_ - prefetch_;
    while (size_ != 0 && handings_[head_].until < needed) {
        head_ = (head_ + 1) % handings_.size();
        --size_;
    }
    if (size_ != 0)
        latency_.record(now - handings_[head_].at);
}

} // namespace acquit::bench
