#include <acquit/amqp/wire/status.h>

namespace acquit::amqp::wire {

const char* describe(fault what) noexcept
{
    switch (what) {
    case fault::none:
        return "no fault";
    case fault::truncated:
        return "a field runs past the end of its frame or table";
    case fault::frame_end_missing:
        return "a frame does not end in the frame-end octet";
    case fault::frame_too_large:
        return "a frame is larger than was agreed";
    case fault::frame_too_small:
        return "a frame is too small for its type";
    case fault::unknown_frame_type:
        return "a frame has an unknown type";
    case fault::unknown_method:
        return "a method has unknown class and method ids";
    case fault::bad_field:
        return "a field has a value or a type that cannot be read";
    case fault::trailing_bytes:
        return "bytes follow where nothing may";
    case fault::nesting_too_deep:
        return "tables and arrays are nested too deeply";
    }
    return "unknown fault";
}

} // namespace acquit::amqp::wire
