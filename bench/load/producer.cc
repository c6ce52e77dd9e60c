#include "producer.h"

#include "clock.h"

#include <acquit/runtime/error.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

#include <algorithm>

namespace acquit::bench {

using runtime::loop;
using runtime::task;

namespace {

amqp::publisher_options publishing(const options& o)
{
    return {.exchange = o.exchange,
            .mandatory = o.mandatory,
            .persistent = o.persistent,
            .confirms = o.confirm != 0,
            .window = std::max<std::size_t>(o.confirm, 1),
            .confirm_timeout = o.confirm_timeout};
}

} // namespace

producer::producer(shared& of, amqp::connection& broker, std::uint16_t number,
                   std::string routing_key, const message_properties& properties)
    : shared_(of), number_(number), routing_key_(std::move(routing_key)), properties_(properties),
      body_(of.settings.size), out_(broker, publishing(of.settings))
{
}

task<> producer::open()
{
    co_await out_.open();
    out_.channel().on_return = [this](const amqp::received& back) {
        ++shared_.measured.now.returned;
        if (const auto mark = read_stamp(back.body);
            mark && mark->run == shared_.run && shared_.kept != nullptr)
            shared_.kept->refused(mark->producer, mark->number);
    };
}

task<> producer::run()
{
    try {
        co_await publish_all();
    } catch (const runtime::operation_cancelled&) {
        // Stopped: what was sent is waited for all the same.
    }
    try {
        co_await runtime::shield(runtime::with_timeout(
            shared_.settings.confirm_timeout + std::chrono::seconds(5), out_.flush()));
    } catch (const amqp::publish_error&) {
        // Counted where its answer came.
    }
}

task<> producer::publish_all()
{
    pace schedule(shared_.settings.rate);
    const auto limit = shared_.settings.per_producer;
    for (std::uint64_t number = 0; limit == 0 || number < limit; ++number) {
        auto& events = loop::current();
        if (shared_.settings.rate > 0) {
            const auto due = schedule.next(events.precise_now());
            if (due > events.precise_now())
                co_await runtime::sleep_until(due);
        }
        co_await publish(number);
    }
}

task<> producer::publish(std::uint64_t number)
{
    const auto sent = loop::current().precise_now();
    write_stamp(body_, {.sent_ns = shared_.settings.milliseconds ? stamp_time(true)
                                                                 : sent.time_since_epoch().count(),
                        .run = shared_.run,
                        .producer = number_,
                        .number = number});
    const amqp::publication message{
        .routing_key = routing_key_, .properties = properties_.get(), .body = body_};
    // Booked first: the message may be back before this returns to the loop.
    if (shared_.kept != nullptr)
        shared_.kept->sent(number_, number);
    try {
        if (shared_.settings.confirm != 0)
            (void)co_await out_.send(
                message, [this, sent](const amqp::publish_answer& told) { answered(told, sent); });
        else
            (void)co_await out_.send(message);
    } catch (...) {
        if (shared_.kept != nullptr)
            shared_.kept->unsent(number_, number);
        throw;
    }
    ++shared_.measured.now.sent;
}

void producer::answered(const amqp::publish_answer& told, runtime::time_point sent)
{
    counts& now = shared_.measured.now;
    if (told.confirmed()) {
        ++now.confirmed;
        shared_.measured.confirm_latency.record(loop::current().now() - sent);
    } else if (*told.failure != amqp::publish_error::reason::returned) {
        ++now.nacked;
        // The number on its channel counts from 1, ours from 0.
        if (shared_.kept != nullptr)
            shared_.kept->refused(number_, told.number - 1);
    }
}

task<> producer::close()
{
    try {
        co_await out_.close();
    } catch (const amqp::publish_error&) {
        // Counted where its answer came.
    }
}

} // namespace acquit::bench
