#pragma once

#include <acquit/amqp/channel.h>

#include <fmt/format.h>

namespace acquit::amqp {

template <class Request>
runtime::task<std::vector<std::byte>> channel::call(Request request, wire::method_id expected,
                                                    std::optional<received>* message)
{
    require_open();
    const auto status = owner_.session().send(number_, request);
    if (status != send_status::sent)
        throw channel_error(number_, 502,
                            fmt::format("{} not sent: {}", Request::name, name(status)));
    owner_.output_written();
    co_return co_await answer_of(expected, Request::name, message);
}

} // namespace acquit::amqp
