#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/runtime/error.h>

#include <cstdint>
#include <exception>
#include <string>

namespace acquit::amqp {

/// The connection is gone, could not be made, or was refused. With a reply code the broker said why
/// (`connection.close`); without one (`code() == 0`) the transport ended.
class connection_error : public runtime::error {
public:
    explicit connection_error(const std::string& what);
    connection_error(std::uint16_t code, std::string text, const std::string& where);

    /// AMQP 0-9-1 reply code, e.g. 320 connection-forced, 403 access-refused, 530 not-allowed; 0 if none.
    [[nodiscard]] std::uint16_t code() const noexcept { return code_; }
    /// The broker's own words; empty if it said nothing.
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    std::uint16_t code_ = 0;
    std::string text_;
};

/// The broker closed the channel: every operation that was pending on it ends with this error, and so
/// does every later one. Or this side refused an operation on it (`by_broker()` is false), which ends
/// that operation alone. The connection and its other channels live on either way.
class channel_error : public runtime::error {
public:
    channel_error(std::uint16_t channel, std::uint16_t code, std::string text,
                  std::uint16_t class_id, std::uint16_t method_id);

    /// Refused by this side, before anything was sent; `code` is what the broker would have said.
    channel_error(std::uint16_t channel, std::uint16_t code, std::string text);

    [[nodiscard]] bool by_broker() const noexcept { return by_broker_; }
    [[nodiscard]] std::uint16_t code() const noexcept { return code_; }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    /// The method that the broker objects to; 0.0 where it names none (a consumer timeout, say).
    [[nodiscard]] std::uint16_t class_id() const noexcept { return class_id_; }
    [[nodiscard]] std::uint16_t method_id() const noexcept { return method_id_; }

private:
    std::uint16_t code_;
    std::string text_;
    std::uint16_t class_id_ = 0;
    std::uint16_t method_id_ = 0;
    bool by_broker_ = true;
};

/// A message that was handed to the connection and that the broker did not take, as far as is known.
class publish_error : public runtime::error {
public:
    enum class reason : std::uint8_t {
        returned,  ///< mandatory, and no queue would have it (`basic.return`)
        nacked,    ///< the broker could not take responsibility (`basic.nack`; a full queue, say)
        timed_out, ///< no answer in time: the broker may have it or not
        lost,      ///< the channel went before the answer: likewise
    };

    /// `where`: what the message was for. `cause`: what ended the channel.
    publish_error(reason why, std::uint16_t code, std::string text, const std::string& where,
                  std::exception_ptr cause = nullptr);
    /// Of the publish with this number, the first of `failed`.
    publish_error(reason why, std::uint16_t code, std::string text, std::uint64_t number,
                  std::uint64_t failed, std::exception_ptr cause);

    [[nodiscard]] reason why() const noexcept { return why_; }
    /// 312 no-route for a returned message; what closed the channel for a lost one; else 0.
    [[nodiscard]] std::uint16_t code() const noexcept { return code_; }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    /// Of a lost one: what ended the channel, a `channel_error` or `connection_error`; else null.
    [[nodiscard]] const std::exception_ptr& cause() const noexcept { return cause_; }
    /// How many publishes this tells of; more than 1 only from `publisher::flush` and `close`.
    [[nodiscard]] std::uint64_t failed() const noexcept { return failed_; }

private:
    reason why_;
    std::uint16_t code_;
    std::string text_;
    std::exception_ptr cause_;
    std::uint64_t failed_ = 1;
};

} // namespace acquit::amqp
