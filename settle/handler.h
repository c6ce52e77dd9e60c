#pragma once

#include <acquit/runtime/task.h>
#include <acquit/settle/message.h>
#include <acquit/settle/outcome.h>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

/// What a user may hand to `service::consume`:
///
///     outcome on_audit(delivery& d);               // a plain function: no coroutine frame at all
///     task<outcome> on_order(delivery& d);         // a coroutine
///     void on_tick(message& m);                    // no_ack: there is nothing to settle
///     task<> on_tick(message& m);
namespace acquit::settle {

template <class H>
concept plain_handler =
    std::invocable<H&, delivery&> && std::same_as<std::invoke_result_t<H&, delivery&>, outcome>;
template <class H>
concept coroutine_handler =
    std::invocable<H&, delivery&> &&
    std::same_as<std::invoke_result_t<H&, delivery&>, runtime::task<outcome>>;
template <class H>
concept plain_no_ack_handler =
    std::invocable<H&, message&> && std::same_as<std::invoke_result_t<H&, message&>, void>;
template <class H>
concept coroutine_no_ack_handler =
    std::invocable<H&, message&> &&
    std::same_as<std::invoke_result_t<H&, message&>, runtime::task<>>;

template <class H>
concept handler = plain_handler<H> || coroutine_handler<H> || plain_no_ack_handler<H> ||
                  coroutine_no_ack_handler<H>;

/// A handler of any of these kinds behind one interface.
class any_handler {
public:
    virtual ~any_handler() = default;
    [[nodiscard]] virtual bool plain() const noexcept = 0;
    [[nodiscard]] virtual bool no_ack() const noexcept = 0;
    /// Of a plain handler.
    virtual outcome call(delivery& d) = 0;
    /// Of a coroutine.
    virtual runtime::task<outcome> start(delivery& d) = 0;
};

namespace detail {

template <handler H>
class erased_handler final : public any_handler {
public:
    explicit erased_handler(H h) : handler_(std::move(h)) {}

    [[nodiscard]] bool plain() const noexcept override
    {
        return plain_handler<H> || plain_no_ack_handler<H>;
    }
    [[nodiscard]] bool no_ack() const noexcept override
    {
        return plain_no_ack_handler<H> || coroutine_no_ack_handler<H>;
    }
    outcome call([[maybe_unused]] delivery& d) override
    {
        if constexpr (plain_handler<H>) {
            return handler_(d);
        } else if constexpr (plain_no_ack_handler<H>) {
            handler_(static_cast<message&>(d));
            return ack;
        } else {
            return retry();
        }
    }
    runtime::task<outcome> start(delivery& d) override
    {
        if constexpr (coroutine_handler<H>) {
            return handler_(d);
        } else if constexpr (coroutine_no_ack_handler<H>) {
            return then_ack(handler_(static_cast<message&>(d)));
        } else {
            return called(d);
        }
    }

private:
    static runtime::task<outcome> then_ack(runtime::task<> handling)
    {
        co_await std::move(handling);
        co_return ack;
    }
    runtime::task<outcome> called(delivery& d) { co_return call(d); }

    H handler_;
};

} // namespace detail

template <handler H>
std::unique_ptr<any_handler> erase_handler(H h)
{
    return std::make_unique<detail::erased_handler<H>>(std::move(h));
}

} // namespace acquit::settle
