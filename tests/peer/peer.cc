#include "peer.h"

#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/scope.h>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace acquit::testing {

peer::peer(std::unique_ptr<runtime::stream> stream, amqp::server_options options)
    : stream_(std::move(stream)), session_(std::move(options)), input_(runtime::loop::current())
{
}

peer::~peer() = default;

runtime::task<> peer::serve()
{
    session_.start(
        static_cast<std::uint64_t>(runtime::loop::current().now().time_since_epoch().count()));
    try {
        co_await runtime::with_scope([this](runtime::scope& tasks) -> runtime::task<> {
            tasks.spawn(write_loop());
            co_await read_loop();
            finished_ = true;
            stream_->close();
            wake_.notify_all();
        });
    } catch (const runtime::io_error&) {
    } catch (const runtime::operation_cancelled&) {
    }
    stream_->close();
    over_.set();
    news_.notify_all();
    if (on_gone)
        on_gone();
}

runtime::task<> peer::ignore()
{
    co_await over_.wait();
}

runtime::task<> peer::read_loop()
{
    for (;;) {
        while (!listening_)
            co_await listen_.wait();
        if (co_await input_.receive(*stream_) == 0)
            co_return;
        ++receives_;
        session_.note_input(0);
        for (;;) {
            const auto e = session_.next(input_.unread());
            if (e.kind == amqp::event_kind::need_more) {
                input_.require(e.wanted);
                break;
            }
            const bool go_on = handle(e);
            input_.consume(e.consumed);
            if (!go_on)
                co_return;
        }
        if (!session_.output().open_empty())
            flush();
    }
}

runtime::task<> peer::write_loop()
{
    auto& output = session_.output();
    for (;;) {
        while (output.open_empty()) {
            if (finished_)
                co_return;
            co_await wake_.wait();
        }
        const auto bytes = output.begin_send();
        try {
            co_await stream_->write(bytes);
        } catch (...) {
            output.end_send();
            if (finished_)
                co_return;
            throw;
        }
        output.end_send();
    }
}

bool peer::handle(const amqp::event& e)
{
    using amqp::event_kind;
    switch (e.kind) {
    case event_kind::opened:
        record(0, wire::id_of<wire::connection::open>);
        return true;
    case event_kind::channel_opened:
        record(e.channel, wire::id_of<wire::channel::open>);
        return true;
    case event_kind::channel_closed:
        record(e.channel, wire::id_of<wire::channel::close>);
        return true;
    case event_kind::channel_close_ok:
        record(e.channel, wire::id_of<wire::channel::close_ok>);
        return true;
    case event_kind::closed:
        record(0, session_.close_info().by_peer ? wire::id_of<wire::connection::close>
                                                : wire::id_of<wire::connection::close_ok>);
        return true; // until the client ends the stream
    case event_kind::method:
        record(e.channel, session_.method().id, session_.method().payload);
        return true;
    case event_kind::content: {
        const auto& c = session_.content();
        record(
            said{.at = {},
                 .channel = e.channel,
                 .id = wire::id_of<wire::basic::publish>,
                 .arguments = {},
                 .exchange = std::string(c.exchange),
                 .routing_key = std::string(c.routing_key),
                 .mandatory = c.mandatory,
                 .properties = {c.properties.begin(), c.properties.end()},
                 .body = std::string(reinterpret_cast<const char*>(c.body.data()), c.body.size())});
        return true;
    }
    case event_kind::failed:
        // A login or a vhost that is refused is part of many scripts; the client reads why, and goes.
        if (session_.fault().code == wire::reply_code::access_refused ||
            session_.fault().code == wire::reply_code::not_allowed)
            return true;
        // A client that breaks the protocol fails the test that runs it.
        throw std::logic_error(
            fmt::format("the client broke the protocol: {}", session_.fault_text()));
    default:
        return true;
    }
}

void peer::record(std::uint16_t channel, wire::method_id id, std::span<const std::byte> arguments)
{
    said what;
    what.channel = channel;
    what.id = id;
    what.arguments.assign(arguments.begin(), arguments.end());
    record(std::move(what));
}

void peer::record(said what)
{
    what.at = runtime::loop::current().now();
    heard_.push_back(std::move(what));
    news_.notify_all();
    if (on_said) {
        const said copy = heard_.back(); // answers may make more records
        on_said(copy);
    }
}

runtime::task<said> peer::expect(wire::method_id id)
{
    for (;;) {
        for (; seen_ < heard_.size(); ++seen_) {
            if (heard_[seen_].id == id)
                co_return heard_[seen_++];
        }
        if (is_over())
            throw std::runtime_error(
                fmt::format("expected {}, but the client is gone", wire::method_name(id)));
        co_await news_.wait();
    }
}

std::size_t peer::count(wire::method_id id) const noexcept
{
    return static_cast<std::size_t>(
        std::count_if(heard_.begin(), heard_.end(), [id](const said& s) { return s.id == id; }));
}

void peer::deliver(std::uint16_t channel, const parcel& what)
{
    check(session_.send_content(channel,
                                wire::basic::deliver{.consumer_tag = what.consumer_tag,
                                                     .delivery_tag = what.tag,
                                                     .redelivered = what.redelivered,
                                                     .exchange = "",
                                                     .routing_key = what.routing_key},
                                wire::properties{}, amqp::bytes_of(what.body)));
    flush();
}

void peer::deliver_range(std::uint16_t channel, std::string_view consumer_tag, std::uint64_t first,
                         std::uint64_t last)
{
    for (auto tag = first; tag <= last; ++tag)
        deliver(channel, {.consumer_tag = consumer_tag, .tag = tag, .body = std::to_string(tag)});
}

void peer::get_ok(std::uint16_t channel, std::uint64_t tag, std::string_view body)
{
    check(session_.send_content(channel,
                                wire::basic::get_ok{.delivery_tag = tag,
                                                    .redelivered = false,
                                                    .exchange = "",
                                                    .routing_key = "q",
                                                    .message_count = 0},
                                wire::properties{}, amqp::bytes_of(body)));
    flush();
}

void peer::give_back(std::uint16_t channel, const said& publish)
{
    check(session_.send_raw_content(channel,
                                    wire::basic::return_{.reply_code = 312,
                                                         .reply_text = "NO_ROUTE",
                                                         .exchange = publish.exchange,
                                                         .routing_key = publish.routing_key},
                                    publish.properties, amqp::bytes_of(publish.body)));
    flush();
}

void peer::close_channel(std::uint16_t channel, wire::reply_code code, std::string_view text,
                         wire::method_id offender)
{
    check(session_.close_channel(channel, code, text, offender));
    flush();
}

void peer::close(wire::reply_code code, std::string_view text)
{
    check(session_.close(code, text));
    flush();
}

void peer::block(std::string_view reason)
{
    check(session_.send_blocked(reason));
    flush();
}

void peer::unblock()
{
    check(session_.send_unblocked());
    flush();
}

void peer::raw(std::span<const std::byte> bytes)
{
    auto room = session_.output().reserve(bytes.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    session_.output().commit(bytes.size());
    flush();
}

void peer::freeze()
{
    dynamic_cast<runtime::memory_stream&>(*stream_).freeze();
}
void peer::thaw()
{
    dynamic_cast<runtime::memory_stream&>(*stream_).thaw();
}
void peer::cut_after(std::size_t bytes)
{
    dynamic_cast<runtime::memory_stream&>(*stream_).cut_after(bytes);
}
void peer::reset()
{
    dynamic_cast<runtime::memory_stream&>(*stream_).reset();
}

void peer::hang_up()
{
    stream_->close();
    over_.set();
}

void peer::listen() noexcept
{
    listening_ = true;
    listen_.notify_all();
}

runtime::task<> peer::gone()
{
    co_await over_.wait();
}

void peer::check(amqp::send_status status)
{
    if (status != amqp::send_status::sent)
        throw std::logic_error(
            fmt::format("the script cannot say that now: {}", amqp::name(status)));
}

} // namespace acquit::testing
