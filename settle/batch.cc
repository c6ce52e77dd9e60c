#include <acquit/settle/batch.h>
#include <acquit/settle/inbox.h>

#include <fmt/format.h>

#include <algorithm>

namespace acquit::settle {

namespace {

constexpr std::uint32_t size_by_default = 64;
/// A slip of units is longer; so is what a broker lets pass without a settlement.
constexpr std::chrono::hours within_max{1};

} // namespace

std::uint32_t batch_options::size_for(std::uint16_t prefetch) const noexcept
{
    return size.value_or(std::min<std::uint32_t>(size_by_default, prefetch));
}

std::vector<std::string> batch_options::problems(std::uint16_t prefetch) const
{
    std::vector<std::string> found;
    if (size == 0U)
        found.emplace_back("batch of size 0 would hold nothing: give at least 1");
    if (size.value_or(0) > prefetch)
        found.push_back(fmt::format("batch of size {} with a prefetch of {}: the broker would stop "
                                    "delivering before it is full; lower the size or raise the "
                                    "prefetch",
                                    *size, prefetch));
    if (within.count() <= 0 || within > within_max)
        found.push_back(fmt::format("batch within {} ns: it must be above 0 and at most {} h",
                                    within.count(), within_max.count()));
    return found;
}

outcome batch_outcomes::of(std::size_t place) const noexcept
{
    if (const auto* for_all = std::get_if<outcome>(&decided_))
        return *for_all;
    const auto& each = *std::get_if<std::vector<outcome>>(&decided_);
    return place < each.size() ? each[place] : retry();
}

std::optional<std::size_t> batch_outcomes::mismatch(std::size_t deliveries) const noexcept
{
    const auto* each = std::get_if<std::vector<outcome>>(&decided_);
    if (each == nullptr || each->size() == deliveries)
        return std::nullopt;
    return each->size();
}

batch::batch(std::size_t size_max) : held_(size_max), stand_ins_(new delivery[size_max]) {}

batch::~batch()
{
    delete[] stand_ins_;
}

std::span<delivery> batch::fill(std::size_t count) noexcept
{
    count_ = count;
    for (std::size_t i = 0; i < count; ++i)
        stand_ins_[i].stand_for(*held_[i]);
    return {stand_ins_, count};
}

void batch::release(inbox& owner) noexcept
{
    for (std::size_t i = 0; i < count_; ++i)
        owner.release(*held_[i]);
    count_ = 0;
}

} // namespace acquit::settle
