#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <string_view>

/// The methods of class channel (AMQP 0-9-1 1.5).
namespace acquit::amqp::wire::channel {

/// Client to server.
struct open {
    static constexpr std::uint16_t class_id = class_channel;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "channel.open";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&& f) noexcept
    {
        f.reserved_shortstr();
    }
};

/// Server to client.
struct open_ok {
    static constexpr std::uint16_t class_id = class_channel;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "channel.open-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&& f) noexcept
    {
        f.reserved_longstr();
    }
};

/// Either side: stop or go on sending contents. RabbitMQ: refuses active = false from a client,
/// sends none.
struct flow {
    static constexpr std::uint16_t class_id = class_channel;
    static constexpr std::uint16_t method_id = 20;
    static constexpr const char* name = "channel.flow";
    static constexpr bool content = false;

    bool active = false;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.bit(self.active);
    }
};

/// The answer repeats what was asked.
struct flow_ok {
    static constexpr std::uint16_t class_id = class_channel;
    static constexpr std::uint16_t method_id = 21;
    static constexpr const char* name = "channel.flow-ok";
    static constexpr bool content = false;

    bool active = false;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.bit(self.active);
    }
};

/// Either side. The channel number is free again after close_ok.
struct close {
    static constexpr std::uint16_t class_id = class_channel;
    static constexpr std::uint16_t method_id = 40;
    static constexpr const char* name = "channel.close";
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
    static constexpr std::uint16_t class_id = class_channel;
    static constexpr std::uint16_t method_id = 41;
    static constexpr const char* name = "channel.close-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

} // namespace acquit::amqp::wire::channel
