#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

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
/// Large bodies need not be copied: whoever shares the memory (`share`) has it kept until it was
/// sent, and the send gathers (`begin_gathered_send`).
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

    /// These bytes come next, from where they lie: `owner` is kept until they were sent, and they may
    /// not change until then. Not empty. Throws std::bad_alloc.
    void share(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

    /// Bytes in both halves, shared ones included: not yet handed over, or in flight.
    [[nodiscard]] std::size_t pending() const noexcept
    {
        return open_.size + open_.shared_size + in_flight_.size + in_flight_.shared_size;
    }
    /// Bytes that the next send would return.
    [[nodiscard]] std::size_t open_size() const noexcept { return open_.size + open_.shared_size; }
    [[nodiscard]] bool open_empty() const noexcept { return open_size() == 0; }
    [[nodiscard]] bool sending() const noexcept { return sending_; }
    /// The open half has shared bytes: it takes a gathered send.
    [[nodiscard]] bool open_has_shared() const noexcept { return !open_.shared.empty(); }

    /// Swaps the halves and returns everything that was in the open one; stays valid and in place
    /// until `end_send`. A send must not be in flight, and nothing may be shared.
    [[nodiscard]] std::span<const std::byte> begin_send() noexcept;
    /// The same in parts, to be sent in this order. Throws std::bad_alloc, and nothing has begun then.
    [[nodiscard]] std::span<const std::span<const std::byte>> begin_gathered_send();

    /// The bytes of `begin_send` are gone (or the connection is).
    void end_send() noexcept;

    /// Forgets the open half. The half in flight stays: the kernel may still read it.
    void clear() noexcept;

private:
    struct shared_part {
        std::size_t after; // so many bytes of `data`
        std::span<const std::byte> bytes;
        std::shared_ptr<const void> owner;
    };
    struct half {
        std::unique_ptr<std::byte[]> data;
        std::size_t capacity = 0;
        std::size_t size = 0;
        std::vector<shared_part> shared;
        std::size_t shared_size = 0; // bytes
        void forget() noexcept
        {
            size = shared_size = 0;
            shared.clear();
        }
    };

    void grow(std::size_t n);

    half open_;
    half in_flight_;
    std::vector<std::span<const std::byte>> parts_; // of a gathered send
    std::size_t kept_size_max_;
    bool sending_ = false;
};

} // namespace acquit::amqp
