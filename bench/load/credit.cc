#include "credit.h"

#include <algorithm>

namespace acquit::bench {

void credit::settled(std::uint64_t messages, runtime::time_point handed_over)
{
    settled_ += messages;
    if (messages == 0 || size_ > prefetch_ || prefetch_ == 0)
        return;
    if (size_ == handings_.size()) {
        std::rotate(handings_.begin(), handings_.begin() + static_cast<std::ptrdiff_t>(head_),
                    handings_.end());
        head_ = 0;
        handings_.resize(std::max<std::size_t>(handings_.size() * 2, 8));
    }
    handings_[(head_ + size_) % handings_.size()] = {settled_, handed_over};
    ++size_;
}

std::optional<runtime::duration> credit::arrived(runtime::time_point now) noexcept
{
    ++arrived_;
    if (arrived_ <= prefetch_ || size_ == 0)
        return {};
    const std::uint64_t needed = arrived_ - prefetch_;
    while (size_ != 0 && handings_[head_].until < needed) {
        head_ = (head_ + 1) % handings_.size();
        --size_;
    }
    if (size_ == 0)
        return {};
    const auto took = now - handings_[head_].at;
    latency_->record(took);
    return took;
}

} // namespace acquit::bench
