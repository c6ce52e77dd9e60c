#pragma once

#include <acquit/runtime/task.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace acquit::runtime {

/// An address to connect to.
struct socket_address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    [[nodiscard]] const sockaddr* get() const noexcept
    {
        return reinterpret_cast<const sockaddr*>(&storage);
    }
    /// `127.0.0.1:5672`, `[::1]:5672`, `unix:/run/broker.sock`.
    [[nodiscard]] std::string text() const;
};

/// The addresses of a host, in the order in which they should be tried (RFC 6724, by getaddrinfo).
/// Numeric ones are answered at once, also in brackets; names by a thread of their own, since the
/// system's resolver blocks. Cancelling leaves that thread to itself: it ends when the resolver
/// does and holds up neither the loop nor the program's end. At most 32 such look-ups at once, more
/// fail with EAGAIN. Throws io_error with the host's name and the resolver's words.
task<std::vector<socket_address>> resolve(std::string host, std::uint16_t port);

/// A numeric IPv4 or IPv6 address, with or without brackets. Throws io_error (EINVAL) for anything else.
[[nodiscard]] socket_address numeric_address(std::string_view address, std::uint16_t port);

} // namespace acquit::runtime
