#pragma once

#include <acquit/runtime/clock.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace acquit::runtime {

struct memory_stream_options {
    /// Bytes that one direction holds before its writer waits; at least 1.
    std::size_t capacity = 64 * 1024;
    /// Where not 0: each read gives a random part of what is there, by this seed.
    std::uint64_t chunk_seed = 0;
    /// How long bytes are on their way.
    duration delay{0};
};

/// One end of an in-memory connection, for simulations: works with virtual time and without a ring.
/// What this end writes the other reads. The injectors concern what this end sends.
class memory_stream : public stream {
public:
    /// The connection breaks when so many more bytes were delivered to the reader: it then gets
    /// ECONNRESET, and so does the writer.
    virtual void cut_after(std::size_t bytes) noexcept = 0;
    /// Bytes written from now on stay on their way until `thaw`; the other end sees silence.
    virtual void freeze() noexcept = 0;
    virtual void thaw() noexcept = 0;
    /// Both directions fail with ECONNRESET at once.
    virtual void reset() noexcept = 0;
    /// Bytes this end has written in all, and bytes the other end has read of them.
    [[nodiscard]] virtual std::uint64_t bytes_written() const noexcept = 0;
    [[nodiscard]] virtual std::uint64_t bytes_delivered() const noexcept = 0;
};

/// Two connected ends. Either may go first; bytes already written stay readable after the writer
/// closed.
[[nodiscard]] std::pair<std::unique_ptr<memory_stream>, std::unique_ptr<memory_stream>>
memory_stream_pair(loop& owner, const memory_stream_options& options = {});

} // namespace acquit::runtime
