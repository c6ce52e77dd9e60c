#pragma once

#include <acquit/amqp/wire/constants.h>
#include <acquit/amqp/wire/field_table.h>

#include <cstdint>
#include <string_view>

/// The methods of class queue (AMQP 0-9-1 1.7).
namespace acquit::amqp::wire::queue {

/// Client to server: make it, or check that it is as described (passive: that it exists).
struct declare {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 10;
    static constexpr const char* name = "queue.declare";
    static constexpr bool content = false;

    std::string_view queue = {}; ///< empty: the server makes up a name
    bool passive = false;
    bool durable = false;
    bool exclusive = false;
    bool auto_delete = false;
    bool no_wait = false; ///< no answer is sent
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.bit(self.passive);
        f.bit(self.durable);
        f.bit(self.exclusive);
        f.bit(self.auto_delete);
        f.bit(self.no_wait);
        f.table(self.arguments);
    }
};

/// Server to client.
struct declare_ok {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 11;
    static constexpr const char* name = "queue.declare-ok";
    static constexpr bool content = false;

    std::string_view queue = {};
    std::uint32_t message_count = 0; ///< ready ones, without those held unsettled
    std::uint32_t consumer_count = 0;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.shortstr(self.queue);
        f.u32(self.message_count);
        f.u32(self.consumer_count);
    }
};

/// Client to server.
struct bind {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 20;
    static constexpr const char* name = "queue.bind";
    static constexpr bool content = false;

    std::string_view queue = {};
    std::string_view exchange = {};
    std::string_view routing_key = {};
    bool no_wait = false; ///< no answer is sent
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.shortstr(self.exchange);
        f.shortstr(self.routing_key);
        f.bit(self.no_wait);
        f.table(self.arguments);
    }
};

/// Server to client.
struct bind_ok {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 21;
    static constexpr const char* name = "queue.bind-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

/// Client to server.
struct purge {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 30;
    static constexpr const char* name = "queue.purge";
    static constexpr bool content = false;

    std::string_view queue = {};
    bool no_wait = false; ///< no answer is sent

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.bit(self.no_wait);
    }
};

/// Server to client.
struct purge_ok {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 31;
    static constexpr const char* name = "queue.purge-ok";
    static constexpr bool content = false;

    std::uint32_t message_count = 0;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u32(self.message_count);
    }
};

/// Client to server.
struct delete_ {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 40;
    static constexpr const char* name = "queue.delete";
    static constexpr bool content = false;

    std::string_view queue = {};
    bool if_unused = false;
    bool if_empty = false;
    bool no_wait = false; ///< no answer is sent

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.bit(self.if_unused);
        f.bit(self.if_empty);
        f.bit(self.no_wait);
    }
};

/// Server to client.
struct delete_ok {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 41;
    static constexpr const char* name = "queue.delete-ok";
    static constexpr bool content = false;

    std::uint32_t message_count = 0;

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.u32(self.message_count);
    }
};

/// Client to server.
struct unbind {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 50;
    static constexpr const char* name = "queue.unbind";
    static constexpr bool content = false;

    std::string_view queue = {};
    std::string_view exchange = {};
    std::string_view routing_key = {};
    table_view arguments = {};

    template <class Self, class F>
    static constexpr void fields(Self& self, F&& f) noexcept
    {
        f.reserved_u16();
        f.shortstr(self.queue);
        f.shortstr(self.exchange);
        f.shortstr(self.routing_key);
        f.table(self.arguments);
    }
};

/// Server to client.
struct unbind_ok {
    static constexpr std::uint16_t class_id = class_queue;
    static constexpr std::uint16_t method_id = 51;
    static constexpr const char* name = "queue.unbind-ok";
    static constexpr bool content = false;

    template <class Self, class F>
    static constexpr void fields(Self&, F&&) noexcept
    {
    }
};

} // namespace acquit::amqp::wire::queue
