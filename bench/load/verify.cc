#include "verify.h"

#include <fmt/format.h>

#include <algorithm>

namespace acquit::bench {

bool book::bits::set(std::uint64_t at)
{
    const auto word = static_cast<std::size_t>(at / 64);
    if (word >= words_.size())
        words_.resize(std::max(word + 1, words_.size() * 2));
    const auto bit = std::uint64_t{1} << at % 64;
    const bool was = (words_[word] & bit) != 0;
    words_[word] |= bit;
    return !was;
}

bool book::bits::test(std::uint64_t at) const noexcept
{
    const auto word = static_cast<std::size_t>(at / 64);
    return word < words_.size() && (words_[word] >> at % 64 & 1) != 0;
}

book::line& book::of(std::uint16_t producer)
{
    if (producer >= lines_.size())
        lines_.resize(std::size_t{producer} + 1);
    return lines_[producer];
}

void book::sent(std::uint16_t producer, std::uint64_t number)
{
    of(producer).expected = number + 1;
    ++sent_;
}

void book::unsent(std::uint16_t producer, std::uint64_t number)
{
    of(producer).expected = number;
    --sent_;
}

void book::refused(std::uint16_t producer, std::uint64_t number)
{
    line& of_it = of(producer);
    if (of_it.refused.set(number) && !of_it.done.test(number))
        ++closed_;
}

bool book::settled(const stamp& s)
{
    if (!run_)
        run_ = s.run;
    // A number far beyond what was published would cost memory: it is nobody's message.
    if (s.run != *run_ ||
        (publishes_ && (s.producer >= lines_.size() || s.number >= lines_[s.producer].expected))) {
        ++foreign_;
        return false;
    }
    line& of_it = of(s.producer);
    if (!publishes_ && s.number >= of_it.expected) {
        sent_ += s.number + 1 - of_it.expected;
        of_it.expected = s.number + 1;
    }
    if (!of_it.done.set(s.number))
        ++twice_;
    else if (!of_it.refused.test(s.number))
        ++closed_;
    return true;
}

std::uint64_t book::open() const noexcept
{
    return sent_ - std::min(closed_, sent_);
}

book::verdict book::judge() const
{
    constexpr std::uint64_t examples_max = 10;
    verdict found{.published = sent_, .twice = twice_, .foreign = foreign_};
    for (std::size_t producer = 0; producer < lines_.size(); ++producer) {
        const line& each = lines_[producer];
        std::uint64_t lost_here = 0;
        for (std::uint64_t n = 0; n < each.expected; ++n) {
            if (each.done.test(n)) {
                ++found.settled;
            } else if (each.refused.test(n)) {
                ++found.refused;
            } else {
                ++lost_here;
                if (found.lost + lost_here <= examples_max)
                    found.examples +=
                        lost_here == 1
                            ? fmt::format("{}producer {}: {}", found.examples.empty() ? "" : "; ",
                                          producer, n)
                            : fmt::format(", {}", n);
            }
        }
        found.lost += lost_here;
    }
    return found;
}

std::string book::verdict::text() const
{
    auto line = fmt::format("verify: {} published = {} settled + {} refused by the broker",
                            published, settled, refused);
    if (good())
        return line + ": nothing lost, nothing twice\n";
    line += fmt::format(" + {} LOST; {} settled TWICE, {} from elsewhere\n", lost, twice, foreign);
    if (!examples.empty())
        line += fmt::format("verify: lost: {}{}\n", examples, lost > 10 ? ", ..." : "");
    return line;
}

} // namespace acquit::bench
