#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <string_view>

/// The methods of class basic (AMQP 0-9-1 1.8). A method with `content` is followed, on its
/// channel, by one content header frame and as many body frames as the body size needs; nothing
/// else may come between on that channel.
///
/// Fields have the specification's names; reserved ones are left out. Strings and tables are views:
/// of the receive buffer when decoded, of the caller's memory when encoded.
namespace acquit::amqp::wire::basic {

/// Client to server: how many deliveries may be unsettled at once.
struct qos {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "basic.qos";
    static constexpr bool content = false;

    std::uint32_t prefetch_size = 0;  ///< bytes; RabbitMQ: only 0
    std::uint16_t prefetch_count = 0; ///< 0: no limit
    bool global = false;              ///< RabbitMQ: false per new consumer, true per channel

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u32(self.prefetch_size);
        f.u16(self.prefetch_count);
        f.bit(self.global);
    }
};

/// Server to client.
struct qos_ok {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "basic.qos-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server.
struct consume {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 20;
    static constexpr const char* name = "basic.consume";
    static constexpr bool content = false;

    std::string_view queue = {};
    std::string_view consumer_tag = {}; ///< empty: the server makes one up
    bool no_local = false;              ///< RabbitMQ: ignored
    bool no_ack = false;
    bool exclusive = false;
    bool no_wait = false; ///< no answer is sent
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.shortstr(self.consumer_tag);
        f.bit(self.no_local);
        f.bit(self.no_ack);
        f.bit(self.exclusive);
        f.bit(self.no_wait);
        f.table(self.arguments);
    }
};

/// Server to client.
struct consume_ok {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 21;
    static constexpr const char* name = "basic.consume-ok";
    static constexpr bool content = false;

    std::string_view consumer_tag = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.consumer_tag);
    }
};

/// Client to server; RabbitMQ also server to client, when the queue has gone.
struct cancel {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 30;
    static constexpr const char* name = "basic.cancel";
    static constexpr bool content = false;

    std::string_view consumer_tag = {};
    bool no_wait = false; ///< no answer is sent

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.consumer_tag);
        f.bit(self.no_wait);
    }
};

/// Server to client.
struct cancel_ok {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 31;
    static constexpr const char* name = "basic.cancel-ok";
    static constexpr bool content = false;

    std::string_view consumer_tag = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.consumer_tag);
    }
};

/// Client to server.
struct publish {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 40;
    static constexpr const char* name = "basic.publish";
    static constexpr bool content = true;

    std::string_view exchange =
        {}; ///< empty: the default exchange, straight to the queue named by the key
    std::string_view routing_key = {};
    bool mandatory = false; ///< come back as return_ when no queue takes it
    bool immediate = false; ///< RabbitMQ: refuses it

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.exchange);
        f.shortstr(self.routing_key);
        f.bit(self.mandatory);
        f.bit(self.immediate);
    }
};

/// Server to client: a mandatory message that no queue took.
struct return_ {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 50;
    static constexpr const char* name = "basic.return";
    static constexpr bool content = true;

    std::uint16_t reply_code = 0;
    std::string_view reply_text = {};
    std::string_view exchange = {};
    std::string_view routing_key = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u16(self.reply_code);
        f.shortstr(self.reply_text);
        f.shortstr(self.exchange);
        f.shortstr(self.routing_key);
    }
};

/// Server to client: a message for a consumer.
struct deliver {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 60;
    static constexpr const char* name = "basic.deliver";
    static constexpr bool content = true;

    std::string_view consumer_tag = {};
    std::uint64_t delivery_tag = 0; ///< per channel, from 1
    bool redelivered = false;
    std::string_view exchange = {};
    std::string_view routing_key = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.consumer_tag);
        f.u64(self.delivery_tag);
        f.bit(self.redelivered);
        f.shortstr(self.exchange);
        f.shortstr(self.routing_key);
    }
};

/// Client to server: one message, or the news that there is none.
struct get {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 70;
    static constexpr const char* name = "basic.get";
    static constexpr bool content = false;

    std::string_view queue = {};
    bool no_ack = false;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.bit(self.no_ack);
    }
};

/// Server to client.
struct get_ok {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 71;
    static constexpr const char* name = "basic.get-ok";
    static constexpr bool content = true;

    std::uint64_t delivery_tag = 0;
    bool redelivered = false;
    std::string_view exchange = {};
    std::string_view routing_key = {};
    std::uint32_t message_count = 0;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u64(self.delivery_tag);
        f.bit(self.redelivered);
        f.shortstr(self.exchange);
        f.shortstr(self.routing_key);
        f.u32(self.message_count);
    }
};

/// Server to client.
struct get_empty {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 72;
    static constexpr const char* name = "basic.get-empty";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&& f) noexcept
    {
        f.reserved_shortstr();
    }
};

/// Client to server: handled; server to client, RabbitMQ: confirmed.
struct ack {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 80;
    static constexpr const char* name = "basic.ack";
    static constexpr bool content = false;

    std::uint64_t delivery_tag = 0;
    bool multiple = false; ///< all up to and including the tag; tag 0: all

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u64(self.delivery_tag);
        f.bit(self.multiple);
    }
};

/// Client to server: one message back to the queue or away (dead-lettered, where that is set up).
struct reject {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 90;
    static constexpr const char* name = "basic.reject";
    static constexpr bool content = false;

    std::uint64_t delivery_tag = 0;
    bool requeue = true;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u64(self.delivery_tag);
        f.bit(self.requeue);
    }
};

/// Client to server; deprecated, RabbitMQ: as recover, without an answer.
struct recover_async {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 100;
    static constexpr const char* name = "basic.recover-async";
    static constexpr bool content = false;

    bool requeue = false;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.bit(self.requeue);
    }
};

/// Client to server: all unsettled deliveries of the channel back to the queue. RabbitMQ: only
/// requeue = true.
struct recover {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 110;
    static constexpr const char* name = "basic.recover";
    static constexpr bool content = false;

    bool requeue = false;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.bit(self.requeue);
    }
};

/// Server to client.
struct recover_ok {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 111;
    static constexpr const char* name = "basic.recover-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server, RabbitMQ: reject for several; server to client, RabbitMQ: a publish that was
/// not taken.
struct nack {
    static constexpr std::uint16_t class_id = class_basic;
    static constexpr std::uint16_t method_id = 120;
    static constexpr const char* name = "basic.nack";
    static constexpr bool content = false;

    std::uint64_t delivery_tag = 0;
    bool multiple = false;
    bool requeue = true;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u64(self.delivery_tag);
        f.bit(self.multiple);
        f.bit(self.requeue);
    }
};

} // namespace acquit::amqp::wire::basic
