#pragma once

#include "client.h"
#include "floor.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace acquit::firehose {

/// Listens and serves, on one thread, until it is told to stop, by `stop_fd` or by as many
/// connections as the settings say.
class server {
public:
    static constexpr std::size_t clients_max = 4096;

    /// Throws std::system_error with a text that says what could not be done.
    explicit server(const settings& how);
    ~server();
    server(const server&) = delete;
    server& operator=(const server&) = delete;

    /// The address it listens on, HOST:PORT with the port that was chosen.
    [[nodiscard]] const std::string& address() const noexcept { return address_; }
    [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
    /// Becoming readable, it ends `run`: a signalfd or an eventfd. Not owned.
    void stop_on(int fd);
    void run();
    [[nodiscard]] const statistics& seen() const noexcept { return shared_.seen; }

private:
    void listen_tcp();
    void listen_unix();
    void watch(int fd, std::uint32_t events, void* what);
    void accept_from(int fd);
    /// False: told to stop.
    bool wait();
    [[nodiscard]] std::uint64_t next_deadline_ns() const noexcept;
    void work();
    void tick();
    void bury();
    void note_cpu();
    [[nodiscard]] bool delivering() const noexcept;

    floor shared_;
    std::string address_;
    std::uint16_t port_ = 0;
    int epoll_ = -1;
    std::vector<int> listeners_;
    std::vector<std::unique_ptr<client>> clients_;
    std::uint64_t gone_ = 0;
    std::uint64_t next_tick_ns_ = 0;
    std::uint64_t cpu_noted_at_ = 0; // deliveries and settlements then
};

} // namespace acquit::firehose
