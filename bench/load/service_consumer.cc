#include "consumer.h"
#include "message.h"

#include <acquit/acquit.h>

#include <fmt/format.h>

#include <optional>

namespace acquit::bench {

namespace {

using runtime::task;

class ledger_consumer final : public consumer {
public:
    ledger_consumer(shared& of, consumer_place where)
        : place_(std::move(where)), service_(place_.connection)
    {
        const options& o = of.settings;
        for (std::size_t i = 0; i < place_.queues.size(); ++i)
            receivers_.push_back(std::make_unique<receiver>(of, place_.number + i));
        service_.name(o.id);
        service_.declare_topology(service_declares(o));
        // What this tool sends back because it has had enough is none of its business any more.
        service_.drain(settle::drain_policy::give_back);
        for (std::size_t i = 0; i < receivers_.size(); ++i)
            consume(o, place_.queues[i], *receivers_[i]);
    }

    task<> run() override { report_.emplace(co_await service_.run()); }
    task<> started() override { co_await service_.started(); }
    void stop() override { service_.stop(); }
    bool full() const noexcept override
    {
        for (const auto& each : receivers_)
            if (!each->full())
                return false;
        return true;
    }
    void add_to(settling& sum) const override
    {
        if (report_) {
            for (const auto& line : report_->queues)
                add(sum, line.metrics.settlement);
            return;
        }
        // NOLINTNEXTLINE: the service shows its subscriptions to whoever may change them only
        auto& running = const_cast<settle::service&>(service_);
        for (std::size_t i = 0; i < running.size(); ++i)
            add(sum, running[i].metrics().settlement);
    }
    std::string remark() const override
    {
        if (!report_ || (report_->clean() && report_->reconnects == 0))
            return {};
        return "the service did not end clean: " + report_->text();
    }

private:
    static void add(settling& sum, const settle::settlement_metrics& m)
    {
        sum.settled += m.settled;
        sum.frames += m.frames;
        sum.latency.merge(m.settlement_latency);
        sum.hold.merge(m.hold_time);
    }

    void consume(const options& o, const std::string& name, receiver& r)
    {
        if (!service_declares(o)) {
            consume_from(o, existing_queue(name), r);
        } else if (o.quorum) {
            consume_from(o, declared(o, quorum_queue(name)), r);
        } else {
            consume_from(o, declared(o, classic_queue(name).auto_delete(o.auto_delete)), r);
        }
    }

    template <class Queue>
    static Queue declared(const options& o, Queue queue)
    {
        for (const auto& [name, value] : o.queue_arguments) {
            amqp::wire::table one;
            set_value(one, name, value);
            queue.argument(name, *one.view().find(name));
        }
        if (!o.exchange.empty())
            queue.bind(o.exchange, o.routing_key.value_or(queue.description().name));
        return queue;
    }

    template <class Queue>
    void consume_from(const options& o, Queue queue, receiver& r)
    {
        queue.prefetch(o.prefetch);
        // A plain function where it need not wait: that is the fastest there is.
        if (r.works())
            steps(o, service_.consume(std::move(queue), [&r](delivery& d) -> task<outcome> {
                r.arrived(d.body());
                auto& events = runtime::loop::current();
                co_await runtime::sleep_until(r.work_ends(events.precise_now()));
                co_return r.decide(d.body());
            })).concurrency(o.concurrency);
        else
            steps(o, service_.consume(std::move(queue), [&r](delivery& d) -> outcome {
                r.arrived(d.body());
                return r.decide(d.body());
            }));
    }

    template <class Subscription>
    static Subscription& steps(const options& o, Subscription& added)
    {
        settle::flush_policy flush{.count = o.flush_count};
        if (o.hold)
            flush.hold = *o.hold;
        return added.flush(flush).delay(o.delay);
    }

    consumer_place place_;
    settle::service service_;
    std::vector<std::unique_ptr<receiver>> receivers_;
    std::optional<report> report_;
};

} // namespace

bool service_declares(const options& o) noexcept
{
    return o.settle == settle_by::ledger && o.consumers != 0 && !o.predeclared &&
           (o.outcomes.retry_after != 0 || o.delay.kind() != settle::delay::mode::none);
}

std::unique_ptr<consumer> service_consumer(shared& of, consumer_place where)
{
    return std::make_unique<ledger_consumer>(of, std::move(where));
}

} // namespace acquit::bench
