#pragma once

#include "options.h"

#include <acquit/amqp/wire/properties.h>
#include <acquit/amqp/wire/table.h>

#include <string>

namespace acquit::bench {

/// The properties of the messages that a run publishes, with the memory that they point to.
///
/// Names as PerfTest has them: contentType, contentEncoding, deliveryMode, priority, correlationId,
/// replyTo, expiration, messageId, timestamp (seconds), type, userId, appId, clusterId. Any other
/// name is a header, a number where the value reads as one.
class message_properties {
public:
    /// Throws `runtime::error` for a value that its property cannot have.
    message_properties(const key_values& named, bool persistent);
    message_properties(const message_properties&) = delete;
    message_properties& operator=(const message_properties&) = delete;

    [[nodiscard]] const amqp::wire::properties& get() const noexcept { return properties_; }

private:
    key_values named_;
    amqp::wire::table headers_;
    amqp::wire::properties properties_;
};

/// Sets an argument or a header: true, false and numbers as such, anything else as text.
void set_value(amqp::wire::table& table, const std::string& name, const std::string& value);

} // namespace acquit::bench
