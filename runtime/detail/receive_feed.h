#pragma once

#include <acquit/runtime/loop.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/ring.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace acquit::runtime {

/// What a receive buffer has given to the kernel, and what has come into it. The kernel fills the
/// pieces in order, so that counting bytes tells where each lies; the piece that a completion names
/// is only compared with that.
class receive_buffer::feed final : public stream_feed {
public:
    struct piece {
        segment_ref segment;
        std::byte* next = nullptr; // what comes next goes here...
        std::byte* end = nullptr;  // ...up to here
        std::uint16_t id = 0;
    };

    feed(std::unique_ptr<provided_memory> memory, stream& from) noexcept
        : memory_(std::move(memory)), from_(from)
    {
    }
    ~feed() { from_.stop_feed(*this); }

    void add(segment_ref segment, std::byte* begin) noexcept;
    /// Where what is read next lies; there is one.
    [[nodiscard]] piece& front() noexcept { return pieces_[0]; }
    [[nodiscard]] std::size_t pieces() const noexcept { return count_; }
    void pop_front() noexcept;
    /// Bytes that the kernel can still receive without being given more.
    [[nodiscard]] std::size_t room() const noexcept;

    void start() noexcept
    {
        if (!started_ && !over_) {
            started_ = true;
            from_.start_feed(*this);
        }
    }

    std::size_t arrived = 0; // and not read yet
    receive_op* waiting = nullptr;
    /// The stream's last word, once everything that came before was read: 0 or -errno.
    [[nodiscard]] bool over() const noexcept { return over_; }
    [[nodiscard]] std::int32_t last_word() const noexcept { return last_word_; }

private:
    void fed(std::int32_t result, std::uint16_t piece, bool goes_on) noexcept override;
    [[nodiscard]] const provided_memory& memory() const noexcept override { return *memory_; }
    [[nodiscard]] bool expected(std::size_t bytes, std::uint16_t id) const noexcept;

    std::unique_ptr<provided_memory> memory_;
    stream& from_;
    std::array<piece, provided_memory::pieces_max> pieces_;
    std::size_t count_ = 0;
    std::uint16_t next_id_ = 0;
    std::int32_t last_word_ = 0;
    bool started_ = false;
    bool over_ = false;
};

} // namespace acquit::runtime
