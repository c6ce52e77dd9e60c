#include "tool.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace acquit::bench {

tool::tool(std::vector<std::string> arguments)
{
    const auto program =
        std::filesystem::read_symlink("/proc/self/exe").replace_filename("acquit-bench").string();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        throw std::runtime_error("no pipe");
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (auto& each : arguments)
        argv.push_back(each.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0)
        throw std::runtime_error("no process");
    if (pid_ == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(program.c_str(), argv.data());
        _exit(127);
    }
    close(ends[1]);
    out_ = fdopen(ends[0], "r");
}

tool::~tool()
{
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        (void)wait();
    }
    std::fclose(out_);
}

std::string tool::line()
{
    char* text = nullptr;
    std::size_t room = 0;
    const auto size = getline(&text, &room, out_);
    const std::string got(text, size > 0 ? static_cast<std::size_t>(size) : 0);
    std::free(text); // NOLINT: of getline
    said_ += got;
    return got;
}

void tool::signal(int number) const
{
    kill(pid_, number);
}

int tool::wait()
{
    while (!line().empty()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

finished run_tool(std::vector<std::string> arguments)
{
    arguments.insert(arguments.begin(), {"-h", broker_uri()});
    tool one(std::move(arguments));
    finished done;
    done.status = one.wait();
    done.said = one.said();
    return done;
}

std::string broker_uri()
{
    const char* const uri = std::getenv("ACQUIT_BROKER_URI");
    if (uri == nullptr)
        throw std::runtime_error("run this through tests/broker/with VERSION -- bench_tool");
    return uri;
}

double number_behind(std::string_view text, std::string_view name)
{
    const auto at = text.find(name);
    if (at == text.npos) {
        ADD_FAILURE() << "no " << name << " in " << text;
        return -1;
    }
    return std::strtod(std::string(text.substr(at + name.size())).c_str(), nullptr);
}

} // namespace acquit::bench
