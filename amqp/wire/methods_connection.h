#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <string_view>

/// The methods of class connection (AMQP 0-9-1 1.4), in the order of a connection's life. All
/// travel on channel 0.
///
///     client  "AMQP" 0 0 9 1
///     server  start                     client  start_ok
///     server  secure (any number)       client  secure_ok
///     server  tune                      client  tune_ok, open
///     server  open_ok
///     either  close                     other   close_ok
namespace acquit::amqp::wire::connection {

/// Server to client: versions, mechanisms, and what the server is and can do.
struct start {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "connection.start";
    static constexpr bool content = false;

    std::uint8_t version_major = 0;
    std::uint8_t version_minor = 9;
    table_view server_properties = {};
    std::string_view mechanisms = {}; ///< separated by spaces; RabbitMQ: in random order
    std::string_view locales = {};    ///< separated by spaces

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u8(self.version_major);
        f.u8(self.version_minor);
        f.table(self.server_properties);
        f.longstr(self.mechanisms);
        f.longstr(self.locales);
    }
};

/// Client to server: the mechanism chosen, and its first response.
struct start_ok {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "connection.start-ok";
    static constexpr bool content = false;

    table_view client_properties = {};
    std::string_view mechanism = {};
    std::string_view response = {}; ///< PLAIN: NUL user NUL password
    std::string_view locale = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.table(self.client_properties);
        f.shortstr(self.mechanism);
        f.longstr(self.response);
        f.shortstr(self.locale);
    }
};

/// Server to client: one more question of the mechanism.
struct secure {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 20;
    static constexpr const char* name = "connection.secure";
    static constexpr bool content = false;

    std::string_view challenge = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.longstr(self.challenge);
    }
};

/// Client to server.
struct secure_ok {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 21;
    static constexpr const char* name = "connection.secure-ok";
    static constexpr bool content = false;

    std::string_view response = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.longstr(self.response);
    }
};

/// Server to client: what the server proposes. 0 means "no limit", and "no heartbeats".
struct tune {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 30;
    static constexpr const char* name = "connection.tune";
    static constexpr bool content = false;

    std::uint16_t channel_max = 0;
    std::uint32_t frame_max = 0; ///< bytes
    std::uint16_t heartbeat = 0; ///< seconds

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u16(self.channel_max);
        f.u32(self.frame_max);
        f.u16(self.heartbeat);
    }
};

/// Client to server: what holds from now on. RabbitMQ: resets the connection, silently, for more
/// than it proposed.
struct tune_ok {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 31;
    static constexpr const char* name = "connection.tune-ok";
    static constexpr bool content = false;

    std::uint16_t channel_max = 0;
    std::uint32_t frame_max = 0; ///< bytes
    std::uint16_t heartbeat = 0; ///< seconds

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u16(self.channel_max);
        f.u32(self.frame_max);
        f.u16(self.heartbeat);
    }
};

/// Client to server.
struct open {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 40;
    static constexpr const char* name = "connection.open";
    static constexpr bool content = false;

    std::string_view virtual_host = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.virtual_host);
        f.reserved_shortstr();
        f.reserved_bit();
    }
};

/// Server to client.
struct open_ok {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 41;
    static constexpr const char* name = "connection.open-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&& f) noexcept
    {
        f.reserved_shortstr();
    }
};

/// Either side. Nothing may be sent after it but close_ok.
struct close {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 50;
    static constexpr const char* name = "connection.close";
    static constexpr bool content = false;

    std::uint16_t reply_code = 200;
    std::string_view reply_text = {};
    std::uint16_t failing_class_id =
        0; ///< class-id of the specification: of the method that failed, or 0
    std::uint16_t failing_method_id = 0; ///< method-id of the specification

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u16(self.reply_code);
        f.shortstr(self.reply_text);
        f.u16(self.failing_class_id);
        f.u16(self.failing_method_id);
    }
};

struct close_ok {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 51;
    static constexpr const char* name = "connection.close-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Server to client, RabbitMQ: an alarm is on; publishes are not read until unblocked.
struct blocked {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 60;
    static constexpr const char* name = "connection.blocked";
    static constexpr bool content = false;

    std::string_view reason = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.reason);
    }
};

/// Server to client, RabbitMQ.
struct unblocked {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 61;
    static constexpr const char* name = "connection.unblocked";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server, RabbitMQ: a new token for an open connection.
struct update_secret {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 70;
    static constexpr const char* name = "connection.update-secret";
    static constexpr bool content = false;

    std::string_view new_secret = {};
    std::string_view reason = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.longstr(self.new_secret);
        f.shortstr(self.reason);
    }
};

/// Server to client, RabbitMQ.
struct update_secret_ok {
    static constexpr std::uint16_t class_id = class_connection;
    static constexpr std::uint16_t method_id = 71;
    static constexpr const char* name = "connection.update-secret-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

} // namespace acquit::amqp::wire::connection
