#include "load.h"

#include "consumer.h"
#include "message.h"
#include "producer.h"
#include "topology.h"

#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/signals.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <random>

namespace acquit::bench {

using namespace std::chrono_literals;
using runtime::loop;
using runtime::scope;
using runtime::task;
using runtime::time_point;

namespace {

runtime::duration as_duration(double seconds)
{
    return runtime::duration(static_cast<runtime::duration::rep>(seconds * 1e9));
}

class load {
public:
    load(const options& o, const watcher& seen)
        : options_(o), seen_(seen),
          run_(static_cast<std::uint16_t>(std::random_device{}() & run_max)),
          meter_(loop::current().now())
    {
        if (o.verify)
            kept_ = o.producers != 0 ? book(run_) : book();
        shared_.kept = kept_ ? &*kept_ : nullptr;
        shared_.run = run_;
        shared_.on_end = [this] { look_.notify_all(); };
    }

    task<result> run()
    {
        about_ = describe(options_);
        amqp::connection control(connection("control"));
        co_await runtime::with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(control.run());
            co_await control.opened();
            about_.broker = fmt::format("{} {}", control.session().server_product(),
                                        control.session().server_version());
            if (seen_.begins)
                seen_.begins(about_);
            co_await make_topology(control, options_);
            std::exception_ptr failed;
            try {
                co_await take_part(control);
            } catch (...) {
                failed = std::current_exception();
            }
            if (options_.queue == own_queue() && control.is_open())
                co_await runtime::shield(
                    runtime::with_timeout(10s, remove_topology(control, options_)));
            if (failed)
                std::rethrow_exception(failed);
            co_await control.close();
        });
        co_return finish();
    }

private:
    [[nodiscard]] std::string own_queue() const { return own_queue_name(options_); }

public:
    static std::string own_queue_name(const options& o) { return "acquit-bench." + o.id; }

private:
    [[nodiscard]] amqp::connection_options connection(std::string_view role) const
    {
        auto made = amqp::options_from_uri(options_.uri);
        made.session.connection_name = fmt::format("{} {}", options_.id, role);
        if (options_.frame_max != 0)
            made.session.frame_size_max = options_.frame_max;
        if (options_.heartbeat_s)
            made.session.heartbeat_s = *options_.heartbeat_s;
        // Producers share this thread with consumers: they yield often.
        made.output_bound = std::size_t{256} << 10;
        return made;
    }

    [[nodiscard]] std::string queue_of(std::uint64_t n) const
    {
        const auto all = options_.queues();
        return all[static_cast<std::size_t>(n % all.size())];
    }

    task<> take_part(amqp::connection& control)
    {
        make_consumers();
        co_await runtime::with_scope([&, this](scope& tasks) -> task<> {
            for (auto& each : consumers_)
                tasks.spawn(consume(*each));
            for (auto& each : consumers_)
                co_await each->started();
            began_ = loop::current().precise_now();
            meter_.begin(began_);
            tasks.spawn(tick());
            tasks.spawn(watch_signals());
            if (options_.consumers != 0 && options_.settles())
                tasks.spawn(look_at_queues(control));
            bool by_clock = false;
            co_await runtime::with_scope([&, this](scope& publishing) -> task<> {
                for (std::uint32_t n = 0; n < options_.producers; ++n)
                    publishing.spawn(publish(n));
                producing_ = options_.producers;
                co_await until_over();
                // A run by the clock ends here; one by numbers when everything has come.
                by_clock = asked_ || out_of_time();
                if (by_clock)
                    end_measuring();
                publishing.cancel();
            });
            co_await until_settled();
            if (!by_clock)
                end_measuring();
            for (auto& each : consumers_)
                each->stop();
            while (consuming_ != 0)
                co_await look_.wait();
            (void)meter_.tick(loop::current().precise_now(), settlements(),
                              by_clock ? stage::over : stage::rest);
            tasks.cancel();
        });
    }

    void make_consumers()
    {
        std::uint64_t number = 0;
        for (std::uint32_t n = 0; n < options_.consumers; ++n) {
            consumer_place where{.connection = connection(fmt::format("consumer {}", n)),
                                 .queues = {},
                                 .number = number};
            for (std::uint32_t c = 0; c < options_.consumer_channels; ++c)
                where.queues.push_back(queue_of(number++));
            consumers_.push_back(options_.settle == settle_by::ledger
                                     ? service_consumer(shared_, std::move(where))
                                     : channel_consumer(shared_, std::move(where)));
        }
        consuming_ = options_.consumers;
    }

    task<> consume(consumer& one)
    {
        co_await one.run();
        --consuming_;
        look_.notify_all();
    }

    task<> publish(std::uint32_t n)
    {
        amqp::connection broker(connection(fmt::format("producer {}", n)));
        const message_properties properties(options_.properties, options_.persistent);
        std::vector<std::unique_ptr<producer>> channels;
        for (std::uint32_t c = 0; c < options_.producer_channels; ++c) {
            const auto number = n * options_.producer_channels + c;
            channels.push_back(std::make_unique<producer>(
                shared_, broker, static_cast<std::uint16_t>(number),
                options_.routing_key.value_or(queue_of(number)), properties));
        }
        co_await runtime::with_scope([&](scope& tasks) -> task<> {
            tasks.spawn(runtime::shield(broker.run()));
            std::exception_ptr failed;
            try {
                co_await broker.opened();
                co_await runtime::with_scope([&](scope& publishing) -> task<> {
                    for (auto& each : channels)
                        co_await each->open();
                    for (auto& each : channels)
                        publishing.spawn(each->run());
                });
            } catch (const runtime::operation_cancelled&) {
                // Stopped.
            } catch (...) {
                failed = std::current_exception();
            }
            co_await runtime::shield(goodbye(broker, channels, failed == nullptr));
            if (failed)
                std::rethrow_exception(failed);
        });
        --producing_;
        look_.notify_all();
    }

    static task<> goodbye(amqp::connection& broker,
                          std::vector<std::unique_ptr<producer>>& channels, bool politely)
    {
        if (politely && broker.is_open())
            for (auto& each : channels)
                co_await each->close();
        co_await broker.close();
    }

    [[nodiscard]] bool all_full() const
    {
        return options_.per_consumer != 0 &&
               std::ranges::all_of(consumers_, [](const auto& each) { return each->full(); });
    }
    [[nodiscard]] bool all_published() const
    {
        return options_.producers != 0 && options_.per_producer != 0 && producing_ == 0;
    }
    [[nodiscard]] bool out_of_time() const
    {
        return options_.seconds > 0 &&
               loop::current().now() >= began_ + as_duration(options_.seconds + options_.warm_up);
    }

    /// The options are fulfilled, but for what is under way.
    task<> until_over()
    {
        while (!asked_ && !out_of_time() && !all_full() && !all_published())
            co_await look_.wait();
    }

    /// What was published has come and is settled, or nothing has moved for a while.
    task<> until_settled()
    {
        if (consumers_.empty())
            co_return;
        // How much will come is known where everything is counted, and where -C or -D says so.
        const bool known = kept_ || (options_.producers != 0 && options_.per_producer != 0 &&
                                     options_.per_consumer == 0 && options_.seconds == 0);
        const bool wants_more = options_.per_consumer != 0 && options_.seconds == 0;
        if (!known && !wants_more)
            co_return;
        std::uint64_t before = 0;
        time_point moved = loop::current().now();
        while (!asked_ && !all_full() && !(known && all_settled())) {
            const auto counted = meter_.all().received + meter_.now.received;
            if (counted != before)
                moved = loop::current().now();
            before = counted;
            if (loop::current().now() - moved > patience + options_.retry_after + options_.work) {
                about_.remarks.push_back(fmt::format(
                    "Nothing has come for {} s: the rest was not waited for.", patience.count()));
                co_return;
            }
            co_await look_.wait();
        }
    }
    [[nodiscard]] bool all_settled() const
    {
        if (kept_)
            return options_.producers != 0 && kept_->open() == 0;
        auto sum = meter_.all();
        sum.add(meter_.now);
        const auto settled = options_.settles() ? sum.acked + sum.dropped : sum.received;
        return settled + sum.returned + sum.nacked >= sum.sent;
    }

    task<> watch_signals()
    {
        runtime::signal_watcher signals{SIGINT, SIGTERM};
        (void)co_await signals.next();
        asked_ = true;
        look_.notify_all();
        (void)co_await signals.next();
        throw runtime::error("stopped by a second signal");
    }

    task<> tick()
    {
        const auto step = as_duration(options_.interval);
        const auto warm = began_ + as_duration(options_.warm_up);
        const auto end = began_ + as_duration(options_.warm_up + options_.seconds);
        auto due = began_;
        for (;;) {
            // The warm-up and the run end on their own tick.
            const auto before = due;
            due += step;
            if (before < warm && warm < due)
                due = warm;
            if (options_.seconds > 0 && before < end && end < due)
                due = end;
            while (loop::current().now() < due) {
                // More often than it ticks: somebody may wait for the world to stand still.
                co_await runtime::sleep_until(std::min(due, loop::current().now() + 100ms));
                look_.notify_all();
            }
            // A machine that stood still has no two ticks at once.
            if (ended_ || due + step <= loop::current().now())
                continue;
            const auto& last =
                meter_.tick(loop::current().now(), settlements(),
                            options_.warm_up > 0 && due <= warm ? stage::warm_up : stage::measured);
            if (seen_.ticks)
                seen_.ticks(last, progress());
        }
    }

    void end_measuring()
    {
        ended_ = true;
        const auto& last =
            meter_.tick(loop::current().precise_now(), settlements(), stage::measured);
        if (seen_.ticks && last.seconds > 0.2 * options_.interval)
            seen_.ticks(last, progress());
    }

    /// Looks at the queues once per interval: without a backlog settlement latency says little.
    task<> look_at_queues(amqp::connection& control)
    {
        constexpr std::size_t queues_max = 16;
        auto queues = options_.queues();
        queues.resize(std::min(queues.size(), queues_max));
        amqp::channel ch(control);
        co_await ch.open();
        while (!ended_) {
            co_await runtime::sleep(as_duration(options_.interval));
            std::uint64_t ready = 0;
            try {
                for (const auto& queue : queues)
                    ready += (co_await ch.declare_queue({.queue = queue, .passive = true}))
                                 .message_count;
            } catch (const amqp::channel_error&) {
                co_return; // it went with its last consumer; if not, the consumers know better
            }
            if (ended_ || out_of_time())
                break;
            ++about_.looks;
            about_.empty_looks += ready == 0 ? 1 : 0;
        }
        co_await ch.close();
    }

    [[nodiscard]] std::vector<settling> settlements() const
    {
        if (consumers_.empty() || !options_.settles())
            return {};
        settling sum{.prefetch = options_.prefetch};
        for (const auto& each : consumers_)
            each->add_to(sum);
        return {sum};
    }

    /// How far the run is, as well as that can be known.
    [[nodiscard]] std::string progress() const
    {
        const auto& all = meter_.all();
        const auto share = [](std::uint64_t done, std::uint64_t of) {
            return fmt::format("{:.0f} %", std::min(100.0, 100 * static_cast<double>(done) /
                                                               static_cast<double>(of)));
        };
        const auto to_publish =
            options_.per_producer * options_.producers * options_.producer_channels;
        if (options_.seconds > 0) {
            const auto left =
                began_ + as_duration(options_.seconds + options_.warm_up) - loop::current().now();
            return fmt::format("{:.0f} s left",
                               std::max(0.0, std::chrono::duration<double>(left).count()));
        }
        if (options_.per_consumer != 0)
            return share(all.acked + all.dropped + (options_.settles() ? 0 : all.received),
                         options_.per_consumer * options_.consumers * options_.consumer_channels);
        if (to_publish != 0)
            return share(options_.consumers != 0
                             ? (options_.settles() ? all.acked + all.dropped : all.received)
                             : all.sent,
                         to_publish);
        return {};
    }

    result finish()
    {
        result r = std::move(about_);
        meter_.fill(r);
        for (const auto& each : consumers_)
            if (auto said = each->remark(); !said.empty())
                r.remarks.push_back(std::move(said));
        if (kept_) {
            const auto found = kept_->judge();
            r.verdict = found.text();
            r.verified = found.good();
        }
        return r;
    }

    static result describe(const options& o)
    {
        result r;
        r.id = o.id;
        r.milliseconds = o.milliseconds;
        r.publishes = o.producers != 0;
        r.consumes = o.consumers != 0;
        r.confirms = o.producers != 0 && o.confirm != 0;
        r.settle = o.consumers != 0 && o.settles() ? o.settle_text() : "";
        r.body_size = o.size;
        return r;
    }

    const options& options_;
    const watcher& seen_;
    std::uint16_t run_;
    meter meter_;
    std::optional<book> kept_;
    shared shared_{.settings = options_, .measured = meter_};
    std::vector<std::unique_ptr<consumer>> consumers_;
    result about_;
    runtime::notifier look_; // the state may have changed
    time_point began_{};
    std::uint32_t producing_ = 0;
    std::uint32_t consuming_ = 0;
    bool asked_ = false; // by a signal
    bool ended_ = false;
};

} // namespace

task<result> run_load(const options& o, const watcher& seen)
{
    options complete = o;
    if (complete.queue.empty() && complete.queue_pattern.empty())
        complete.queue = load::own_queue_name(o);
    load one(complete, seen);
    co_return co_await one.run();
}

} // namespace acquit::bench
