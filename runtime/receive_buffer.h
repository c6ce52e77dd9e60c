#pragma once

#include <acquit/runtime/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace acquit::runtime {

class loop;
class segment;
class segment_pool;
class receive_buffer;

/// A counted hold on a segment: what it refers to stays where it is until the last hold is gone.
/// Copying is an increment. Not atomic: loop thread only.
class segment_ref {
public:
    segment_ref() noexcept = default;
    explicit segment_ref(segment* held) noexcept;
    segment_ref(const segment_ref& other) noexcept : segment_ref(other.segment_) {}
    segment_ref(segment_ref&& other) noexcept : segment_(std::exchange(other.segment_, nullptr)) {}
    segment_ref& operator=(segment_ref other) noexcept
    {
        std::swap(segment_, other.segment_);
        return *this;
    }
    ~segment_ref();
    void reset() noexcept { *this = segment_ref(); }
    [[nodiscard]] explicit operator bool() const noexcept { return segment_ != nullptr; }
    [[nodiscard]] segment* get() const noexcept { return segment_; }
    [[nodiscard]] segment* operator->() const noexcept { return segment_; }

private:
    segment* segment_ = nullptr;
};

/// A piece of receive memory.
///
///     | header | headroom ........ | data ................................ |
///                       [ copied head of a frame ][ bytes received after it ...
///
/// Where a frame straddles the end of a segment, its first part is copied into the headroom of the
/// next, right before the bytes that follow: so every frame is contiguous.
class alignas(64) segment {
public:
    [[nodiscard]] std::byte* begin() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool unique() const noexcept { return holds_ == 1; }

private:
    friend class segment_ref;
    friend class segment_pool;
    friend class receive_buffer;
    segment(segment_pool& pool, std::size_t size) noexcept : pool_(pool), size_(size) {}
    void last_hold_gone() noexcept;

    segment_pool& pool_;
    std::size_t size_;
    std::size_t holds_ = 0;
    receive_buffer* filled_by_ = nullptr; // while that lives
    segment* next_ = nullptr;             // of that buffer, or of the pool's cache
    segment* previous_ = nullptr;
};

inline segment_ref::segment_ref(segment* held) noexcept : segment_(held)
{
    if (segment_ != nullptr)
        ++segment_->holds_;
}

inline segment_ref::~segment_ref()
{
    if (segment_ != nullptr && --segment_->holds_ == 0)
        segment_->last_hold_gone();
}

/// The segments of a loop (`loop::segments`): the one used last is given out first, at most 4 MiB
/// are cached. May be outlived by segments that somebody still holds, also after the loop's end.
class segment_pool {
public:
    static constexpr std::size_t cached_bytes = 4 * 1024 * 1024;
    segment_pool() noexcept = default;
    segment_pool(const segment_pool&) = delete;
    segment_pool& operator=(const segment_pool&) = delete;

    /// `size` usable bytes, contents undefined. Throws std::bad_alloc.
    [[nodiscard]] segment_ref take(std::size_t size);
    /// Segments that somebody holds.
    [[nodiscard]] std::size_t held() const noexcept { return held_; }
    /// Segments taken from the heap so far. Stands still in a steady state.
    [[nodiscard]] std::uint64_t allocated_total() const noexcept { return allocated_; }
    /// The owner's end: frees the cache, and itself with the last segment.
    void close() noexcept;

private:
    friend class segment;
    ~segment_pool() = default;
    void give_back(segment* returned) noexcept;
    static void free(segment* freed) noexcept;

    segment* cache_ = nullptr;
    std::size_t cached_ = 0; // bytes
    std::size_t held_ = 0;
    std::uint64_t allocated_ = 0;
    bool closed_ = false;
};

struct receive_buffer_options {
    /// Data part of a segment, about the size of a core's second-level cache.
    std::size_t segment_size = 256 * 1024;
    /// Room for the longest frame: frame_max + 8 (AMQP 0-9-1 4.2.3: header 7, end 1).
    std::size_t headroom = 128 * 1024 + 8;
    /// When less than this is free at a segment's end, receiving goes on in another.
    std::size_t smallest_receive = 8 * 1024;
};

/// Bytes of one stream as they come in, as one contiguous unread span, without copying but for the
/// head of a frame at a segment's end.
///
///     while (co_await buffer.receive(stream) > 0)
///         while (auto frame = parse(buffer.unread())) {
///             keep(buffer.current());   // optional: the frame's bytes stay where they are
///             buffer.consume(frame.size());
///         }
///
/// Spans into it hold until the next `receive`, or as long as a copy of `current()`. No allocation
/// in steady state; memory grows only with segments that others hold (`held_segments`), which the
/// owner bounds by copying out instead of holding.
///
/// How the kernel fills a segment: from a socket, where the kernel can (6.12), by one receive that
/// goes on by itself, into segments that are provided in advance (best latency); else by one receive
/// after the other into the free part. One stream per buffer, until `clear`.
class receive_buffer {
public:
    explicit receive_buffer(loop& owner, const receive_buffer_options& options = {});
    ~receive_buffer();
    receive_buffer(const receive_buffer&) = delete;
    receive_buffer& operator=(const receive_buffer&) = delete;

    class receive_op;
    friend class receive_op;
    /// Awaitable: bytes appended, 0 at the end of the stream; throws as `stream::read_some`. What
    /// is unread stays unread, at a possibly different address.
    receive_op receive(stream& from);

    [[nodiscard]] std::span<const std::byte> unread() const noexcept { return {begin_, end_}; }
    void consume(std::size_t bytes) noexcept
    {
        ACQUIT_DEBUG_ASSERT(bytes <= unread().size(), "consume {} of {} bytes", bytes,
                            unread().size());
        begin_ += bytes;
    }
    /// The next frame needs `bytes` contiguous ones, counted from the first unread; beyond the
    /// headroom that takes a bigger segment. Holds until so many were there at once.
    void require(std::size_t bytes) noexcept { required_ = bytes; }
    /// The segment that `unread` lies in.
    [[nodiscard]] const segment_ref& current() const noexcept { return current_; }
    /// Segments that others still hold, without the current one.
    [[nodiscard]] std::size_t held_segments() const noexcept { return segments_ - own_; }
    /// Forgets what is unread and what was required, and the stream: a new connection begins.
    void clear() noexcept;
    /// Segments are provided to the kernel in advance.
    [[nodiscard]] bool is_fed() const noexcept { return feed_ != nullptr; }

private:
    friend class segment;
    class feed;

    void choose_policy(stream& from);
    void supply();
    [[nodiscard]] bool fed_ready() noexcept;
    [[nodiscard]] std::int32_t take_fed();
    void go_on_elsewhere();
    void count_own() noexcept;
    void make_room();
    void take_segment(std::size_t headroom, std::size_t data);
    [[nodiscard]] std::span<std::byte> free_part() noexcept;
    void adopt(segment& taken) noexcept;
    void disown(segment& gone) noexcept;

    loop& loop_;
    receive_buffer_options options_;
    segment_ref current_;
    std::byte* begin_ = nullptr; // unread: [begin_, end_)
    std::byte* end_ = nullptr;
    std::size_t required_ = 0;
    std::size_t segments_ = 0; // that this filled and somebody holds
    std::size_t own_ = 1;      // of them: the current one, and those that are provided
    segment* filled_ = nullptr;
    std::unique_ptr<feed> feed_;
    bool policy_chosen_ = false;
    bool aside_ = false; // fed, and what is unread is copied to a segment that no piece is
};

class [[nodiscard]] receive_buffer::receive_op final : public read_op {
public:
    receive_op(receive_buffer& buffer, stream& from) noexcept
        : read_op(from, buffer.free_part()), buffer_(buffer)
    {
    }
    [[nodiscard]] bool await_ready() const noexcept
    {
        return buffer_.is_fed() && buffer_.fed_ready();
    }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!buffer_.is_fed())
            return read_op::await_suspend(handle);
        if (!suspend(handle))
            return false;
        await_feed();
        return true;
    }
    std::size_t await_resume()
    {
        if (!buffer_.is_fed()) {
            const std::size_t bytes = checked_result();
            buffer_.end_ += bytes;
            return bytes;
        }
        throw_if_cancelled();
        set_result(buffer_.take_fed());
        return checked_result();
    }

private:
    void await_feed() noexcept;
    void on_cancel() noexcept override;
    receive_buffer& buffer_;
};

inline receive_buffer::receive_op receive_buffer::receive(stream& from)
{
    if (!policy_chosen_)
        choose_policy(from);
    if (is_fed())
        supply();
    else
        make_room();
    return receive_op(*this, from);
}

} // namespace acquit::runtime
