#include <acquit/settle/histogram.h>

#include <cmath>

namespace acquit::settle {

histogram::nanoseconds histogram::mean() const noexcept
{
    return as_duration(count_ == 0 ? 0 : sum_ / count_);
}

histogram::nanoseconds histogram::percentile(double p) const noexcept
{
    if (count_ == 0)
        return {};
    const double share = p > 0 ? std::min(p, 100.0) / 100.0 : 0.0; // also for a p that is no number
    const auto rank = std::max<std::uint64_t>(
        static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_))), 1);
    if (rank >= count_)
        return max();
    std::uint64_t passed = 0;
    for (std::size_t i = 0; i < bucket_count - 1; ++i) {
        passed += buckets_[i];
        if (passed >= rank) {
            const std::uint64_t middle = lower_of(i) + (lower_of(i + 1) - lower_of(i)) / 2;
            return as_duration(std::min(middle, max_));
        }
    }
    return max();
}

void histogram::merge(const histogram& other) noexcept
{
    for (std::size_t i = 0; i < bucket_count; ++i)
        buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
}

void histogram::reset() noexcept
{
    *this = histogram{};
}

} // namespace acquit::settle
