#include <acquit/amqp/wire/table.h>

#include <array>
#include <cstdio>

namespace acquit::amqp::wire {

namespace {

void append_quoted(std::string& out, std::string_view text, std::size_t limit)
{
    out += '"';
    for (char c : text) {
        if (out.size() >= limit)
            break; // the caller sees the limit and ends the description
        auto octet = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (octet < 0x20 || octet == 0x7F) {
            std::array<char, 5> escaped{};
            std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(octet));
            out += escaped.data();
        } else {
            out += c;
        }
    }
    out += '"';
}

void append_scalar(std::string& out, field_value value, std::size_t limit)
{
    out += static_cast<char>(value.type());
    if (value.is_void())
        return;
    out += ':';
    if (auto number = value.as_int64()) {
        out += std::to_string(*number);
    } else if (auto text = value.as_string()) {
        append_quoted(out, *text, limit);
    } else if (auto truth = value.as_bool()) {
        out += *truth ? "true" : "false";
    } else if (auto real = value.as_double()) {
        std::array<char, 32> digits{};
        std::snprintf(digits.data(), digits.size(), "%.17g", *real);
        out += digits.data();
    } else if (auto time = value.as_timestamp()) {
        out += std::to_string(time->seconds);
    } else if (auto fixed = value.as_decimal()) {
        out += std::to_string(fixed->value) + "e-" + std::to_string(fixed->scale);
    }
}

} // namespace

std::string describe(table_view view, std::size_t limit)
{
    struct level {
        field_cursor cursor;
        bool first = true;
    };
    std::vector<level> open{{field_cursor(view.raw(), true)}};
    std::string out = "{";
    while (!open.empty()) {
        auto& top = open.back();
        bool named = top.cursor.named();
        field item;
        if (!top.cursor.next(item)) {
            if (top.cursor.error() != fault::none)
                out += top.first ? "...?" : ", ...?";
            out += named ? '}' : ']';
            open.pop_back();
            continue;
        }
        if (!top.first)
            out += ", ";
        top.first = false;
        if (out.size() >= limit)
            return out += "...";
        if (named) {
            out += item.name;
            out += '=';
        }
        auto type = item.value.type();
        if (type != field_type::table && type != field_type::array)
            append_scalar(out, item.value, limit);
        else if (open.size() > nesting_max)
            out += "...";
        else {
            bool is_table = type == field_type::table;
            out += is_table ? '{' : '[';
            open.push_back({field_cursor(item.value.raw().subspan(5), is_table)});
        }
    }
    return out;
}

} // namespace acquit::amqp::wire
