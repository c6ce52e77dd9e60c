#include <acquit/amqp/session/channel_table.h>

#include <algorithm>

namespace acquit::amqp {

namespace {

void shrink(std::vector<std::byte>& scratch) noexcept
{
    scratch.clear();
    if (scratch.capacity() > assembly::kept_size_max) {
        std::vector<std::byte>().swap(scratch);
    }
}

} // namespace

void assembly::append_body(std::span<const std::byte> bytes)
{
    const auto needed = body.size() + bytes.size();
    if (needed > body.capacity()) {
        // Towards the announced size, but never far beyond what has come.
        const auto ahead = std::max({needed, 2 * body.capacity(), std::size_t{reserve_ahead_max}});
        body.reserve(static_cast<std::size_t>(
            std::min<std::uint64_t>(std::max<std::uint64_t>(content.body_size, needed), ahead)));
    }
    body.insert(body.end(), bytes.begin(), bytes.end());
}

void assembly::reset() noexcept
{
    now = phase::idle;
    content = {};
    remaining = 0;
    shrink(head);
    shrink(properties);
    shrink(body);
}

void channel_table::set(std::uint16_t channel, channel_state state)
{
    if (channel >= entries_.size()) {
        if (state == channel_state::closed) {
            return;
        }
        entries_.resize(std::size_t{channel} + 1);
    }
    auto& here = entries_[channel];
    if (here.state == channel_state::closed && state != channel_state::closed) {
        ++in_use_;
    } else if (here.state != channel_state::closed && state == channel_state::closed) {
        --in_use_;
        free_hint_ = std::min(free_hint_, channel);
    }
    here.state = state;
    if (state == channel_state::closed) {
        here.half.reset();
    }
}

assembly& channel_table::half_message(std::uint16_t channel)
{
    auto& here = entries_[channel];
    if (!here.half) {
        here.half = std::make_unique<assembly>();
    }
    return *here.half;
}

std::uint16_t channel_table::lowest_free(std::uint16_t channel_max) noexcept
{
    while (free_hint_ < entries_.size() && entries_[free_hint_].state != channel_state::closed) {
        if (free_hint_ == 65535) {
            return 0;
        }
        ++free_hint_;
    }
    return free_hint_ <= channel_max ? free_hint_ : std::uint16_t{0};
}

} // namespace acquit::amqp
