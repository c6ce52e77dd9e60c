#include "server_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace acquit::settle::testing {
namespace {

std::uint64_t big_endian(std::span<const std::byte> bytes)
{
    std::uint64_t value = 0;
    for (const std::byte each : bytes)
        value = value << 8 | std::to_integer<std::uint64_t>(each);
    return value;
}

} // namespace

std::uint64_t server_model::deliver()
{
    fates_.push_back(fate::unacked);
    unacked_.push_back(fates_.size());
    return fates_.size();
}

std::uint64_t server_model::deliver_no_ack()
{
    fates_.push_back(fate::needs_none);
    return fates_.size();
}

void server_model::reset()
{
    unacked_.clear();
    fates_.clear();
    received_.clear();
    error_.clear();
}

bool server_model::fail(std::string what)
{
    if (error_.empty())
        error_ = std::move(what);
    return false;
}

bool server_model::receive(std::span<const std::byte> bytes)
{
    while (error_.empty() && !bytes.empty()) {
        if (bytes.size() < 7)
            return fail(fmt::format("{} bytes after the last frame", bytes.size()));
        const std::uint64_t payload = big_endian(bytes.subspan(3, 4));
        if (bytes.size() < payload + 8)
            return fail(fmt::format("a frame of {} bytes in {}", payload + 8, bytes.size()));
        if (!receive_frame(bytes.first(payload + 8)))
            return false;
        bytes = bytes.subspan(payload + 8);
    }
    return error_.empty();
}

// AMQP 0-9-1 4.2.3 and 1.8.3: type, channel, size, class 60, method, tag, bits, frame end.
bool server_model::receive_frame(std::span<const std::byte> frame)
{
    ++frames_;
    if (big_endian(frame.first(1)) != 1)
        return fail("not a method frame");
    if (big_endian(frame.subspan(1, 2)) != channel_)
        return fail(fmt::format("on channel {}", big_endian(frame.subspan(1, 2))));
    if (frame.size() != 21 || big_endian(frame.last(1)) != 0xCE)
        return fail("a malformed frame");
    if (big_endian(frame.subspan(7, 2)) != 60)
        return fail("not class basic");
    const std::uint64_t method = big_endian(frame.subspan(9, 2));
    const std::uint64_t tag = big_endian(frame.subspan(11, 8));
    const std::uint64_t bits = big_endian(frame.subspan(19, 1));
    received_.push_back(tag);
    if (tag == 0)
        return fail("tag 0");
    switch (method) {
    case 80:
        if (bits > 1)
            return fail("reserved bits of basic.ack");
        return settle(tag, bits & 1, fate::acked);
    case 90:
        if (bits > 1)
            return fail("reserved bits of basic.reject");
        return settle(tag, false, bits & 1 ? fate::requeued : fate::rejected);
    case 120:
        ++nacks_;
        if (bits > 3 || (bits & 2) == 0)
            return fail("a basic.nack that does not requeue");
        return settle(tag, bits & 1, fate::given_back);
    default:
        return fail(fmt::format("method 60.{}", method));
    }
}

bool server_model::settle(std::uint64_t tag, bool multiple, fate how)
{
    const auto at = std::ranges::lower_bound(unacked_, tag);
    if (at == unacked_.end() || *at != tag)
        return fail(fmt::format("PRECONDITION_FAILED - unknown delivery tag {}", tag));
    if (!multiple) {
        scanned_ += static_cast<std::uint64_t>(at - unacked_.begin());
        fates_[tag - 1] = how;
        unacked_.erase(at);
        return true;
    }
    ++multiples_;
    for (auto each = unacked_.begin(); each <= at; ++each)
        fates_[*each - 1] = how;
    unacked_.erase(unacked_.begin(), at + 1);
    return true;
}

} // namespace acquit::settle::testing
