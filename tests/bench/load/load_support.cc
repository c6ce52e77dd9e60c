#include "load_support.h"

#include <cctype>

namespace acquit::bench {

namespace {

class json_reader {
public:
    explicit json_reader(std::string_view text) : rest_(text) {}

    bool all() { return value() && (skip(), rest_.empty()); }

private:
    void skip()
    {
        while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != rest_.npos)
            rest_.remove_prefix(1);
    }
    bool take(char c)
    {
        skip();
        if (rest_.empty() || rest_[0] != c)
            return false;
        rest_.remove_prefix(1);
        return true;
    }
    bool word(std::string_view w)
    {
        if (!rest_.starts_with(w))
            return false;
        rest_.remove_prefix(w.size());
        return true;
    }
    bool string()
    {
        if (!take('"'))
            return false;
        while (!rest_.empty()) {
            const char c = rest_[0];
            rest_.remove_prefix(1);
            if (c == '"')
                return true;
            if (static_cast<unsigned char>(c) < 0x20)
                return false;
            if (c != '\\')
                continue;
            if (rest_.empty())
                return false;
            const std::size_t more = rest_[0] == 'u' ? 5 : 1;
            if (std::string_view("\"\\/bfnrtu").find(rest_[0]) == rest_.npos || rest_.size() < more)
                return false;
            rest_.remove_prefix(more);
        }
        return false;
    }
    bool number()
    {
        const auto end = rest_.find_first_not_of("0123456789+-.eE");
        const auto digits = rest_.substr(0, end);
        if (digits.empty() || digits.find_first_of("0123456789") == digits.npos)
            return false;
        rest_.remove_prefix(digits.size());
        return true;
    }
    template <class Element>
    bool list(char end, Element element)
    {
        if (take(end))
            return true;
        do {
            if (!element())
                return false;
        } while (take(','));
        return take(end);
    }
    bool value()
    {
        skip();
        if (rest_.empty())
            return false;
        if (rest_[0] == '"')
            return string();
        if (take('{'))
            return list('}', [this] { return string() && take(':') && value(); });
        if (take('['))
            return list(']', [this] { return value(); });
        return word("true") || word("false") || word("null") || number();
    }

    std::string_view rest_;
};

} // namespace

bool is_json(std::string_view text)
{
    return json_reader(text).all();
}

std::vector<std::string> lines_of(std::string_view text)
{
    std::vector<std::string> lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    return lines;
}

} // namespace acquit::bench
