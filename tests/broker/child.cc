#include "child.h"

#include "broker.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace acquit::tests {

child::child(std::vector<std::string> arguments, const std::string& name)
{
    const auto program =
        std::filesystem::read_symlink("/proc/self/exe").replace_filename(name).string();
    int to[2];
    int from[2];
    require(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0, "pipes");
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (auto& argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::signal(SIGPIPE, SIG_IGN); // a child that has ended shows by its status
    pid_ = fork();
    require(pid_ >= 0, "fork");
    if (pid_ == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        dup2(from[1], STDERR_FILENO);
        execv(program.c_str(), argv.data());
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    in_ = to[1];
    out_ = from[0];
    require(fcntl(out_, F_SETFL, O_NONBLOCK) == 0, "fcntl");
}

child::~child()
{
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        (void)wait();
    }
    close(in_);
    close(out_);
}

bool child::read_available()
{
    std::array<char, 4096> part{};
    ssize_t n = 0;
    while ((n = read(out_, part.data(), part.size())) > 0) {
        buffer_.append(part.data(), static_cast<std::size_t>(n));
        for (auto end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n')) {
            lines_.push_back(buffer_.substr(0, end));
            buffer_.erase(0, end + 1);
        }
    }
    return n < 0;
}

void child::signal(int number) const
{
    require(kill(pid_, number) == 0, "kill");
}

void child::open_gate()
{
    require(write(in_, "\n", 1) == 1, "write to broker_consumer");
}

int child::wait()
{
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0)
        require(errno == EINTR, "waitpid");
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<std::size_t> child::numbers(std::string_view what) const
{
    std::vector<std::size_t> found;
    for (const std::string_view line : lines_) {
        if (line.starts_with(what) && line.size() > what.size() && line[what.size()] == ' ')
            found.push_back(number_in(line.substr(what.size() + 1)));
    }
    return found;
}

bool child::said(std::string_view text) const
{
    for (const std::string_view line : lines_) {
        if (line.find(text) != std::string_view::npos)
            return true;
    }
    return false;
}

std::string child::text() const
{
    std::string all;
    for (const auto& line : lines_) {
        if (!line.starts_with("begin ") && !line.starts_with("done "))
            all += line + "\n";
    }
    return all;
}

} // namespace acquit::tests
