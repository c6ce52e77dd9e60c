#include <acquit/runtime/assert.h>
#include <acquit/runtime/memory_stream.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/timer.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

namespace acquit::runtime {

namespace {

/// One direction: bytes of its writer on their way to its reader.
class direction {
public:
    direction(loop& owner, const memory_stream_options& options, std::uint64_t seed)
        : options_(options), loop_(owner), random_(seed), arrival_(&direction::arrived, this)
    {
        ACQUIT_ASSERT(options.capacity > 0, "a memory stream holds at least one byte");
    }

    void read(read_op& operation) noexcept
    {
        ACQUIT_ASSERT(reader_ == nullptr, "one read at a time");
        ACQUIT_ASSERT(!operation.into().empty(), "a read needs room for a byte");
        reader_ = &operation;
        pump();
    }
    void write(write_op& operation) noexcept
    {
        ACQUIT_ASSERT(writer_ == nullptr, "one write at a time");
        writer_ = &operation;
        pump();
    }
    void end_read(read_op& operation, int code) noexcept
    {
        if (reader_ == &operation)
            std::exchange(reader_, nullptr)->finish(-code);
    }
    void end_write(write_op& operation, int code) noexcept
    {
        if (writer_ == &operation)
            std::exchange(writer_, nullptr)->finish(-code);
    }
    [[nodiscard]] bool in_use_by_reader() const noexcept { return reader_ != nullptr; }
    [[nodiscard]] bool in_use_by_writer() const noexcept { return writer_ != nullptr; }

    void close_writer() noexcept
    {
        write_closed_ = true;
        if (writer_ != nullptr)
            end_write(*writer_, ECONNABORTED);
        pump();
    }
    void close_reader() noexcept
    {
        read_closed_ = true;
        if (reader_ != nullptr)
            end_read(*reader_, ECONNABORTED);
        bytes_.clear();
        on_their_way_.clear();
        arrival_.cancel();
        pump();
    }
    void reset() noexcept
    {
        broken_ = true;
        arrival_.cancel();
        pump();
    }
    void set_frozen(bool frozen) noexcept
    {
        frozen_ = frozen;
        pump();
    }
    void set_cut(std::size_t bytes, direction& back) noexcept
    {
        cut_left_ = bytes;
        back_ = &back;
        pump();
    }
    [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
    [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }

private:
    static void arrived(void* self) noexcept { static_cast<direction*>(self)->pump(); }

    void pump() noexcept
    {
        if (cut_left_ == std::size_t{0} && !broken_) {
            broken_ = true;
            back_->reset();
        }
        while (take_from_writer() || give_to_reader()) {
        }
    }

    bool take_from_writer() noexcept
    {
        if (writer_ == nullptr)
            return false;
        if (broken_ || read_closed_ || write_closed_) {
            end_write(*writer_, broken_ ? ECONNRESET : EPIPE);
            return true;
        }
        const auto next = writer_->next_bytes();
        const std::size_t count = std::min(next.size(), options_.capacity - bytes_.size());
        if (count == 0 && !next.empty())
            return false;
        bytes_.insert(bytes_.end(), next.begin(),
                      next.begin() + static_cast<std::ptrdiff_t>(count));
        written_ += count;
        if (count > 0)
            on_their_way_.push_back({loop_.now() + options_.delay, count});
        if (!writer_->advance(count))
            std::exchange(writer_, nullptr)->finish(0);
        return true;
    }

    bool give_to_reader() noexcept
    {
        if (reader_ == nullptr)
            return false;
        if (broken_) {
            end_read(*reader_, ECONNRESET);
            return true;
        }
        if (frozen_)
            return false;
        if (bytes_.empty() && write_closed_) {
            std::exchange(reader_, nullptr)->finish(0);
            return true;
        }
        std::size_t count = std::min(available(), reader_->into().size());
        if (cut_left_)
            count = std::min(count, *cut_left_);
        if (count == 0)
            return false;
        if (options_.chunk_seed != 0)
            count = random_.between(1, count);
        std::copy_n(bytes_.begin(), count, reader_->into().begin());
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(count));
        forget_arrivals(count);
        delivered_ += count;
        std::exchange(reader_, nullptr)->finish(static_cast<std::int32_t>(count));
        if (cut_left_ && (*cut_left_ -= count) == 0) {
            broken_ = true;
            back_->reset();
        }
        return true;
    }

    std::size_t available() noexcept
    {
        std::size_t bytes = 0;
        for (const auto& part : on_their_way_) {
            if (part.arrives > loop_.now()) {
                if (bytes == 0)
                    arrival_.arm(loop_, part.arrives);
                break;
            }
            bytes += part.bytes;
        }
        return bytes;
    }
    void forget_arrivals(std::size_t bytes) noexcept
    {
        while (bytes > 0) {
            auto& first = on_their_way_.front();
            const std::size_t taken = std::min(bytes, first.bytes);
            bytes -= taken;
            if ((first.bytes -= taken) == 0)
                on_their_way_.pop_front();
        }
    }

    struct part {
        time_point arrives;
        std::size_t bytes;
    };
    const memory_stream_options options_;
    loop& loop_;
    random_source random_;
    callback_timer arrival_;
    std::deque<std::byte> bytes_;
    std::deque<part> on_their_way_; // of bytes_, in order
    read_op* reader_ = nullptr;
    write_op* writer_ = nullptr;
    bool write_closed_ = false;
    bool read_closed_ = false;
    bool broken_ = false;
    bool frozen_ = false;
    std::optional<std::size_t> cut_left_;
    direction* back_ = nullptr;
    std::uint64_t written_ = 0;
    std::uint64_t delivered_ = 0;
};

struct connection {
    connection(loop& owner, const memory_stream_options& options)
        : there(owner, options, options.chunk_seed), back(owner, options, ~options.chunk_seed)
    {
    }
    direction there;
    direction back;
};

class memory_end final : public memory_stream {
public:
    memory_end(std::shared_ptr<connection> shared, direction& out, direction& in,
               const char* peer) noexcept
        : connection_(std::move(shared)), out_(out), in_(in), peer_(peer)
    {
    }
    ~memory_end() override
    {
        ACQUIT_ASSERT(!in_.in_use_by_reader() && !out_.in_use_by_writer(),
                      "stream to {} destroyed with an operation in flight", peer_);
        close();
    }

    void shutdown_write() noexcept override
    {
        ACQUIT_ASSERT(!out_.in_use_by_writer(), "shutdown_write while a write is in flight");
        out_.close_writer();
    }
    void close() noexcept override
    {
        if (std::exchange(closed_, true))
            return;
        out_.close_writer();
        in_.close_reader();
    }
    [[nodiscard]] std::string peer() const override { return peer_; }

    void cut_after(std::size_t bytes) noexcept override { out_.set_cut(bytes, in_); }
    void freeze() noexcept override { out_.set_frozen(true); }
    void thaw() noexcept override { out_.set_frozen(false); }
    void reset() noexcept override
    {
        out_.reset();
        in_.reset();
    }
    [[nodiscard]] std::uint64_t bytes_written() const noexcept override { return out_.written(); }
    [[nodiscard]] std::uint64_t bytes_delivered() const noexcept override
    {
        return out_.delivered();
    }

private:
    void start_read(read_op& operation) noexcept override
    {
        if (closed_)
            return operation.finish(-ECONNABORTED);
        in_.read(operation);
    }
    void start_write(write_op& operation) noexcept override
    {
        if (closed_)
            return operation.finish(-ECONNABORTED);
        out_.write(operation);
    }
    void cancel_read(read_op& operation) noexcept override { in_.end_read(operation, ECANCELED); }
    void cancel_write(write_op& operation) noexcept override
    {
        out_.end_write(operation, ECANCELED);
    }

    std::shared_ptr<connection> connection_;
    direction& out_;
    direction& in_;
    const char* peer_;
    bool closed_ = false;
};

} // namespace

std::pair<std::unique_ptr<memory_stream>, std::unique_ptr<memory_stream>>
memory_stream_pair(loop& owner, const memory_stream_options& options)
{
    auto shared = std::make_shared<connection>(owner, options);
    auto first = std::make_unique<memory_end>(shared, shared->there, shared->back, "memory:second");
    auto second = std::make_unique<memory_end>(shared, shared->back, shared->there, "memory:first");
    return {std::move(first), std::move(second)};
}

} // namespace acquit::runtime
