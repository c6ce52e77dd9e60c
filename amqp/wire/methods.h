#pragma once

#include <acquit/amqp/wire/method_codec.h>
#include <acquit/amqp/wire/methods_basic.h>
#include <acquit/amqp/wire/methods_channel.h>
#include <acquit/amqp/wire/methods_connection.h>
#include <acquit/amqp/wire/methods_exchange.h>
#include <acquit/amqp/wire/methods_queue.h>
#include <acquit/amqp/wire/methods_tx_confirm.h>

/// All methods, in both directions, and the dispatch of a received one.
///
///     status s = visit_method(frame.payload, overloaded{
///         [&](const basic::deliver& d) { ... },
///         [&](const basic::cancel& c) { ... },
///         [&](const auto& other) { unexpected(id_of<std::decay_t<decltype(other)>>); }});
namespace acquit::amqp::wire {

template <class... M>
struct method_list {};

/// By class and method id.
using all_methods = method_list<
    connection::start, connection::start_ok, connection::secure, connection::secure_ok,
    connection::tune, connection::tune_ok, connection::open, connection::open_ok, connection::close,
    connection::close_ok, connection::blocked, connection::unblocked, connection::update_secret,
    connection::update_secret_ok, channel::open, channel::open_ok, channel::flow, channel::flow_ok,
    channel::close, channel::close_ok, exchange::declare, exchange::declare_ok, exchange::delete_,
    exchange::delete_ok, exchange::bind, exchange::bind_ok, exchange::unbind, exchange::unbind_ok,
    queue::declare, queue::declare_ok, queue::bind, queue::bind_ok, queue::purge, queue::purge_ok,
    queue::delete_, queue::delete_ok, queue::unbind, queue::unbind_ok, basic::qos, basic::qos_ok,
    basic::consume, basic::consume_ok, basic::cancel, basic::cancel_ok, basic::publish,
    basic::return_, basic::deliver, basic::get, basic::get_ok, basic::get_empty, basic::ack,
    basic::reject, basic::recover_async, basic::recover, basic::recover_ok, basic::nack, tx::select,
    tx::select_ok, tx::commit, tx::commit_ok, tx::rollback, tx::rollback_ok, confirm::select,
    confirm::select_ok>;

/// "basic.deliver"; "unknown" for ids that are not in all_methods. Static storage.
const char* method_name(method_id id) noexcept;

/// The ids a method frame begins with. `payload` must have four bytes, which parse_frame makes sure
/// of; zeros otherwise.
inline method_id method_of(std::span<const std::byte> payload) noexcept
{
    reader r(payload);
    auto class_number = r.u16();
    auto method_number = r.u16();
    return r.ok() ? method_id{class_number, method_number} : method_id{};
}

namespace detail {

constexpr std::uint32_t key(method_id id) noexcept
{
    return std::uint32_t{id.class_id} << 16 | id.method_id;
}

template <class M, class F>
status decode_and_call(std::span<const std::byte> arguments, F& f) noexcept
{
    M value;
    auto result = decode(arguments, value);
    if (result)
        f(static_cast<const M&>(value));
    return result;
}

} // namespace detail

/// Decodes the payload of a method frame and calls `f(const M&)`, which must take every method. Not
/// called when the payload is malformed (`truncated`) or the ids are unknown (`unknown_method`);
/// both are of connection scope. `f` may not throw.
template <class F>
status visit_method(std::span<const std::byte> payload, F&& f) noexcept
{
    reader r(payload);
    auto class_number = r.u16();
    auto method_number = r.u16();
    if (!r.ok())
        return failure(fault::truncated);
    auto arguments = r.rest();
    switch (detail::key({class_number, method_number})) {
    case detail::key(id_of<connection::start>):
        return detail::decode_and_call<connection::start>(arguments, f);
    case detail::key(id_of<connection::start_ok>):
        return detail::decode_and_call<connection::start_ok>(arguments, f);
    case detail::key(id_of<connection::secure>):
        return detail::decode_and_call<connection::secure>(arguments, f);
    case detail::key(id_of<connection::secure_ok>):
        return detail::decode_and_call<connection::secure_ok>(arguments, f);
    case detail::key(id_of<connection::tune>):
        return detail::decode_and_call<connection::tune>(arguments, f);
    case detail::key(id_of<connection::tune_ok>):
        return detail::decode_and_call<connection::tune_ok>(arguments, f);
    case detail::key(id_of<connection::open>):
        return detail::decode_and_call<connection::open>(arguments, f);
    case detail::key(id_of<connection::open_ok>):
        return detail::decode_and_call<connection::open_ok>(arguments, f);
    case detail::key(id_of<connection::close>):
        return detail::decode_and_call<connection::close>(arguments, f);
    case detail::key(id_of<connection::close_ok>):
        return detail::decode_and_call<connection::close_ok>(arguments, f);
    case detail::key(id_of<connection::blocked>):
        return detail::decode_and_call<connection::blocked>(arguments, f);
    case detail::key(id_of<connection::unblocked>):
        return detail::decode_and_call<connection::unblocked>(arguments, f);
    case detail::key(id_of<connection::update_secret>):
        return detail::decode_and_call<connection::update_secret>(arguments, f);
    case detail::key(id_of<connection::update_secret_ok>):
        return detail::decode_and_call<connection::update_secret_ok>(arguments, f);
    case detail::key(id_of<channel::open>):
        return detail::decode_and_call<channel::open>(arguments, f);
    case detail::key(id_of<channel::open_ok>):
        return detail::decode_and_call<channel::open_ok>(arguments, f);
    case detail::key(id_of<channel::flow>):
        return detail::decode_and_call<channel::flow>(arguments, f);
    case detail::key(id_of<channel::flow_ok>):
        return detail::decode_and_call<channel::flow_ok>(arguments, f);
    case detail::key(id_of<channel::close>):
        return detail::decode_and_call<channel::close>(arguments, f);
    case detail::key(id_of<channel::close_ok>):
        return detail::decode_and_call<channel::close_ok>(arguments, f);
    case detail::key(id_of<exchange::declare>):
        return detail::decode_and_call<exchange::declare>(arguments, f);
    case detail::key(id_of<exchange::declare_ok>):
        return detail::decode_and_call<exchange::declare_ok>(arguments, f);
    case detail::key(id_of<exchange::delete_>):
        return detail::decode_and_call<exchange::delete_>(arguments, f);
    case detail::key(id_of<exchange::delete_ok>):
        return detail::decode_and_call<exchange::delete_ok>(arguments, f);
    case detail::key(id_of<exchange::bind>):
        return detail::decode_and_call<exchange::bind>(arguments, f);
    case detail::key(id_of<exchange::bind_ok>):
        return detail::decode_and_call<exchange::bind_ok>(arguments, f);
    case detail::key(id_of<exchange::unbind>):
        return detail::decode_and_call<exchange::unbind>(arguments, f);
    case detail::key(id_of<exchange::unbind_ok>):
        return detail::decode_and_call<exchange::unbind_ok>(arguments, f);
    case detail::key(id_of<queue::declare>):
        return detail::decode_and_call<queue::declare>(arguments, f);
    case detail::key(id_of<queue::declare_ok>):
        return detail::decode_and_call<queue::declare_ok>(arguments, f);
    case detail::key(id_of<queue::bind>):
        return detail::decode_and_call<queue::bind>(arguments, f);
    case detail::key(id_of<queue::bind_ok>):
        return detail::decode_and_call<queue::bind_ok>(arguments, f);
    case detail::key(id_of<queue::purge>):
        return detail::decode_and_call<queue::purge>(arguments, f);
    case detail::key(id_of<queue::purge_ok>):
        return detail::decode_and_call<queue::purge_ok>(arguments, f);
    case detail::key(id_of<queue::delete_>):
        return detail::decode_and_call<queue::delete_>(arguments, f);
    case detail::key(id_of<queue::delete_ok>):
        return detail::decode_and_call<queue::delete_ok>(arguments, f);
    case detail::key(id_of<queue::unbind>):
        return detail::decode_and_call<queue::unbind>(arguments, f);
    case detail::key(id_of<queue::unbind_ok>):
        return detail::decode_and_call<queue::unbind_ok>(arguments, f);
    case detail::key(id_of<basic::qos>):
        return detail::decode_and_call<basic::qos>(arguments, f);
    case detail::key(id_of<basic::qos_ok>):
        return detail::decode_and_call<basic::qos_ok>(arguments, f);
    case detail::key(id_of<basic::consume>):
        return detail::decode_and_call<basic::consume>(arguments, f);
    case detail::key(id_of<basic::consume_ok>):
        return detail::decode_and_call<basic::consume_ok>(arguments, f);
    case detail::key(id_of<basic::cancel>):
        return detail::decode_and_call<basic::cancel>(arguments, f);
    case detail::key(id_of<basic::cancel_ok>):
        return detail::decode_and_call<basic::cancel_ok>(arguments, f);
    case detail::key(id_of<basic::publish>):
        return detail::decode_and_call<basic::publish>(arguments, f);
    case detail::key(id_of<basic::return_>):
        return detail::decode_and_call<basic::return_>(arguments, f);
    case detail::key(id_of<basic::deliver>):
        return detail::decode_and_call<basic::deliver>(arguments, f);
    case detail::key(id_of<basic::get>):
        return detail::decode_and_call<basic::get>(arguments, f);
    case detail::key(id_of<basic::get_ok>):
        return detail::decode_and_call<basic::get_ok>(arguments, f);
    case detail::key(id_of<basic::get_empty>):
        return detail::decode_and_call<basic::get_empty>(arguments, f);
    case detail::key(id_of<basic::ack>):
        return detail::decode_and_call<basic::ack>(arguments, f);
    case detail::key(id_of<basic::reject>):
        return detail::decode_and_call<basic::reject>(arguments, f);
    case detail::key(id_of<basic::recover_async>):
        return detail::decode_and_call<basic::recover_async>(arguments, f);
    case detail::key(id_of<basic::recover>):
        return detail::decode_and_call<basic::recover>(arguments, f);
    case detail::key(id_of<basic::recover_ok>):
        return detail::decode_and_call<basic::recover_ok>(arguments, f);
    case detail::key(id_of<basic::nack>):
        return detail::decode_and_call<basic::nack>(arguments, f);
    case detail::key(id_of<tx::select>):
        return detail::decode_and_call<tx::select>(arguments, f);
    case detail::key(id_of<tx::select_ok>):
        return detail::decode_and_call<tx::select_ok>(arguments, f);
    case detail::key(id_of<tx::commit>):
        return detail::decode_and_call<tx::commit>(arguments, f);
    case detail::key(id_of<tx::commit_ok>):
        return detail::decode_and_call<tx::commit_ok>(arguments, f);
    case detail::key(id_of<tx::rollback>):
        return detail::decode_and_call<tx::rollback>(arguments, f);
    case detail::key(id_of<tx::rollback_ok>):
        return detail::decode_and_call<tx::rollback_ok>(arguments, f);
    case detail::key(id_of<confirm::select>):
        return detail::decode_and_call<confirm::select>(arguments, f);
    case detail::key(id_of<confirm::select_ok>):
        return detail::decode_and_call<confirm::select_ok>(arguments, f);
    default:
        return failure(fault::unknown_method);
    }
}

} // namespace acquit::amqp::wire
