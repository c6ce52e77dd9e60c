#pragma once

#include <cstdint>
#include <cstdio>

#include <sys/resource.h>
#include <time.h>

/// What every client of the comparison measures, by one rule: wall time and processor time (user and
/// system, all threads, by getrusage) from the end of the first tenth of the messages, when it is
/// warm, to the last message.
///
///     figures counts("some client", 1000);
///     for (...) { handle(); settle(); if (counts.one()) break; }
///     counts.print();
class figures {
public:
    figures(const char* client, std::uint64_t messages)
        : client_(client), messages_(messages), first_(messages / 10)
    {
        if (first_ == 0)
            begin();
    }

    /// A message was handled. True: it was the last.
    bool one()
    {
        if (++seen_ == first_)
            begin();
        if (seen_ != messages_)
            return false;
        seconds_ = now() - seconds_;
        cpu_ = cpu() - cpu_;
        return true;
    }
    [[nodiscard]] bool last_is_next() const { return seen_ + 1 == messages_; }
    [[nodiscard]] bool warm() const { return seen_ == first_; }
    [[nodiscard]] std::uint64_t measured() const { return messages_ - first_; }

    /// One line of JSON; `more` are further fields, each with a comma before it.
    void print(const char* more = "") const
    {
        const auto count = static_cast<double>(measured());
        rusage used{};
        ::getrusage(RUSAGE_SELF, &used);
        std::printf("{\"client\": \"%s\", \"messages\": %.0f, \"seconds\": %.6f, \"rate\": %.1f, "
                    "\"cpu_us\": %.5f, \"rss_kib\": %ld%s}\n",
                    client_, count, seconds_, count / seconds_, cpu_ * 1e6 / count, used.ru_maxrss,
                    more);
        std::fflush(stdout);
    }

private:
    void begin()
    {
        seconds_ = now();
        cpu_ = cpu();
    }
    static double now()
    {
        timespec t{};
        ::clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
    }
    static double cpu()
    {
        rusage used{};
        ::getrusage(RUSAGE_SELF, &used);
        return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    }

    const char* client_;
    std::uint64_t messages_;
    std::uint64_t first_;
    std::uint64_t seen_ = 0;
    double seconds_ = 0;
    double cpu_ = 0;
};
