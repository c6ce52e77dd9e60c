#include "unsettled.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace acquit::firehose {

void unsettled::add(std::uint64_t count, std::uint8_t slot)
{
    if (next_ + count - low_ > ring_.size())
        grow(next_ + count - low_);
    const auto at = next_ & mask_;
    const auto first = std::min<std::uint64_t>(count, ring_.size() - at);
    std::memset(ring_.data() + at, slot, first);
    std::memset(ring_.data(), slot, count - first);
    next_ += count;
    open_ += count;
}

void unsettled::skip(std::uint64_t count)
{
    if (low_ == next_) {
        low_ += count;
        next_ += count;
        return;
    }
    add(count, 0);
    open_ -= count;
}

unsettled::finding unsettled::find(std::uint64_t tag) const noexcept
{
    if (tag == 0 || tag >= next_)
        return finding::unknown;
    return tag < low_ || ring_[tag & mask_] == 0 ? finding::twice : finding::open;
}

std::uint8_t unsettled::settle(std::uint64_t tag) noexcept
{
    const auto slot = ring_[tag & mask_];
    ring_[tag & mask_] = 0;
    --open_;
    if (tag == low_)
        advance();
    return slot;
}

void unsettled::grow(std::uint64_t span)
{
    std::vector<std::uint8_t> larger(std::bit_ceil(span));
    const auto mask = larger.size() - 1;
    for (auto tag = low_; tag < next_; ++tag)
        larger[tag & mask] = ring_[tag & mask_];
    ring_ = std::move(larger);
    mask_ = mask;
}

} // namespace acquit::firehose
