#include <acquit/amqp/session/output.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace acquit::amqp {

namespace {

// One page: what an idle connection writes now and then fits without growing.
constexpr std::size_t first_capacity = 4096;

} // namespace

void output_buffer::commit(std::size_t n) noexcept
{
    assert(n <= open_.capacity - open_.size && "commit of more than was reserved");
    open_.size += n;
}

void output_buffer::share(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
{
    assert(!bytes.empty() && "nothing to share");
    open_.shared.push_back({open_.size, bytes, std::move(owner)});
    open_.shared_size += bytes.size();
}

std::span<const std::span<const std::byte>> output_buffer::begin_gathered_send()
{
    assert(!sending_ && "one send in flight at a time");
    parts_.clear();
    parts_.reserve(2 * open_.shared.size() + 1);
    std::size_t from = 0;
    const auto own_bytes_up_to = [&](std::size_t to) {
        if (to > from)
            parts_.emplace_back(open_.data.get() + from, to - from);
        from = to;
    };
    for (const auto& part : open_.shared) {
        own_bytes_up_to(part.after);
        parts_.push_back(part.bytes);
    }
    own_bytes_up_to(open_.size);
    std::swap(open_, in_flight_);
    sending_ = true;
    return parts_;
}

std::span<const std::byte> output_buffer::begin_send() noexcept
{
    assert(!sending_ && "one send in flight at a time");
    assert(open_.shared.empty() && "shared bytes take a gathered send");
    std::swap(open_, in_flight_);
    sending_ = true;
    return {in_flight_.data.get(), in_flight_.size};
}

void output_buffer::end_send() noexcept
{
    assert(sending_ && "no send in flight");
    sending_ = false;
    in_flight_.forget();
    if (in_flight_.capacity > kept_size_max_) {
        in_flight_ = {};
    }
}

void output_buffer::clear() noexcept
{
    open_.forget();
    if (open_.capacity > kept_size_max_) {
        open_ = {};
    }
}

void output_buffer::grow(std::size_t n)
{
    const auto capacity = std::max({first_capacity, 2 * open_.capacity, open_.size + n});
    auto data = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (open_.size != 0) {
        std::memcpy(data.get(), open_.data.get(), open_.size);
    }
    open_.data = std::move(data);
    open_.capacity = capacity;
}

} // namespace acquit::amqp
