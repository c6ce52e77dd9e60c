#pragma once

#include "settings.h"

#include <acquit/amqp/wire/detail/bytes.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace acquit::firehose {

/// Deliveries for one consumer, encoded beforehand: deliver, header and body frames, one after the
/// other, in a block that goes around. Taking some of them patches their tags in place; the bytes
/// are sent from where they stand.
///
///     auto some = belt.take(first_tag, 100, false);      // some.count of them, at most 100
///     send(some.bytes);                                  // all of it, before the next take
///
/// Not more than the cost of a store per delivery; that is what makes the server faster than any
/// client.
class belt {
public:
    struct description {
        std::uint16_t channel = 0;
        std::string_view consumer_tag{};
        std::string_view routing_key{};
        std::uint32_t frame_size_max = 131072; ///< as tuned; longer bodies go in several frames
        std::span<const std::size_t> sizes{};  ///< of bodies; at least one
        header_kind headers = header_kind::none;
        /// Of the block, about; it holds the sizes once through in any case. A third of the
        /// second-level cache: the kernel copies from there.
        std::size_t block_size = 128 * 1024;
        std::uint64_t deliveries_max = 4096; ///< in the block
    };

    explicit belt(const description& what);

    struct portion {
        std::span<const std::byte> bytes;
        std::uint64_t count = 0;
    };

    /// The next deliveries, up to `most`, fewer where the block ends. The caller sees to it that no
    /// more than `size()` are taken whose bytes were not sent yet.
    portion take(std::uint64_t first_tag, std::uint64_t most, bool redelivered) noexcept;
    /// Deliveries in the block: what may be taken before the bytes of the first are gone.
    [[nodiscard]] std::uint64_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return block_.size(); }
    /// Writes the time into the first 8 bytes of the body that the next `take` begins with, where it
    /// has so many: nanoseconds of the monotonic clock, in network byte order.
    void stamp(std::uint64_t now_ns) noexcept;

private:
    struct entry {
        std::uint32_t tag;  // where the delivery tag stands; the octet of `redelivered` follows it
        std::uint32_t end;  // of the delivery
        std::uint32_t body; // its first byte; 0: fewer than 8 bytes
    };

    void append(const description& what, std::size_t body_size,
                std::span<const std::byte> properties);

    std::vector<std::byte> block_;
    std::vector<entry> entries_;
    std::size_t at_ = 0;
};

/// The property part of a content header, flags included.
[[nodiscard]] std::vector<std::byte> encode_properties(header_kind kind);

} // namespace acquit::firehose
