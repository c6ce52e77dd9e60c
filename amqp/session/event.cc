#include <acquit/amqp/session/event.h>

namespace acquit::amqp {

const char* name(event_kind kind) noexcept
{
    switch (kind) {
    case event_kind::need_more:
        return "need_more";
    case event_kind::nothing:
        return "nothing";
    case event_kind::opened:
        return "opened";
    case event_kind::method:
        return "method";
    case event_kind::content:
        return "content";
    case event_kind::channel_opened:
        return "channel_opened";
    case event_kind::channel_closed:
        return "channel_closed";
    case event_kind::channel_close_ok:
        return "channel_close_ok";
    case event_kind::blocked:
        return "blocked";
    case event_kind::unblocked:
        return "unblocked";
    case event_kind::secret_updated:
        return "secret_updated";
    case event_kind::closed:
        return "closed";
    case event_kind::failed:
        return "failed";
    }
    return "?";
}

const char* name(content_kind kind) noexcept
{
    switch (kind) {
    case content_kind::deliver:
        return "deliver";
    case content_kind::get_ok:
        return "get_ok";
    case content_kind::return_:
        return "return";
    case content_kind::publish:
        return "publish";
    }
    return "?";
}

const char* name(session_state state) noexcept
{
    switch (state) {
    case session_state::idle:
        return "idle";
    case session_state::handshake:
        return "handshake";
    case session_state::open:
        return "open";
    case session_state::closing:
        return "closing";
    case session_state::closed:
        return "closed";
    case session_state::failed:
        return "failed";
    }
    return "?";
}

const char* name(channel_state state) noexcept
{
    switch (state) {
    case channel_state::closed:
        return "closed";
    case channel_state::opening:
        return "opening";
    case channel_state::open:
        return "open";
    case channel_state::closing:
        return "closing";
    }
    return "?";
}

const char* name(send_status status) noexcept
{
    switch (status) {
    case send_status::sent:
        return "sent";
    case send_status::connection_not_open:
        return "connection_not_open";
    case send_status::channel_not_open:
        return "channel_not_open";
    case send_status::too_large:
        return "too_large";
    case send_status::bad_argument:
        return "bad_argument";
    }
    return "?";
}

} // namespace acquit::amqp
