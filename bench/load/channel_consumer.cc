#include "consumer.h"
#include "credit.h"

#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timer.h>
#include <acquit/runtime/turn_hook.h>

#include <deque>
#include <exception>
#include <optional>

namespace acquit::bench {

namespace {

using runtime::loop;
using runtime::task;
using runtime::time_point;

/// A channel whose deliveries are answered by hand, as clients without a settlement layer do it: an
/// ack each, or a multiple one every so many. Rejects go as singles at once.
class hand final : public amqp::consumer_sink, private runtime::turn_hook {
public:
    hand(shared& of, amqp::connection& broker, std::uint64_t number)
        : turn_hook(runtime::turn_phase::settle), receiver_(of, number), channel_(broker),
          slots_(of.settings.prefetch, latency_)
    {
    }

    task<> open(const std::string& queue)
    {
        const options& o = receiver_.settings();
        co_await channel_.open();
        if (o.settles())
            co_await channel_.qos(static_cast<std::uint16_t>(o.prefetch));
        tag_ = co_await channel_.consume({.queue = queue, .no_ack = !o.settles()}, *this);
    }

    /// Works on what has arrived; as many of these as messages may be in work at the same time.
    task<> work()
    {
        while (!ended_) {
            if (waiting_.empty()) {
                co_await news_.wait();
                continue;
            }
            const job taken = waiting_.front();
            waiting_.pop_front();
            if (waiting_.size() <= waiting_max / 2)
                read_on();
            co_await runtime::sleep_until(receiver_.work_ends(loop::current().precise_now()));
            settle(taken.tag, receiver_.decide(taken.mark));
        }
    }

    /// Until the channel is lost, or the queue is gone.
    task<> wait_until_lost()
    {
        co_await lost_.wait();
        if (why_)
            std::rethrow_exception(why_);
        throw runtime::error("the broker ended the consumer: is its queue gone?");
    }

    task<> stop()
    {
        if (!channel_.is_open())
            co_return;
        read_on();
        co_await channel_.cancel(tag_);
        ended_ = true;
        news_.notify_all();
        settle_rest();
        co_await channel_.barrier();
        co_await channel_.close();
    }

    [[nodiscard]] bool full() const noexcept { return receiver_.full(); }
    void add_to(settling& sum) const
    {
        sum.settled += settled_;
        sum.frames += frames_;
        sum.latency.merge(latency_);
        sum.hold.merge(hold_);
    }

    void on_delivery(const amqp::content_event& content,
                     const runtime::segment_ref&) noexcept override
    {
        if (receiver_.settings().settles())
            (void)slots_.arrived(loop::current().now());
        receiver_.arrived(content.body);
        if (receiver_.works()) {
            waiting_.push_back({content.delivery_tag, read_stamp(content.body)});
            news_.notify_one();
            // Without acknowledgements the broker knows no limit.
            if (waiting_.size() >= waiting_max && !paused_) {
                paused_ = true;
                channel_.owner().pause_reading();
            }
        } else {
            settle(content.delivery_tag, receiver_.decide(content.body));
        }
    }
    void on_server_cancel() noexcept override { lost_.set(); }
    void on_channel_lost(std::exception_ptr why) noexcept override
    {
        why_ = why;
        lost_.set();
    }

private:
    struct job {
        std::uint64_t tag;
        std::optional<stamp> mark;
    };

    static constexpr std::size_t waiting_max = 65536; // above any prefetch

    void read_on() noexcept
    {
        if (!paused_)
            return;
        paused_ = false;
        channel_.owner().resume_reading();
    }

    void settle(std::uint64_t tag, settle::outcome decided) noexcept
    {
        const options& o = receiver_.settings();
        if (!o.settles() || !channel_.is_open())
            return;
        if (pending_++ == 0)
            oldest_decided_ = loop::current().precise_now();
        if (decided != settle::ack) {
            channel_.reject(tag, decided.kind() != settle::outcome_kind::drop);
            written(1);
        } else if (o.settle == settle_by::single) {
            channel_.ack(tag);
            written(1);
        } else {
            last_ack_ = tag;
            if (++acks_ == o.ack_every)
                settle_rest();
        }
    }

    void settle_rest() noexcept
    {
        if (acks_ == 0 || !channel_.is_open())
            return;
        channel_.ack(last_ack_, true);
        written(acks_);
        acks_ = 0;
    }

    void written(std::uint64_t messages) noexcept
    {
        ++frames_;
        settled_ += messages;
        leaving_ += messages;
        if (!queued())
            loop::current().at_turn_end(*this);
    }

    // Everything that was written in this turn is handed over now, in one send.
    void at_turn_end() noexcept override
    {
        const auto now = loop::current().precise_now();
        slots_.settled(leaving_, now);
        hold_.record(now - oldest_decided_);
        pending_ -= leaving_;
        leaving_ = 0;
        // What is left was decided in this turn or before; its beginning is not known better.
        if (pending_ != 0)
            oldest_decided_ = now;
    }

    receiver receiver_;
    amqp::channel channel_;
    histogram latency_;
    histogram hold_;
    credit slots_;
    std::string tag_;
    std::deque<job> waiting_;
    runtime::notifier news_;
    runtime::event lost_;
    std::exception_ptr why_;
    std::uint64_t settled_ = 0;
    std::uint64_t frames_ = 0;
    std::uint64_t pending_ = 0; // decided, and not handed over
    std::uint64_t leaving_ = 0; // of these: written in this turn
    std::uint64_t last_ack_ = 0;
    std::uint32_t acks_ = 0; // not written yet
    time_point oldest_decided_{};
    bool ended_ = false;
    bool paused_ = false;
};

class hand_consumer final : public consumer {
public:
    hand_consumer(shared& of, consumer_place where)
        : shared_(of), place_(std::move(where)), broker_(place_.connection)
    {
        for (std::size_t i = 0; i < place_.queues.size(); ++i)
            channels_.push_back(std::make_unique<hand>(of, broker_, place_.number + i));
    }

    task<> run() override
    {
        co_await runtime::with_scope([this](runtime::scope& tasks) -> task<> {
            tasks.spawn(broker_.run());
            co_await broker_.opened();
            for (std::size_t i = 0; i < channels_.size(); ++i)
                co_await channels_[i]->open(place_.queues[i]);
            started_.set();
            co_await runtime::with_scope([this](runtime::scope& at_work) -> task<> {
                for (auto& each : channels_) {
                    at_work.spawn(each->wait_until_lost());
                    for (std::uint32_t n = 0; n < shared_.settings.concurrency; ++n)
                        at_work.spawn(each->work());
                }
                co_await asked_.wait();
                for (auto& each : channels_)
                    co_await each->stop();
                at_work.cancel();
            });
            co_await broker_.close();
        });
    }
    task<> started() override { co_await started_.wait(); }
    void stop() override { asked_.set(); }
    bool full() const noexcept override
    {
        for (const auto& each : channels_)
            if (!each->full())
                return false;
        return true;
    }
    void add_to(settling& sum) const override
    {
        for (const auto& each : channels_)
            each->add_to(sum);
    }

private:
    shared& shared_;
    consumer_place place_;
    amqp::connection broker_;
    std::vector<std::unique_ptr<hand>> channels_;
    runtime::event started_;
    runtime::event asked_;
};

} // namespace

std::unique_ptr<consumer> channel_consumer(shared& of, consumer_place where)
{
    return std::make_unique<hand_consumer>(of, std::move(where));
}

} // namespace acquit::bench
