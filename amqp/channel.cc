#include <acquit/amqp/channel.h>
#include <acquit/amqp/detail/channel_call.h>
#include <acquit/amqp/detail/reply_slot.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/timeout.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace acquit::amqp {

namespace {

template <class Reply>
Reply decoded(const std::vector<std::byte>& payload)
{
    Reply reply;
    // The session passes only arguments that decode.
    (void)wire::decode(std::span<const std::byte>(payload), reply);
    return reply;
}

std::exception_ptr closed_by_us(std::uint16_t number)
{
    return std::make_exception_ptr(channel_error(number, 200, "closed by this side"));
}

} // namespace

channel::channel(connection& owner) noexcept : owner_(owner) {}

channel::~channel()
{
    ACQUIT_ASSERT(std::all_of(pending_.begin(), pending_.end(),
                              [](const pending& p) { return p.slot == nullptr; }),
                  "channel {} destroyed while a verb is pending on it", number_);
    ACQUIT_ASSERT(!confirms_.has_listeners(),
                  "channel {} destroyed while a publish waits for its confirm", number_);
    if (phase_ == phase::open || phase_ == phase::opening) {
        // Nobody waits for the answer; the session skips what still comes for the number.
        if (owner_.session().close_channel(number_) == send_status::sent)
            owner_.output_written();
    }
    if (number_ != 0 && phase_ != phase::over)
        owner_.detach(number_);
}

runtime::task<> channel::open()
{
    ACQUIT_ASSERT(phase_ == phase::idle, "channel {} opened twice", number_);
    if (!owner_.is_open())
        throw connection_error("open a channel: the connection is not open");
    const std::uint16_t number = owner_.session().free_channel();
    if (number == 0) {
        throw connection_error(fmt::format("{}: no free channel: {} are open and channel_max is {}",
                                           owner_.peer(), owner_.session().channels_in_use(),
                                           owner_.session().tuned().channel_max));
    }
    const auto status = owner_.session().open_channel(number);
    if (status != send_status::sent)
        throw connection_error(fmt::format("open a channel: {}", name(status)));
    number_ = number;
    phase_ = phase::opening;
    owner_.attach(*this, number);
    owner_.output_written();
    (void)co_await answer_of(wire::id_of<wire::channel::open>, "channel.open");
}

runtime::task<> channel::close()
{
    if (phase_ != phase::open)
        co_return;
    const auto status = owner_.session().close_channel(number_);
    if (status != send_status::sent)
        co_return; // the connection is going: so is the channel
    phase_ = phase::closing;
    owner_.output_written();
    fail_pending(closed_by_us(number_));
    (void)co_await answer_of(wire::id_of<wire::channel::close>, "channel.close");
}

void channel::require_open() const
{
    if (phase_ == phase::open)
        return;
    if (failure_)
        std::rethrow_exception(failure_);
    throw channel_error(number_, 504, phase_ == phase::idle ? "not opened yet" : "closed");
}

runtime::task<std::vector<std::byte>> channel::answer_of(wire::method_id expected, const char* verb,
                                                         std::optional<received>* message)
{
    pending_.push_back({expected, nullptr, message});
    try {
        co_return co_await runtime::with_timeout(owner_.options().operation_timeout, await_slot());
    } catch (const runtime::timed_out&) {
        throw runtime::timed_out(fmt::format("{} on channel {}: no answer from {} within {} ms",
                                             verb, number_, owner_.peer(),
                                             std::chrono::duration_cast<std::chrono::milliseconds>(
                                                 owner_.options().operation_timeout)
                                                 .count()));
    }
}

runtime::task<std::vector<std::byte>> channel::await_slot()
{
    detail::reply_slot slot(pending_.back().slot); // nothing ran since the push
    co_return co_await slot;
}

template <class Method>
void channel::tell(const Method& method)
{
    if (phase_ != phase::open)
        return;
    if (owner_.session().send(number_, method) == send_status::sent)
        owner_.output_written();
}

runtime::task<> channel::declare_exchange(wire::exchange::declare exchange)
{
    (void)co_await call(exchange, wire::id_of<wire::exchange::declare_ok>);
}

runtime::task<> channel::delete_exchange(wire::exchange::delete_ exchange)
{
    (void)co_await call(exchange, wire::id_of<wire::exchange::delete_ok>);
}

runtime::task<> channel::bind_exchange(wire::exchange::bind binding)
{
    (void)co_await call(binding, wire::id_of<wire::exchange::bind_ok>);
}

runtime::task<> channel::unbind_exchange(wire::exchange::unbind binding)
{
    (void)co_await call(binding, wire::id_of<wire::exchange::unbind_ok>);
}

runtime::task<queue_declared> channel::declare_queue(wire::queue::declare queue)
{
    const auto payload = co_await call(queue, wire::id_of<wire::queue::declare_ok>);
    const auto reply = decoded<wire::queue::declare_ok>(payload);
    co_return queue_declared{.name = std::string(reply.queue),
                             .message_count = reply.message_count,
                             .consumer_count = reply.consumer_count};
}

runtime::task<> channel::bind_queue(wire::queue::bind binding)
{
    (void)co_await call(binding, wire::id_of<wire::queue::bind_ok>);
}

runtime::task<> channel::unbind_queue(wire::queue::unbind binding)
{
    (void)co_await call(binding, wire::id_of<wire::queue::unbind_ok>);
}

runtime::task<std::uint32_t> channel::delete_queue(wire::queue::delete_ queue)
{
    const auto payload = co_await call(queue, wire::id_of<wire::queue::delete_ok>);
    co_return decoded<wire::queue::delete_ok>(payload).message_count;
}

runtime::task<std::uint32_t> channel::purge_queue(std::string_view queue)
{
    const auto payload =
        co_await call(wire::queue::purge{.queue = queue}, wire::id_of<wire::queue::purge_ok>);
    co_return decoded<wire::queue::purge_ok>(payload).message_count;
}

runtime::task<> channel::qos(std::uint16_t prefetch)
{
    (void)co_await call(wire::basic::qos{.prefetch_count = prefetch},
                        wire::id_of<wire::basic::qos_ok>);
    prefetch_ = prefetch;
}

runtime::task<> channel::barrier()
{
    return qos(prefetch_);
}

runtime::task<std::string> channel::consume(wire::basic::consume what, consumer_sink& sink)
{
    require_open();
    // The tag is ours to choose so that the consumer is known before its first delivery, which
    // may stand right behind consume-ok.
    std::string tag(what.consumer_tag);
    if (tag.empty())
        tag = fmt::format("acquit.{}", ++next_consumer_);
    if (find_consumer(tag) != nullptr) {
        // RabbitMQ closes the whole connection for this (530).
        throw channel_error(number_, 530, fmt::format("consumer tag \"{}\" is in use", tag));
    }
    what.consumer_tag = tag;
    consumers_.push_back({tag, &sink});
    last_consumer_ = nullptr;
    try {
        (void)co_await call(what, wire::id_of<wire::basic::consume_ok>);
    } catch (...) {
        forget_consumer(tag);
        throw;
    }
    co_return tag;
}

runtime::task<> channel::cancel(std::string tag)
{
    if (find_consumer(tag) == nullptr)
        co_return; // the broker was first
    (void)co_await call(wire::basic::cancel{.consumer_tag = tag},
                        wire::id_of<wire::basic::cancel_ok>);
    forget_consumer(tag);
}

runtime::task<std::optional<received>> channel::get(std::string_view queue, bool no_ack)
{
    std::optional<received> message;
    (void)co_await call(wire::basic::get{.queue = queue, .no_ack = no_ack},
                        wire::id_of<wire::basic::get_ok>, &message);
    co_return message;
}

void channel::ack(std::uint64_t delivery_tag, bool multiple)
{
    tell(wire::basic::ack{.delivery_tag = delivery_tag, .multiple = multiple});
}

void channel::reject(std::uint64_t delivery_tag, bool requeue)
{
    tell(wire::basic::reject{.delivery_tag = delivery_tag, .requeue = requeue});
}

void channel::nack(std::uint64_t delivery_tag, bool multiple, bool requeue)
{
    tell(wire::basic::nack{.delivery_tag = delivery_tag, .multiple = multiple, .requeue = requeue});
}

runtime::task<> channel::recover()
{
    (void)co_await call(wire::basic::recover{.requeue = true},
                        wire::id_of<wire::basic::recover_ok>);
}

runtime::task<> channel::tx_select()
{
    (void)co_await call(wire::tx::select{}, wire::id_of<wire::tx::select_ok>);
}

runtime::task<> channel::tx_commit()
{
    (void)co_await call(wire::tx::commit{}, wire::id_of<wire::tx::commit_ok>);
}

runtime::task<> channel::tx_rollback()
{
    (void)co_await call(wire::tx::rollback{}, wire::id_of<wire::tx::rollback_ok>);
}

channel::consumer* channel::search_consumer(std::string_view tag) noexcept
{
    for (consumer& each : consumers_) {
        if (each.tag == tag)
            return last_consumer_ = &each;
    }
    return nullptr;
}

void channel::forget_consumer(std::string_view tag) noexcept
{
    std::erase_if(consumers_, [tag](const consumer& c) { return c.tag == tag; });
    last_consumer_ = nullptr;
}

void channel::on_content(const content_event& content, const runtime::segment_ref& segment)
{
    switch (content.kind) {
    case content_kind::deliver:
        return on_delivery(content, segment);
    case content_kind::get_ok:
        // Each message to the get that asked for it: several may be under way.
        if (!pending_.empty() && pending_.front().expected == wire::id_of<wire::basic::get_ok> &&
            pending_.front().slot != nullptr)
            *pending_.front().message = copy_of(content);
        answer(wire::id_of<wire::basic::get_ok>, {});
        return;
    case content_kind::return_:
        confirms_.returned(
            identify(content.exchange, content.routing_key, content.properties, content.body),
            content.return_code);
        if (on_return)
            on_return(copy_of(content));
        return;
    case content_kind::publish:
        return; // a server's event
    }
}

void channel::on_method(const method_event& method)
{
    if (method.id == wire::id_of<wire::basic::ack>) {
        wire::basic::ack m;
        (void)wire::decode(method.payload, m);
        confirms_.confirm(m.delivery_tag, m.multiple, true);
        confirm_progress_.notify_all();
    } else if (method.id == wire::id_of<wire::basic::nack>) {
        wire::basic::nack m;
        (void)wire::decode(method.payload, m);
        confirms_.confirm(m.delivery_tag, m.multiple, false);
        confirm_progress_.notify_all();
    } else if (method.id == wire::id_of<wire::basic::cancel>) {
        wire::basic::cancel m;
        (void)wire::decode(method.payload, m);
        on_server_cancel(m.consumer_tag, m.no_wait);
    } else if (method.id == wire::id_of<wire::channel::flow>) {
        // The session has answered. RabbitMQ never sends it.
    } else {
        answer(method.id, method.payload);
    }
}

void channel::on_server_cancel(std::string_view tag, bool no_wait)
{
    auto* c = find_consumer(tag);
    if (c == nullptr)
        return;
    consumer_sink* sink = c->sink;
    const std::string kept(tag);
    forget_consumer(kept);
    // RabbitMQ: before 4.3 a client's cancel-ok is unexpected and closes the connection; from 4.3
    // a timed-out consumer stays registered until its client cancels it too.
    if (!no_wait && owner_.server_is_at_least(4, 3))
        tell(wire::basic::cancel{.consumer_tag = kept, .no_wait = true});
    sink->on_server_cancel();
}

void channel::answer(wire::method_id id, std::span<const std::byte> payload)
{
    const bool got_nothing = id == wire::id_of<wire::basic::get_empty>;
    if (pending_.empty() ||
        (pending_.front().expected != id &&
         !(got_nothing && pending_.front().expected == wire::id_of<wire::basic::get_ok>))) {
        owner_.protocol_violation(fmt::format("{} on channel {}, which nobody asked for",
                                              wire::method_name(id), number_));
        return;
    }
    auto* slot = pending_.front().slot;
    pending_.pop_front();
    if (slot != nullptr)
        slot->complete({payload.begin(), payload.end()});
}

void channel::on_opened()
{
    phase_ = phase::open;
    answer(wire::id_of<wire::channel::open>, {});
}

void channel::on_close_ok()
{
    owner_.detach(number_);
    phase_ = phase::over;
    answer(wire::id_of<wire::channel::close>, {});
    lose(closed_by_us(number_));
}

void channel::fail_pending(const std::exception_ptr& why) noexcept
{
    for (auto& waiting : std::exchange(pending_, {})) {
        if (waiting.slot != nullptr)
            waiting.slot->fail(why);
    }
}

void channel::lose(std::exception_ptr why) noexcept
{
    phase_ = phase::over;
    failure_ = why;
    fail_pending(why);
    confirms_.fail_all();
    confirm_progress_.notify_all();
    const auto consumers = std::exchange(consumers_, {});
    last_consumer_ = nullptr;
    const auto told = std::exchange(on_lost, nullptr);
    for (const auto& c : consumers)
        c.sink->on_channel_lost(why);
    if (told)
        told(why); // this channel may be gone from here on
}

} // namespace acquit::amqp
