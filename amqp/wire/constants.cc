#include <acquit/amqp/wire/constants.h>

namespace acquit::amqp::wire {

const char* reply_name(reply_code code) noexcept
{
    switch (code) {
    case reply_code::success:
        return "SUCCESS";
    case reply_code::content_too_large:
        return "CONTENT_TOO_LARGE";
    case reply_code::no_route:
        return "NO_ROUTE";
    case reply_code::no_consumers:
        return "NO_CONSUMERS";
    case reply_code::connection_forced:
        return "CONNECTION_FORCED";
    case reply_code::invalid_path:
        return "INVALID_PATH";
    case reply_code::access_refused:
        return "ACCESS_REFUSED";
    case reply_code::not_found:
        return "NOT_FOUND";
    case reply_code::resource_locked:
        return "RESOURCE_LOCKED";
    case reply_code::precondition_failed:
        return "PRECONDITION_FAILED";
    case reply_code::frame_error:
        return "FRAME_ERROR";
    case reply_code::syntax_error:
        return "SYNTAX_ERROR";
    case reply_code::command_invalid:
        return "COMMAND_INVALID";
    case reply_code::channel_error:
        return "CHANNEL_ERROR";
    case reply_code::unexpected_frame:
        return "UNEXPECTED_FRAME";
    case reply_code::resource_error:
        return "RESOURCE_ERROR";
    case reply_code::not_allowed:
        return "NOT_ALLOWED";
    case reply_code::not_implemented:
        return "NOT_IMPLEMENTED";
    case reply_code::internal_error:
        return "INTERNAL_ERROR";
    }
    return "UNKNOWN";
}

} // namespace acquit::amqp::wire
