#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <string_view>

/// The methods of class exchange (AMQP 0-9-1 1.6).
namespace acquit::amqp::wire::exchange {

/// Client to server: make it, or check that it is as described (passive: that it exists).
struct declare {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "exchange.declare";
    static constexpr bool content = false;

    std::string_view exchange = {};
    std::string_view type = "direct"; ///< direct, fanout, topic, headers, or a plugin's
    bool passive = false;
    bool durable = false;
    bool auto_delete = false; ///< RabbitMQ: reserved in the specification
    bool internal = false;    ///< RabbitMQ: reserved in the specification
    bool no_wait = false;     ///< no answer is sent
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.exchange);
        f.shortstr(self.type);
        f.bit(self.passive);
        f.bit(self.durable);
        f.bit(self.auto_delete);
        f.bit(self.internal);
        f.bit(self.no_wait);
        f.table(self.arguments);
    }
};

/// Server to client.
struct declare_ok {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "exchange.declare-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server.
struct delete_ {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 20;
    static constexpr const char* name = "exchange.delete";
    static constexpr bool content = false;

    std::string_view exchange = {};
    bool if_unused = false;
    bool no_wait = false; ///< no answer is sent

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.exchange);
        f.bit(self.if_unused);
        f.bit(self.no_wait);
    }
};

/// Server to client.
struct delete_ok {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 21;
    static constexpr const char* name = "exchange.delete-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server, RabbitMQ: what goes to source also goes to destination.
struct bind {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 30;
    static constexpr const char* name = "exchange.bind";
    static constexpr bool content = false;

    std::string_view destination = {};
    std::string_view source = {};
    std::string_view routing_key = {};
    bool no_wait = false; ///< no answer is sent
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.destination);
        f.shortstr(self.source);
        f.shortstr(self.routing_key);
        f.bit(self.no_wait);
        f.table(self.arguments);
    }
};

/// Server to client.
struct bind_ok {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 31;
    static constexpr const char* name = "exchange.bind-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server, RabbitMQ.
struct unbind {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 40;
    static constexpr const char* name = "exchange.unbind";
    static constexpr bool content = false;

    std::string_view destination = {};
    std::string_view source = {};
    std::string_view routing_key = {};
    bool no_wait = false; ///< no answer is sent
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.destination);
        f.shortstr(self.source);
        f.shortstr(self.routing_key);
        f.bit(self.no_wait);
        f.table(self.arguments);
    }
};

/// Server to client; the number is 51, not 41.
struct unbind_ok {
    static constexpr std::uint16_t class_id = class_exchange;
    static constexpr std::uint16_t method_id = 51;
    static constexpr const char* name = "exchange.unbind-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

} // namespace acquit::amqp::wire::exchange
