#include <acquit/runtime/error.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/resolve.h>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace acquit::runtime {

namespace {

constexpr int most_lookups = 32;
std::atomic<int> lookups{0};

std::string without_brackets(std::string_view host)
{
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    return std::string(host);
}

int look_up(const std::string& host, std::uint16_t port, int flags,
            std::vector<socket_address>& found) noexcept
{
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* first = nullptr;
    const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
    if (code != 0)
        return code;
    for (const auto* each = first; each != nullptr; each = each->ai_next) {
        socket_address& address = found.emplace_back();
        std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
        address.size = each->ai_addrlen;
    }
    ::freeaddrinfo(first);
    return 0;
}

/// Shared by the waiting coroutine and the thread, either of which may end first.
struct lookup final : post_node {
    lookup(std::string name, std::uint16_t number)
        : post_node(&lookup::came_back), host(std::move(name)), port(number)
    {
    }
    static void came_back(post_node& node) noexcept;
    static void work(std::shared_ptr<lookup> self) noexcept;

    const std::string host;
    const std::uint16_t port;
    int code = 0;
    int system_code = 0;
    std::vector<socket_address> found;
    std::function<void()> answer; // loop thread only

    std::mutex mutex; // guards what follows
    loop* asker = nullptr;
    std::shared_ptr<lookup> posted; // itself, while the answer is on its way
};

void lookup::work(std::shared_ptr<lookup> self) noexcept
{
    self->code = look_up(self->host, self->port, AI_ADDRCONFIG, self->found);
    self->system_code = errno;
    --lookups;
    const std::lock_guard lock(self->mutex);
    if (self->asker == nullptr)
        return;
    self->posted = self;
    self->asker->post(*self);
}

class [[nodiscard]] lookup_op final : public waiter {
public:
    explicit lookup_op(std::shared_ptr<lookup> asked) noexcept : lookup_(std::move(asked)) {}
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle)
    {
        if (!suspend(handle))
            return false;
        lookup_->asker = &loop::current();
        lookup_->answer = [this] { loop::current().make_ready(*this); };
        loop::current().expect_post();
        ++lookups;
        try {
            std::thread(&lookup::work, lookup_).detach();
        } catch (const std::system_error&) {
            --lookups;
            loop::current().expected_post_came();
            forget();
            no_thread_ = true;
            return false;
        }
        return true;
    }
    void await_resume() const
    {
        throw_if_cancelled();
        if (no_thread_)
            throw io_error(EAGAIN, "no thread to resolve " + lookup_->host);
    }

private:
    void on_cancel() noexcept override
    {
        {
            const std::lock_guard lock(lookup_->mutex);
            if (lookup_->posted != nullptr)
                return; // the answer comes in the next turn
            lookup_->asker = nullptr;
        }
        loop::current().expected_post_came();
        mark_cancelled();
        loop::current().make_ready(*this);
    }
    std::shared_ptr<lookup> lookup_;
    bool no_thread_ = false;
};

void lookup::came_back(post_node& node) noexcept
{
    auto& found = static_cast<lookup&>(node);
    std::shared_ptr<lookup> self;
    {
        const std::lock_guard lock(found.mutex);
        self = std::exchange(found.posted, nullptr);
    }
    loop::current().expected_post_came();
    self->answer();
}

} // namespace

std::string socket_address::text() const
{
    char name[INET6_ADDRSTRLEN] = {};
    switch (storage.ss_family) {
    case AF_INET: {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
        ::inet_ntop(AF_INET, &v4->sin_addr, name, sizeof name);
        return fmt::format("{}:{}", name, ntohs(v4->sin_port));
    }
    case AF_INET6: {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
        ::inet_ntop(AF_INET6, &v6->sin6_addr, name, sizeof name);
        return fmt::format("[{}]:{}", name, ntohs(v6->sin6_port));
    }
    case AF_UNIX: {
        const auto* local = reinterpret_cast<const sockaddr_un*>(&storage);
        const std::size_t length = size - offsetof(sockaddr_un, sun_path);
        if (size <= offsetof(sockaddr_un, sun_path))
            return "unix:";
        if (local->sun_path[0] == '\0')
            return "unix:@" + std::string(local->sun_path + 1, length - 1);
        return "unix:" + std::string(local->sun_path, ::strnlen(local->sun_path, length));
    }
    default:
        return fmt::format("address family {}", storage.ss_family);
    }
}

socket_address numeric_address(std::string_view address, std::uint16_t port)
{
    std::vector<socket_address> found;
    if (look_up(without_brackets(address), port, AI_NUMERICHOST, found) != 0)
        throw io_error(EINVAL, fmt::format("\"{}\" is not a numeric address", address));
    return found.front();
}

task<std::vector<socket_address>> resolve(std::string host, std::uint16_t port)
{
    host = without_brackets(host);
    std::vector<socket_address> found;
    if (look_up(host, port, AI_NUMERICHOST, found) == 0)
        co_return found;
    if (lookups.load() >= most_lookups)
        throw io_error(EAGAIN, fmt::format("{} name look-ups are under way; resolving {}",
                                           most_lookups, host));
    const auto asked = std::make_shared<lookup>(host, port);
    co_await lookup_op(asked);
    if (asked->code != 0) {
        const int code = asked->code == EAI_SYSTEM  ? asked->system_code
                         : asked->code == EAI_AGAIN ? EAGAIN
                                                    : EHOSTUNREACH;
        throw io_error(
            code, fmt::format("cannot resolve \"{}\" ({})", host, ::gai_strerror(asked->code)));
    }
    co_return std::move(asked->found);
}

} // namespace acquit::runtime
