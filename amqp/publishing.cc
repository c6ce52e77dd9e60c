#include <acquit/amqp/channel.h>
#include <acquit/amqp/detail/channel_call.h>
#include <acquit/amqp/detail/destination.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/waiter.h>

#include <fmt/format.h>

#include <coroutine>

namespace acquit::amqp {

namespace {

using detail::destination;

/// Waits for what becomes of one publish. In the frame of `publish_confirmed`.
class confirm_wait final : public runtime::waiter, public confirm_listener {
public:
    explicit confirm_wait(confirm_tracker& tracker) noexcept : tracker_(tracker) {}
    ~confirm_wait()
    {
        if (result_ == publish_result::pending)
            tracker_.forget(tag);
    }

    std::uint64_t tag = 0;

    [[nodiscard]] std::uint16_t return_code() const noexcept { return code_; }
    [[nodiscard]] bool await_ready() const noexcept { return result_ != publish_result::pending; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        return suspend(handle);
    }
    publish_result await_resume()
    {
        if (result_ == publish_result::pending)
            throw_if_cancelled();
        return result_;
    }

private:
    void on_confirm(publish_result result, std::uint16_t return_code) noexcept override
    {
        result_ = result;
        code_ = return_code;
        if (waiting())
            runtime::loop::current().make_ready(*this);
    }
    void on_cancel() noexcept override
    {
        mark_cancelled();
        runtime::loop::current().make_ready(*this);
    }

    confirm_tracker& tracker_;
    publish_result result_ = publish_result::pending;
    std::uint16_t code_ = 0;
};

std::string destination(const outgoing& message)
{
    return destination(message.exchange, message.routing_key);
}

} // namespace

message_identity channel::write_message(const outgoing& message)
{
    require_open();
    if (message.mandatory && confirming_) {
        // By the bytes in which the broker would return it.
        scratch_.resize(wire::encoded_size(message.properties));
        if (wire::encode(scratch_, message.properties) == 0)
            check_written(send_status::bad_argument, message.exchange, message.routing_key);
        const raw_outgoing raw{.exchange = message.exchange,
                               .routing_key = message.routing_key,
                               .mandatory = true,
                               .properties = scratch_,
                               .body = message.body,
                               .body_owner = message.body_owner};
        write_raw(raw);
        return identity_of(raw);
    }
    const wire::basic::publish method{.exchange = message.exchange,
                                      .routing_key = message.routing_key,
                                      .mandatory = message.mandatory};
    check_written(owner_.session().send_content(number_, method, message.properties, message.body,
                                                message.body_owner),
                  message.exchange, message.routing_key);
    return {};
}

void channel::write_raw(const raw_outgoing& message)
{
    const wire::basic::publish method{.exchange = message.exchange,
                                      .routing_key = message.routing_key,
                                      .mandatory = message.mandatory};
    check_written(owner_.session().send_raw_content(number_, method, message.properties,
                                                    message.body, message.body_owner),
                  message.exchange, message.routing_key);
}

message_identity channel::identity_of(const raw_outgoing& message) noexcept
{
    if (!message.mandatory)
        return {};
    return identify(message.exchange, message.routing_key, message.properties, message.body);
}

void channel::check_written(send_status status, std::string_view exchange,
                            std::string_view routing_key)
{
    if (status == send_status::too_large)
        throw channel_error(
            number_, 311,
            fmt::format("message to {}: its properties do not fit one frame of {} bytes",
                        destination(exchange, routing_key),
                        owner_.session().tuned().frame_size_max));
    if (status != send_status::sent)
        throw channel_error(number_, 502,
                            fmt::format("message to {} not sent: {}",
                                        destination(exchange, routing_key), name(status)));
    owner_.output_written();
}

std::uint64_t channel::publish_raw(const raw_outgoing& message, confirm_listener& listener)
{
    require_open();
    ACQUIT_ASSERT(confirming_, "publish_raw on channel {}, which has no confirms", number_);
    write_raw(message);
    return confirms_.add(&listener, identity_of(message));
}

runtime::task<> channel::publish(outgoing message)
{
    if (owner_.output().pending() >= owner_.options().output_bound)
        co_await owner_.output_room();
    const auto identity = write_message(message);
    if (confirming_)
        confirms_.add(nullptr, identity);
}

runtime::task<> channel::confirm_select()
{
    require_open();
    // The broker counts from the method on, not from its answer: so must we, for publishes between.
    confirming_ = true;
    (void)co_await call(wire::confirm::select{}, wire::id_of<wire::confirm::select_ok>);
}

runtime::task<> channel::publish_confirmed(outgoing message)
{
    if (!confirming_)
        co_await confirm_select();
    if (owner_.output().pending() >= owner_.options().output_bound)
        co_await owner_.output_room();
    const auto identity = write_message(message);
    confirm_wait answer(confirms_);
    answer.tag = confirms_.add(&answer, identity);
    switch (co_await answer) {
    case publish_result::returned:
        throw publish_error(publish_error::reason::returned, answer.return_code(),
                            answer.return_code() == 312 ? "NO_ROUTE" : "returned",
                            destination(message));
    case publish_result::nacked:
        throw publish_error(publish_error::reason::nacked, 0, {}, destination(message));
    case publish_result::lost:
        std::rethrow_exception(failure_);
    case publish_result::confirmed:
    case publish_result::pending:
        co_return;
    }
}

runtime::task<std::uint64_t> channel::wait_for_confirms()
{
    while (confirms_.outstanding() != 0)
        co_await confirm_progress_.wait();
    if (failure_)
        std::rethrow_exception(failure_);
    co_return confirms_.take_failures();
}

} // namespace acquit::amqp
