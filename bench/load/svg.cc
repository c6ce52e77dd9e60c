#include "svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace acquit::bench {

namespace {

std::string short_number(double value)
{
    const auto trimmed = [](double v, const char* suffix) {
        auto text = fmt::format("{:.2f}", v);
        while (text.ends_with('0'))
            text.pop_back();
        if (text.ends_with('.'))
            text.pop_back();
        return text + suffix;
    };
    if (value >= 1e6)
        return trimmed(value / 1e6, " M");
    return value >= 1e4 ? trimmed(value / 1e3, " k") : trimmed(value, "");
}

/// 1, 2 or 5 times a power of ten, so that `span` has about `pieces` of them.
double round_step(double span, std::size_t pieces)
{
    const double raw = span / static_cast<double>(std::max<std::size_t>(pieces, 1));
    const double power = std::pow(10, std::floor(std::log10(raw)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (raw <= factor * power * 1.0001)
            return factor * power;
    return 10 * power;
}

double nines(double percent)
{
    return -std::log10(std::max(1 - percent / 100, 1e-9));
}

/// A rough width, in em, of digits and lower-case letters.
double width_of(std::string_view text)
{
    std::size_t characters = 0;
    for (const char c : text)
        characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0; // UTF-8
    return 0.56 * static_cast<double>(characters);
}

} // namespace

std::string escaped(std::string_view text)
{
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&#39;";
            break;
        default:
            out += c;
        }
    }
    return out;
}

std::string number_text(double value)
{
    if (value < 10)
        return short_number(value);
    if (value < 100)
        return fmt::format("{:.1f}", value);
    auto digits = fmt::format("{:.0f}", value);
    for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), ",");
    return digits;
}

std::string duration_text(double us)
{
    const auto with = [](double v, const char* unit) {
        return v < 10    ? fmt::format("{:.2f} {}", v, unit)
               : v < 100 ? fmt::format("{:.1f} {}", v, unit)
                         : fmt::format("{:.0f} {}", v, unit);
    };
    if (us < 1)
        return fmt::format("{:.0f} ns", us * 1000);
    if (us < 1000)
        return with(us, "µs");
    return us < 1e6 ? with(us / 1000, "ms") : with(us / 1e6, "s");
}

axis axis::linear(std::string title, double most, std::size_t ticks)
{
    axis a;
    a.title = std::move(title);
    const double step = round_step(most > 0 ? most : 1, ticks);
    a.most_ = step * std::ceil((most > 0 ? most : 1) / step - 1e-9);
    for (double v = 0; v <= a.most_ + step / 2; v += step)
        a.ticks.push_back({v / a.most_, short_number(v)});
    return a;
}

axis axis::seconds(double end, std::size_t ticks)
{
    axis a;
    a.title = "time, s";
    a.most_ = end > 0 ? end : 1;
    const double step = round_step(a.most_, ticks);
    for (double v = 0; v <= a.most_ * 1.0001; v += step)
        a.ticks.push_back({v / a.most_, short_number(v)});
    return a;
}

axis axis::microseconds(std::string title, double least, double most)
{
    axis a;
    a.title = std::move(title);
    a.scale_ = scale::logarithmic;
    const double low = std::floor(std::log10(std::max(least, 0.1)) + 1e-9);
    const double high = std::max(std::ceil(std::log10(std::max(most, 0.2)) - 1e-9), low + 1);
    a.least_ = std::pow(10, low);
    a.most_ = std::pow(10, high);
    for (double power = low; power <= high + 0.5; ++power) {
        auto label = power < 0   ? fmt::format("{:.0f} ns", std::pow(10, power + 3))
                     : power < 3 ? fmt::format("{:.0f} µs", std::pow(10, power))
                     : power < 6 ? fmt::format("{:.0f} ms", std::pow(10, power - 3))
                                 : fmt::format("{:.0f} s", std::pow(10, power - 6));
        a.ticks.push_back({(power - low) / (high - low), std::move(label)});
    }
    return a;
}

axis axis::percentiles(double count)
{
    axis a;
    a.title = "percentile";
    a.scale_ = scale::nines;
    a.most_ = std::clamp(std::log10(std::max(count, 1.0)), 1.0, 6.0);
    static constexpr const char* labels[] = {"0", "90", "99", "99.9", "99.99", "99.999", "99.9999"};
    for (int n = 0; n <= static_cast<int>(a.most_); ++n) {
        a.ticks.push_back({n / a.most_, labels[n]});
        if (n == 0)
            a.ticks.push_back({nines(50) / a.most_, "50"});
    }
    return a;
}

double axis::at(double value) const noexcept
{
    double where = 0;
    switch (scale_) {
    case scale::linear:
        where = (value - least_) / (most_ - least_);
        break;
    case scale::logarithmic:
        where = std::log10(std::max(value, least_) / least_) / std::log10(most_ / least_);
        break;
    case scale::nines:
        where = nines(value) / most_;
        break;
    }
    return std::clamp(where, 0.0, 1.0);
}

namespace {

/// The frame of one drawing, and where things stand in it.
struct frame {
    double width;
    double height;
    double left;
    double right = 14;
    double top = 26;
    double bottom = 46;

    [[nodiscard]] double x(double share) const { return left + share * (width - left - right); }
    [[nodiscard]] double y(double share) const
    {
        return height - bottom - share * (height - top - bottom);
    }
};

std::string text(double x, double y, const char* anchor, std::string_view what,
                 const char* kind = "tick")
{
    return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                       kind, x, y, anchor, escaped(what));
}

std::string grid(const frame& f, const axis& x, const axis& y, double font)
{
    std::string out;
    for (const auto& t : y.ticks) {
        out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", f.left, f.y(t.at),
                           f.width - f.right);
        out += text(f.left - 7, f.y(t.at) + font * 0.35, "end", t.label);
    }
    double free_from = -1e9; // labels that would touch the one before are left out
    for (const auto& t : x.ticks) {
        const double half = width_of(t.label) * font / 2;
        const double at = f.x(t.at);
        out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}v5\"/>", at, f.y(0));
        if (at - half < free_from)
            continue;
        free_from = at + half + font * 0.6;
        // The last one may not be cut off by the edge.
        const double shift = std::min(0.0, f.width - 1 - (at + half));
        out += text(at + shift, f.y(0) + font + 9, "middle", t.label);
    }
    out += fmt::format("<path class=\"base\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>", f.left, f.y(0),
                       f.width - f.right);
    out += text((f.left + f.width - f.right) / 2, f.height - 5, "middle", x.title, "title");
    out += text(2, font + 1, "start", y.title, "title");
    return out;
}

std::string path(const frame& f, const chart& c, const series& s)
{
    std::string d;
    for (const auto& [x, y] : s.points)
        d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? 'M' : 'L', f.x(c.x.at(x)), f.y(c.y.at(y)));
    auto out =
        fmt::format("<path class=\"line\" style=\"stroke:var(--s{})\" d=\"{}\"/>", s.colour, d);
    if (s.points.size() == 1) // a line of one point cannot be seen
        out +=
            fmt::format("<circle r=\"4\" style=\"fill:var(--s{})\" cx=\"{:.1f}\" cy=\"{:.1f}\"/>",
                        s.colour, f.x(c.x.at(s.points[0].first)), f.y(c.y.at(s.points[0].second)));
    return out;
}

} // namespace

std::string chart::drawing(double width, double height, bool narrow) const
{
    constexpr double font = 13;
    double labels = 0;
    for (const auto& t : y.ticks)
        labels = std::max(labels, width_of(t.label) * font);
    const frame f{.width = width, .height = height, .left = labels + 14};
    auto out = fmt::format("<svg class=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
                           "aria-label=\"{}\">",
                           narrow ? "narrow" : "wide", width, height, escaped(description));
    if (shaded_to > 0)
        out += fmt::format("<rect class=\"shade\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                           "height=\"{:.1f}\"/>",
                           f.left, f.top, f.x(x.at(shaded_to)) - f.left, f.y(0) - f.top);
    out += grid(f, x, y, font);
    for (const auto& c : columns) {
        const double from = f.x(x.at(c.from));
        const double wide = std::max(f.x(x.at(c.to)) - from - 1, 0.8);
        const double top = f.y(y.at(c.height));
        out += fmt::format("<rect class=\"column\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                           "height=\"{:.1f}\"/>",
                           from, std::min(top, f.y(0) - 1), wide, std::max(f.y(0) - top, 1.0));
    }
    for (const auto& s : lines)
        out += path(f, *this, s);
    for (const auto& h : hints) {
        const double from = f.x(x.at(h.from));
        out += fmt::format("<rect class=\"hint\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
                           "height=\"{:.1f}\"><title>{}</title></rect>",
                           from, f.top, std::max(f.x(x.at(h.to)) - from, 0.5), f.y(0) - f.top,
                           escaped(h.text));
    }
    return out + "</svg>";
}

std::string chart::html() const
{
    std::string out;
    if (lines.size() > 1) {
        out += "<p class=\"legend\">";
        for (const auto& s : lines)
            out += fmt::format("<span><i style=\"background:var(--s{})\"></i>{}</span>", s.colour,
                               escaped(s.name));
        out += "</p>";
    }
    return out + drawing(760, 300, false) + drawing(348, 270, true);
}

} // namespace acquit::bench
