#pragma once

#include <acquit/runtime/task.h>
#include <acquit/settle/batch.h>
#include <acquit/settle/message.h>
#include <acquit/settle/outcome.h>

#include <concepts>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

/// What a user may hand to `service::consume`:
///
///     outcome on_audit(delivery& d);               // a plain function: no coroutine frame at all
///     task<outcome> on_order(delivery& d);         // a coroutine
///     void on_frame(delivery& d);                  // deferring: calls d.defer(), see deferred.h
///     task<> on_frame(delivery& d);
///     outcome on_events(std::span<delivery> all);  // a batch, see batch.h
///     task<outcome> on_events(std::span<delivery> all);
///     std::vector<outcome> on_events(std::span<delivery> all);        // one for each
///     task<std::vector<outcome>> on_events(std::span<delivery> all);
///     void on_tick(message& m);                    // no_ack: there is nothing to settle
///     task<> on_tick(message& m);
///
/// A handler that takes a `message` (or anything, as `auto&` does) and returns nothing is one of a
/// no_ack consumer; a deferring one says `delivery`.
namespace acquit::settle {

namespace detail {

template <class H, class Argument, class Result>
concept handles =
    std::invocable<H&, Argument> && std::same_as<std::invoke_result_t<H&, Argument>, Result>;

} // namespace detail

template <class H>
concept plain_handler = detail::handles<H, delivery&, outcome>;
template <class H>
concept coroutine_handler = detail::handles<H, delivery&, runtime::task<outcome>>;
template <class H>
concept plain_no_ack_handler = detail::handles<H, message&, void>;
template <class H>
concept coroutine_no_ack_handler = detail::handles<H, message&, runtime::task<>>;
template <class H>
concept plain_deferring_handler =
    detail::handles<H, delivery&, void> && !std::invocable<H&, message&>;
template <class H>
concept coroutine_deferring_handler =
    detail::handles<H, delivery&, runtime::task<>> && !std::invocable<H&, message&>;
template <class H>
concept plain_batch_handler = detail::handles<H, std::span<delivery>, outcome> ||
                              detail::handles<H, std::span<delivery>, std::vector<outcome>>;
template <class H>
concept coroutine_batch_handler =
    detail::handles<H, std::span<delivery>, runtime::task<outcome>> ||
    detail::handles<H, std::span<delivery>, runtime::task<std::vector<outcome>>>;

template <class H>
concept no_ack_handler = plain_no_ack_handler<H> || coroutine_no_ack_handler<H>;
template <class H>
concept batch_handler = plain_batch_handler<H> || coroutine_batch_handler<H>;

template <class H>
concept handler = plain_handler<H> || coroutine_handler<H> || no_ack_handler<H> ||
                  plain_deferring_handler<H> || coroutine_deferring_handler<H> || batch_handler<H>;

/// A handler of any of these kinds behind one interface.
class any_handler {
public:
    virtual ~any_handler() = default;
    [[nodiscard]] virtual bool plain() const noexcept = 0;
    [[nodiscard]] virtual bool no_ack() const noexcept = 0;
    [[nodiscard]] virtual bool batches() const noexcept = 0;
    /// It returns nothing, and decides by tokens. What `call` and `start` give is no decision then.
    [[nodiscard]] virtual bool defers() const noexcept = 0;
    /// Of a plain handler.
    virtual outcome call(delivery& d) = 0;
    /// Of a coroutine.
    virtual runtime::task<outcome> start(delivery& d) = 0;
    /// Of a batch handler, plain or not.
    virtual runtime::task<batch_outcomes> start(std::span<delivery> all) = 0;
};

namespace detail {

/// Throws where a deferring handler has returned without a token.
void require_deferred(const delivery& d);

template <handler H>
class erased_handler final : public any_handler {
public:
    explicit erased_handler(H h) : handler_(std::move(h)) {}

    [[nodiscard]] bool plain() const noexcept override
    {
        return plain_handler<H> || plain_no_ack_handler<H> || plain_deferring_handler<H>;
    }
    [[nodiscard]] bool no_ack() const noexcept override { return no_ack_handler<H>; }
    [[nodiscard]] bool batches() const noexcept override { return batch_handler<H>; }
    [[nodiscard]] bool defers() const noexcept override
    {
        return plain_deferring_handler<H> || coroutine_deferring_handler<H>;
    }

    outcome call([[maybe_unused]] delivery& d) override
    {
        if constexpr (plain_handler<H>) {
            return handler_(d);
        } else if constexpr (plain_no_ack_handler<H>) {
            handler_(static_cast<message&>(d));
            return ack;
        } else if constexpr (plain_deferring_handler<H>) {
            handler_(d);
            require_deferred(d);
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
        } else if constexpr (coroutine_deferring_handler<H>) {
            return then_deferred(handler_(d), d);
        } else {
            return called(d);
        }
    }
    runtime::task<batch_outcomes> start([[maybe_unused]] std::span<delivery> all) override
    {
        if constexpr (coroutine_batch_handler<H>) {
            return then_outcomes(handler_(all));
        } else {
            return called(all);
        }
    }

private:
    static runtime::task<outcome> then_ack(runtime::task<> handling)
    {
        co_await std::move(handling);
        co_return ack;
    }
    static runtime::task<outcome> then_deferred(runtime::task<> handling, delivery& d)
    {
        co_await std::move(handling);
        require_deferred(d);
        co_return ack;
    }
    template <class Result>
    static runtime::task<batch_outcomes> then_outcomes(runtime::task<Result> handling)
    {
        Result decided = co_await std::move(handling);
        co_return batch_outcomes(std::move(decided));
    }
    runtime::task<outcome> called(delivery& d) { co_return call(d); }
    runtime::task<batch_outcomes> called([[maybe_unused]] std::span<delivery> all)
    {
        if constexpr (plain_batch_handler<H>)
            co_return batch_outcomes(handler_(all));
        else
            co_return batch_outcomes(retry());
    }

    H handler_;
};

} // namespace detail

template <handler H>
std::unique_ptr<any_handler> erase_handler(H h)
{
    return std::make_unique<detail::erased_handler<H>>(std::move(h));
}

} // namespace acquit::settle
