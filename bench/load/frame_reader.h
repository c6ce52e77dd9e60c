#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace acquit::bench {

/// Finds the frames in a stream of bytes that somebody else reads: whatever the pieces are cut like,
/// method and header frames come whole, bodies are counted and not kept. It keeps at most one frame
/// of `kept_max` bytes, only where that is cut.
class frame_reader {
public:
    /// Gets what was found, in order.
    class sink {
    public:
        /// `payload` lives until it returns.
        virtual void on_method(std::uint16_t channel, std::span<const std::byte> payload) = 0;
        virtual void on_header(std::uint16_t channel, std::span<const std::byte> payload) = 0;
        /// So many bytes of a body, of a frame or a part of one.
        virtual void on_body(std::uint16_t channel, std::size_t size) = 0;

    protected:
        ~sink() = default;
    };

    /// Methods and headers above that are no AMQP that RabbitMQ speaks.
    static constexpr std::size_t kept_max = std::size_t{1} << 20;

    /// Null, or what is wrong: then nothing can be read any more.
    [[nodiscard]] const char* read(std::span<const std::byte> bytes, sink& to);

private:
    enum class part : std::uint8_t { head, kept, body };
    const char* begin_frame();
    const char* finish_frame(std::span<const std::byte> payload_and_end, sink& to);

    part part_ = part::head;
    std::uint8_t type_ = 0;
    std::uint16_t channel_ = 0;
    std::size_t left_ = 0;        // body: bytes to come, the end octet included
    std::size_t wanted_ = 0;      // kept: payload and end octet
    std::vector<std::byte> kept_; // of a head or a frame that is cut
};

} // namespace acquit::bench
