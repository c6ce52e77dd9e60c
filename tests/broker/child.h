#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace acquit::tests {

/// A program that stands beside this one: broker_consumer unless told.
class child {
public:
    explicit child(std::vector<std::string> arguments,
                   const std::string& program = "broker_consumer");
    /// Kills what still runs.
    ~child();
    child(const child&) = delete;
    child& operator=(const child&) = delete;

    /// Takes in what it has said so far, without waiting. False: it has closed its output.
    bool read_available();
    void signal(int number) const;
    /// Lets gated handlers go on.
    void open_gate();
    /// Its exit status, -signal when it was killed. Waits.
    int wait();

    /// The numbers N of lines "what N".
    [[nodiscard]] std::vector<std::size_t> numbers(std::string_view what) const;
    /// Whether a line of its stdout or stderr contains the text.
    [[nodiscard]] bool said(std::string_view text) const;
    /// All lines but those with numbers.
    [[nodiscard]] std::string text() const;

private:
    std::vector<std::string> lines_;
    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    std::string buffer_;
};

} // namespace acquit::tests
