#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace acquit::bench {

/// acquit-bench, which stands beside this program, in a process of its own. stdout and stderr come
/// together.
class tool {
public:
    explicit tool(std::vector<std::string> arguments);
    /// Kills it where it still runs.
    ~tool();
    tool(const tool&) = delete;
    tool& operator=(const tool&) = delete;

    /// Waits for the next line; "" when it has closed its output.
    std::string line();
    void signal(int number) const;
    /// Reads the rest, and gives its exit status, or minus the signal that killed it.
    int wait();
    /// Everything it said so far.
    [[nodiscard]] const std::string& said() const noexcept { return said_; }

private:
    pid_t pid_ = -1;
    std::FILE* out_ = nullptr;
    std::string said_;
};

/// Runs it to its end, against the broker of the tests.
struct finished {
    int status = -1;
    std::string said;
};
[[nodiscard]] finished run_tool(std::vector<std::string> arguments);

/// The broker of the tests (tests/broker/with).
[[nodiscard]] std::string broker_uri();

/// The first number behind `name` in `text`; fails the test where there is none.
[[nodiscard]] double number_behind(std::string_view text, std::string_view name);

} // namespace acquit::bench
