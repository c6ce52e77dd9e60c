#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Charts as SVG to stand inside an HTML page: no script, no colour of their own (those are CSS
/// variables --s1 to --s4, and classes), text in the size of the page. A chart is drawn once for wide
/// pages and paper, and once for phones.
namespace acquit::bench {

/// Text between tags or in an attribute.
[[nodiscard]] std::string escaped(std::string_view text);

/// One scale: where a value stands, and what is written at it.
class axis {
public:
    struct tick {
        double at = 0; ///< 0 to 1
        std::string label;
    };

    /// From 0 to `most` or a little more, at round numbers.
    [[nodiscard]] static axis linear(std::string title, double most, std::size_t ticks = 5);
    /// Exactly from 0 to `end`, for time.
    [[nodiscard]] static axis seconds(double end, std::size_t ticks = 6);
    /// Durations in microseconds, by decades from the one below `least` to the one above `most`.
    [[nodiscard]] static axis microseconds(std::string title, double least, double most);
    /// Percentiles by their nines: 0, 50, 90, 99, ... up to what `count` values can tell.
    [[nodiscard]] static axis percentiles(double count);

    /// 0 to 1; what lies outside is at the edge.
    [[nodiscard]] double at(double value) const noexcept;

    std::string title;
    std::vector<tick> ticks;

private:
    enum class scale : unsigned char { linear, logarithmic, nines };
    scale scale_ = scale::linear;
    double least_ = 0;
    double most_ = 1;
};

struct series {
    std::string name;
    int colour = 1; ///< of --s1 to --s4
    std::vector<std::pair<double, double>> points{};
};

/// What a mouse over that part of the chart is told.
struct hint {
    double from = 0;
    double to = 0;
    std::string text;
};

struct chart {
    axis x;
    axis y;
    std::vector<series> lines{};
    /// Columns from .from to .to with a height each; the hints tell of them.
    struct column {
        double from = 0;
        double to = 0;
        double height = 0;
    };
    std::vector<column> columns{};
    double shaded_to = 0; ///< from the left edge up to here it was the warm-up
    std::vector<hint> hints{};
    std::string description; ///< read aloud in place of the picture

    /// The legend (where there are several lines) and both drawings.
    [[nodiscard]] std::string html() const;

private:
    [[nodiscard]] std::string drawing(double width, double height, bool narrow) const;
};

/// 21419 as "21,419"; 0.123 with digits enough to tell something.
[[nodiscard]] std::string number_text(double value);
/// Microseconds as "850 ns", "12.3 µs", "4.5 ms", "1.2 s".
[[nodiscard]] std::string duration_text(double us);

} // namespace acquit::bench
