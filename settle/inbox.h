#pragma once

#include <acquit/amqp/channel.h>
#include <acquit/runtime/clock.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/timer.h>
#include <acquit/runtime/waiter.h>
#include <acquit/settle/message.h>
#include <acquit/settle/settler.h>

#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <span>
#include <string>
#include <vector>

namespace acquit::settle {

/// A delivery that outlives the call that brought it, with a hold on the bytes it points to.
class held_delivery final : public delivery {
public:
    held_delivery() noexcept = default;

private:
    friend class inbox;
    void trim_own() noexcept
    {
        trim(own_);
        trim(own_body_);
    }
    runtime::segment_ref segment_;    // where its views point...
    std::vector<std::byte> own_;      // ...or here, for the head
    std::vector<std::byte> own_body_; // and here, for an assembled body
    held_delivery* next_ = nullptr;
    runtime::time_point arrived_{}; // where they are taken in batches
    bool in_hand_ = false;
};

/// A delivery of a consumer that is handled on the spot.
class passing_delivery final : public delivery {
public:
    passing_delivery() noexcept = default;
};

/// Where the deliveries of one consumer wait for whoever handles them. A taker that waits is
/// resumed directly by the connection's reader, message by message.
///
/// Memory: with acknowledgements, at most `prefetch` deliveries are held. Each holds its receive
/// segment; when a connection has more than `held_segments_max` of them held, deliveries are copied
/// out instead, so that slow handlers cannot make it keep 256 KiB for a message of 16 bytes.
/// Without acknowledgements the broker knows no limit: reading stops while `backlog_max` deliveries
/// or `backlog_bytes_max` bytes wait.
///
/// In batches, what waits for the rest of its batch is backlog like any other, in nobody's hands: a
/// drain can give it back. A batch is closed by its size, or when its first delivery has waited long
/// enough, whether anybody asks for it then or not.
class inbox final : public amqp::consumer_sink {
public:
    static constexpr std::size_t held_segments_max = 16;
    static constexpr std::size_t backlog_max_no_ack = 4096;
    static constexpr std::size_t backlog_bytes_max_no_ack = std::size_t{16} << 20;

    /// Called for each delivery before anything else is done with it; true: it is over.
    using direct_handler = bool (*)(void* object, passing_delivery& d) noexcept;
    using notice = void (*)(void* object, std::exception_ptr why) noexcept;

    inbox(settler& settlements, bool no_ack) noexcept : settler_(settlements), no_ack_(no_ack) {}
    ~inbox();
    inbox(const inbox&) = delete;
    inbox& operator=(const inbox&) = delete;

    void attach(amqp::channel& c) noexcept
    {
        channel_ = &c;
        no_more_ = false;
    }
    /// The channel is gone: what nobody took is dropped (the broker delivers it again), but for a
    /// consumer without acknowledgements, whose backlog stays to be taken. Returns how many were dropped.
    std::size_t detach() noexcept;

    void handle_directly(direct_handler handler, void* object) noexcept
    {
        direct_ = handler;
        object_ = object;
    }
    /// `cancelled` with a null reason: the broker ended the consumer; else the channel is lost.
    void on_end(notice handler, void* object) noexcept
    {
        notice_ = handler;
        notice_object_ = object;
    }

    /// The header of copies that counts attempts; the text must outlive the inbox. Before the first
    /// delivery, as `defer_to`.
    void count_by(const std::string& counter_header) noexcept { counter_header_ = &counter_header; }

    class take_op;
    /// The next delivery; null once the inbox is closed and empty.
    [[nodiscard]] take_op take() noexcept;

    /// Before anything is taken: deliveries are taken `size` at a time (at least 1), or as many as
    /// there are once the oldest has waited `within`. With acknowledgements only.
    void take_in_batches(std::size_t size, runtime::duration within) noexcept;
    class take_batch_op;
    /// Fills `into`, of at least the batch's size, from its beginning; gives how many. 0 once the
    /// inbox is closed and empty.
    [[nodiscard]] take_batch_op take_batch(std::span<held_delivery*> into) noexcept;
    /// The broker sends no more on this channel: what waits is a batch, however small.
    void no_more() noexcept;

    /// Where handlers of its deliveries get their tokens from. Null: they may not defer.
    void defer_to(deferrals* tokens) noexcept { deferrals_ = tokens; }
    /// Whoever took it is done with it.
    void release(held_delivery& d) noexcept
    {
        --taken_;
        d.in_hand_ = false;
        d.segment_.reset();
        if (!d.own_.empty() || !d.own_body_.empty()) [[unlikely]]
            d.trim_own();
        d.next_ = std::exchange(free_, &d);
    }
    /// Gives the broker its answer to a delivery of this inbox, once.
    settled settle(const delivery& d, disposition how) noexcept
    {
        return settler_.settle(d.epoch_, d.tag_, how);
    }
    /// Wakes every taker that has nothing to take.
    void close() noexcept;

    /// The oldest deliveries that nobody took, as far as their tags follow each other, leave the
    /// backlog as the range of tags [first, last], to be given back. {1, 0} when there are none: call
    /// it until then. What stands between two runs was acted on when it arrived, and may be open.
    struct tag_range {
        std::uint64_t first = 1;
        std::uint64_t last = 0;
        std::uint64_t count = 0;
    };
    [[nodiscard]] tag_range withdraw_run() noexcept;

    [[nodiscard]] std::size_t backlog() const noexcept { return backlog_size_; }
    [[nodiscard]] std::size_t in_hand() const noexcept { return taken_; }
    /// Calls `f(const delivery&)` for each delivery that somebody has taken and not released.
    template <class F>
    void for_each_in_hand(F f) const
    {
        for (const held_delivery& d : storage_) {
            if (d.in_hand_)
                f(static_cast<const delivery&>(d));
        }
    }
    [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
    [[nodiscard]] std::uint64_t redelivered() const noexcept { return redelivered_; }

private:
    friend class take_op;
    friend class take_batch_op;

    void on_delivery(const amqp::content_event& content,
                     const runtime::segment_ref& segment) noexcept override;
    void on_server_cancel() noexcept override;
    void on_channel_lost(std::exception_ptr why) noexcept override;

    held_delivery& hold(const amqp::content_event& content, const runtime::segment_ref& segment);
    void push(held_delivery& d) noexcept;
    held_delivery* pop() noexcept { return head_ == nullptr ? nullptr : pop_front(); }
    held_delivery* pop_front() noexcept;
    void own_what_passes(held_delivery& d, const amqp::content_event& content, bool crowded);
    void keep_for_a_taker(held_delivery& d) noexcept;
    [[gnu::cold]] void out_of_order(std::uint64_t tag) noexcept;
    void regulate() noexcept;

    [[nodiscard]] bool batch_is_due() const noexcept;
    std::size_t pop_batch(std::span<held_delivery*> into) noexcept;
    void hand_out_batches() noexcept;
    void arm_batch_timer() noexcept;

    settler& settler_;
    amqp::channel* channel_ = nullptr;
    std::deque<held_delivery> storage_;
    held_delivery* free_ = nullptr;
    held_delivery* head_ = nullptr; // backlog, oldest first
    held_delivery* tail_ = nullptr;
    std::size_t backlog_size_ = 0;
    std::size_t backlog_bytes_ = 0;
    std::size_t taken_ = 0;
    runtime::waiter_list takers_;
    direct_handler direct_ = nullptr;
    void* object_ = nullptr;
    const std::string* counter_header_ = nullptr;
    notice notice_ = nullptr;
    void* notice_object_ = nullptr;
    deferrals* deferrals_ = nullptr;
    std::size_t batch_size_ = 0; // 0: one by one
    runtime::duration batch_within_{};
    runtime::waiter_list batch_takers_;
    runtime::callback_timer batch_timer_{
        [](void* self) noexcept { static_cast<inbox*>(self)->hand_out_batches(); }, this};
    std::uint64_t received_ = 0;
    std::uint64_t redelivered_ = 0;
    bool no_ack_;
    bool closed_ = false;
    bool no_more_ = false;
    bool paused_ = false;
};

class [[nodiscard]] inbox::take_op final : public runtime::queued_waiter {
public:
    explicit take_op(inbox& from) noexcept : inbox_(from) {}
    [[nodiscard]] bool await_ready() noexcept
    {
        taken_ = inbox_.pop();
        return taken_ != nullptr || inbox_.closed_;
    }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        inbox_.takers_.push_front(*this); // the taker that ran last is warm
        return true;
    }
    held_delivery* await_resume()
    {
        if (taken_ == nullptr)
            throw_if_cancelled();
        return taken_;
    }

private:
    friend class inbox;
    inbox& inbox_;
    held_delivery* taken_ = nullptr;
};

inline inbox::take_op inbox::take() noexcept
{
    return take_op(*this);
}

class [[nodiscard]] inbox::take_batch_op final : public runtime::queued_waiter {
public:
    take_batch_op(inbox& from, std::span<held_delivery*> into) noexcept : inbox_(from), into_(into)
    {
    }
    [[nodiscard]] bool await_ready() noexcept
    {
        if (inbox_.batch_is_due())
            count_ = inbox_.pop_batch(into_);
        return count_ != 0 || inbox_.closed_;
    }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        inbox_.batch_takers_.push_front(*this); // the taker that ran last is warm
        inbox_.arm_batch_timer();
        return true;
    }
    std::size_t await_resume()
    {
        if (count_ == 0)
            throw_if_cancelled();
        return count_;
    }

private:
    friend class inbox;
    inbox& inbox_;
    std::span<held_delivery*> into_;
    std::size_t count_ = 0;
};

inline inbox::take_batch_op inbox::take_batch(std::span<held_delivery*> into) noexcept
{
    return {*this, into};
}

} // namespace acquit::settle
