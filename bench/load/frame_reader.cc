#include "frame_reader.h"

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/reader.h>
#include <acquit/amqp/wire/status.h>

#include <algorithm>

namespace acquit::bench {

namespace wire = amqp::wire;

namespace {

/// Moves up to `size - kept.size()` bytes over. True when `kept` has `size`.
bool fill(std::vector<std::byte>& kept, std::size_t size, std::span<const std::byte>& bytes)
{
    const auto more = std::min(size - kept.size(), bytes.size());
    kept.insert(kept.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(more));
    bytes = bytes.subspan(more);
    return kept.size() == size;
}

} // namespace

const char* frame_reader::read(std::span<const std::byte> bytes, sink& to)
{
    while (!bytes.empty()) {
        const char* wrong = nullptr;
        switch (part_) {
        case part::head:
            if (fill(kept_, wire::frame_head_size, bytes))
                wrong = begin_frame();
            break;
        case part::kept:
            if (kept_.empty() && bytes.size() >= wanted_) {
                wrong = finish_frame(bytes.first(wanted_), to);
                bytes = bytes.subspan(wanted_);
            } else if (fill(kept_, wanted_, bytes)) {
                wrong = finish_frame(kept_, to);
            }
            break;
        case part::body: {
            const auto size = std::min(left_, bytes.size());
            left_ -= size;
            const bool ended = left_ == 0;
            if (ended && bytes[size - 1] != std::byte{wire::frame_end})
                return wire::describe(wire::fault::frame_end_missing);
            if (type_ == wire::frame_body && size > (ended ? 1u : 0u))
                to.on_body(channel_, size - (ended ? 1 : 0));
            bytes = bytes.subspan(size);
            if (ended)
                part_ = part::head;
            break;
        }
        }
        if (wrong != nullptr)
            return wrong;
    }
    return nullptr;
}

const char* frame_reader::begin_frame()
{
    wire::reader head(kept_);
    type_ = head.u8();
    channel_ = head.u16();
    const std::size_t size = head.u32();
    kept_.clear();
    switch (type_) {
    case wire::frame_method:
    case wire::frame_header:
        if (size > kept_max)
            return wire::describe(wire::fault::frame_too_large);
        wanted_ = size + 1;
        part_ = part::kept;
        return nullptr;
    case wire::frame_body:
    case wire::frame_heartbeat:
        left_ = size + 1;
        part_ = part::body;
        return nullptr;
    default:
        return wire::describe(wire::fault::unknown_frame_type);
    }
}

const char* frame_reader::finish_frame(std::span<const std::byte> payload_and_end, sink& to)
{
    part_ = part::head;
    if (payload_and_end.back() != std::byte{wire::frame_end})
        return wire::describe(wire::fault::frame_end_missing);
    const auto payload = payload_and_end.first(payload_and_end.size() - 1);
    if (type_ == wire::frame_method)
        to.on_method(channel_, payload);
    else
        to.on_header(channel_, payload);
    kept_.clear();
    return nullptr;
}

} // namespace acquit::bench
