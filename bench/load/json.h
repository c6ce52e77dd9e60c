#pragma once

#include "result.h"

#include <string>
#include <string_view>

namespace acquit::bench {

/// Text of a JSON document (RFC 8259), value by value. It sets commas and escapes; that objects and
/// arrays are closed is the caller's part.
///
///     json_text j;
///     j.open('{').key("id").value("a").key("rates").open('[').value(1.5).close(']').close('}');
class json_text {
public:
    json_text& open(char bracket);
    json_text& close(char bracket);
    json_text& key(std::string_view name);
    json_text& value(std::string_view text);
    json_text& value(const char* text) { return value(std::string_view(text)); }
    /// What is no number (no rate, say) becomes null.
    json_text& value(double number);
    json_text& value(std::uint64_t number);
    json_text& value(std::uint32_t number) { return value(std::uint64_t{number}); }
    json_text& value(bool yes);
    json_text& null();
    template <class Value>
    json_text& member(std::string_view name, const Value& v)
    {
        return key(name).value(v);
    }

    [[nodiscard]] const std::string& text() const noexcept { return out_; }

private:
    void separate();
    std::string out_;
    bool first_ = true; // nothing stands in the innermost bracket, or a key was written
};

/// All figures of a run, one object, with a newline at the end. Latencies are in microseconds.
[[nodiscard]] std::string json_of(const result& r);

} // namespace acquit::bench
