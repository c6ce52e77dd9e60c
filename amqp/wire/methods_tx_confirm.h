#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <string_view>

/// The methods of the classes tx (AMQP 0-9-1 1.9) and confirm (RabbitMQ: publisher confirms). A
/// channel is in one mode or the other, or in none.
namespace acquit::amqp::wire::tx {

/// Client to server.
struct select {
    static constexpr std::uint16_t class_id = class_tx;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "tx.select";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Server to client.
struct select_ok {
    static constexpr std::uint16_t class_id = class_tx;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "tx.select-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server.
struct commit {
    static constexpr std::uint16_t class_id = class_tx;
    static constexpr std::uint16_t method_id = 20;
    static constexpr const char* name = "tx.commit";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Server to client.
struct commit_ok {
    static constexpr std::uint16_t class_id = class_tx;
    static constexpr std::uint16_t method_id = 21;
    static constexpr const char* name = "tx.commit-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server.
struct rollback {
    static constexpr std::uint16_t class_id = class_tx;
    static constexpr std::uint16_t method_id = 30;
    static constexpr const char* name = "tx.rollback";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Server to client.
struct rollback_ok {
    static constexpr std::uint16_t class_id = class_tx;
    static constexpr std::uint16_t method_id = 31;
    static constexpr const char* name = "tx.rollback-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

} // namespace acquit::amqp::wire::tx

namespace acquit::amqp::wire::confirm {

/// Client to server: from now on each publish on the channel is answered by ack or nack, counted
/// from 1.
struct select {
    static constexpr std::uint16_t class_id = class_confirm;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "confirm.select";
    static constexpr bool content = false;

    bool no_wait = false; ///< no answer is sent

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.bit(self.no_wait);
    }
};

/// Server to client.
struct select_ok {
    static constexpr std::uint16_t class_id = class_confirm;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "confirm.select-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

} // namespace acquit::amqp::wire::confirm
