/// Exchange descriptors.
///
///     orders.exchange(topic_exchange{"shop"}.alternate("unrouted"));
///     orders.exchange(exchange{"mesh", "x-random"}.bind_to("shop", "order.#"));
///
/// The broker's own exchanges, "" and amq.*, may be described (to be bound to a source) but are
/// never declared: they exist always, and the broker refuses it.
#pragma once

#include <acquit/amqp/wire/table.h>
#include <acquit/settle/queue_description.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace acquit::settle {

/// Messages of `source` that match `key` reach the described exchange as well.
struct exchange_binding {
    std::string source;
    std::string key;
    amqp::wire::table arguments;
};

struct exchange_description {
    std::string name;
    std::string type;
    bool durable = true;
    bool auto_delete = false;
    bool internal = false;
    amqp::wire::table arguments;
    std::vector<exchange_binding> bindings;
    std::vector<std::string> step_problems;

    /// False for "" and amq.*.
    [[nodiscard]] bool declarable() const noexcept;
    /// Everything that is wrong with it, one text each: which exchange, what, and what to do.
    [[nodiscard]] std::vector<std::string> problems() const;
};

/// True for the names that belong to the broker: "" and amq.*.
[[nodiscard]] bool is_predeclared_exchange(std::string_view name) noexcept;

/// Any type by its name ("x-random", "x-recent-history", ...).
class exchange {
public:
    exchange(std::string name, std::string type);

    exchange& durable(bool yes = true);
    /// Goes when the last binding from it has gone.
    exchange& auto_delete(bool yes = true);
    /// Takes messages from other exchanges only, not from publishers.
    exchange& internal(bool yes = true);
    /// Where messages go that no binding matches (RabbitMQ: alternate-exchange).
    exchange& alternate(std::string_view name) { return argument("alternate-exchange", name); }
    exchange& bind_to(std::string source, std::string key, amqp::wire::table arguments = {});

    template <class Value>
    exchange& argument(std::string_view argument, const Value& value)
    {
        amqp::wire::table one;
        if (argument.size() <= argument_name_max)
            one.set(argument, value);
        merge_argument(argument, one);
        return *this;
    }

    [[nodiscard]] const exchange_description& description() const noexcept { return description_; }
    operator exchange_description() const& { return description_; }
    operator exchange_description() && { return std::move(description_); }

private:
    void merge_argument(std::string_view argument, const amqp::wire::table& one);

    exchange_description description_;
};

/// Key equal to the binding's.
class direct_exchange : public exchange {
public:
    explicit direct_exchange(std::string name) : exchange{std::move(name), "direct"} {}
};
/// Every binding, whatever the key.
class fanout_exchange : public exchange {
public:
    explicit fanout_exchange(std::string name) : exchange{std::move(name), "fanout"} {}
};
/// Words separated by dots; * is one word, # any number.
class topic_exchange : public exchange {
public:
    explicit topic_exchange(std::string name) : exchange{std::move(name), "topic"} {}
};
/// By header fields; the binding's arguments say which, and x-match how.
class headers_exchange : public exchange {
public:
    explicit headers_exchange(std::string name) : exchange{std::move(name), "headers"} {}
};
/// Spreads by a hash of the routing key; a binding's key is its weight, a positive number. Needs the
/// plugin rabbitmq_consistent_hash_exchange.
class consistent_hash_exchange : public exchange {
public:
    explicit consistent_hash_exchange(std::string name)
        : exchange{std::move(name), "x-consistent-hash"}
    {
    }
};

} // namespace acquit::settle
