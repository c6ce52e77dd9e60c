#pragma once

#include <cstddef>
#include <memory>
#include <span>

/// Bytes on their way out of one connection.
///
/// Two halves: frames are encoded straight into the *open* half while the other half is being
/// sent. Exactly one send is in flight at a time; what accumulates meanwhile leaves with the next.
///
///     auto room = output.reserve(21);             // contiguous, at least 21 bytes
///     wire::write_ack(room.data(), 1, tag, false);
///     output.commit(21);
///     ...
///     auto bytes = output.begin_send();           // hand these to the kernel, all of them
///     output.end_send();                          // when the last byte is gone
///
/// It is not a queue of messages and sets no bound of its own: who produces must look at
/// `pending()` and wait (publishers do; settlements never wait, they are small and bounded by the
/// prefetch window).
namespace acquit::amqp {

class output_buffer {
public:
    /// A half that grew above this many bytes is given back once it was sent, so that one large
    /// publish does not stay in memory for the life of the connection. A power of two well above
    /// what a turn of settlements needs (4096 frames of 21 bytes are 84 KiB).
    static constexpr std::size_t kept_size_max_default = 1024 * 1024;

    explicit output_buffer(std::size_t kept_size_max = kept_size_max_default) noexcept
        : kept_size_max_(kept_size_max)
    {
    }
    output_buffer(const output_buffer&) = delete;
    output_buffer& operator=(const output_buffer&) = delete;
    output_buffer(output_buffer&&) noexcept = default;
    output_buffer& operator=(output_buffer&&) noexcept = default;

    /// At least `n` contiguous bytes at the end of the open half. Earlier spans of the open half
    /// may move; the half in flight never does. Throws std::bad_alloc.
    [[nodiscard]] std::span<std::byte> reserve(std::size_t n)
    {
        if (open_.capacity - open_.size < n) [[unlikely]] {
            grow(n);
        }
        return {open_.data.get() + open_.size, open_.capacity - open_.size};
    }

    /// The first `n` bytes of the span of the last `reserve` are output now.
    void commit(std::size_t n) noexcept;

    /// Bytes in both halves: not yet handed over, or in flight.
    [[nodiscard]] std::size_t pending() const noexcept { return open_.size + in_flight_.size; }
    /// Bytes that the next `begin_send` would return.
    [[nodiscard]] std::size_t open_size() const noexcept { return open_.size; }
    [[nodiscard]] bool open_empty() const noexcept { return open_.size == 0; }
    [[nodiscard]] bool sending() const noexcept { return sending_; }

    /// Swaps the halves and returns everything that was in the open one; stays valid and in place
    /// until `end_send`. A send must not be in flight.
    [[nodiscard]] std::span<const std::byte> begin_send() noexcept;

    /// The bytes of `begin_send` are gone (or the connection is).
    void end_send() noexcept;

    /// Forgets the open half. The half in flight stays: the kernel may still read it.
    void clear() noexcept;

private:
    struct half {
        std::unique_ptr<std::byte[]> data;
        std::size_t capacity = 0;
        std::size_t size = 0;
    };

    void grow(std::size_t n);

    half open_;
    half in_flight_;
    std::size_t kept_size_max_;
    bool sending_ = false;
};

} // namespace acquit::amqp
