/// The end of a subscription: in order, or cut short.

#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/subscription.h>

#include <algorithm>
#include <utility>

namespace acquit::settle {

namespace {

using namespace std::chrono_literals;

/// RabbitMQ: the channel process sends at most this many settlements of a quorum queue to its leader
/// before it waits for them to be applied, and forgets the rest when the channel closes (server
/// issue 10327).
constexpr std::uint64_t quorum_commands_in_flight = 32;

/// So long nothing has arrived: nothing is on its way. A settlement of a quorum queue takes a
/// synchronised write of its log before it frees a slot.
constexpr auto arrival_quiet = 50ms;
/// Messages that trickle in do not hold up a drain.
constexpr auto arrival_max = 500ms;

} // namespace

runtime::task<> subscription::drain(drain_policy policy)
{
    health_ = health::draining;
    if (channel_ != nullptr && channel_->is_open()) {
        try {
            if (!consumer_tag_.empty())
                co_await cancel_consumer();
        } catch (const amqp::channel_error& lost) {
            runtime::log(runtime::log_level::warning, "channel lost while draining",
                         {{"queue", queue_name_}, {"reason", lost.what()}});
        } catch (const runtime::timed_out& late) {
            // Its consumer may still get messages, and nothing says that settlements arrive.
            runtime::log(runtime::log_level::warning, "channel given up while draining",
                         {{"queue", queue_name_}, {"reason", late.what()}});
            let_go_of_channel();
            channel_.reset();
        }
    }
    // Without acknowledgements there is nobody to give anything back to.
    if (policy == drain_policy::give_back && !no_ack()) {
        for (auto run = inbox_->withdraw_run(); run.count != 0; run = inbox_->withdraw_run()) {
            counts_.given_back += run.count;
            settler_->give_back(run.first, run.last);
        }
    }
    inbox_->no_more();
    co_await wait_until_done();
    if (channel_ != nullptr && channel_->is_open()) {
        try {
            co_await settle_to_the_last();
        } catch (const amqp::channel_error& lost) {
            // The other subscriptions drain on.
            runtime::log(runtime::log_level::warning,
                         "channel lost while its last settlements were on their way",
                         {{"queue", queue_name_}, {"reason", lost.what()}});
        } catch (const runtime::timed_out& late) {
            runtime::log(runtime::log_level::warning,
                         "nothing says that the last settlements have arrived",
                         {{"queue", queue_name_}, {"reason", late.what()}});
        }
    }
    health_ = health::stopped;
}

runtime::task<> subscription::cancel_consumer()
{
    if (no_ack() || queue_.kind == queue_kind::classic) {
        co_await channel_->cancel(consumer_tag_);
        co_return;
    }
    // A delivery that is on its way inside the broker when the consumer is cancelled never arrives, and
    // is returned, and counted, when the channel closes (RabbitMQ 3.10 and 4.0, quorum queues: measured,
    // up to a whole window). So free no slot for a moment: with the window full, or nothing coming
    // any more, nothing is on its way.
    settler_->pause();
    struct resuming {
        settler& held;
        ~resuming() { held.resume(); }
    } const at_the_end{*settler_};
    const auto& loop = runtime::loop::current();
    const auto until = loop.now() + arrival_max;
    for (auto seen = inbox_->received(); !settler_->window_full() && loop.now() < until;) {
        co_await runtime::sleep(arrival_quiet);
        if (std::exchange(seen, inbox_->received()) == inbox_->received())
            break;
    }
    if (!consumer_tag_.empty()) // ended meanwhile
        co_await channel_->cancel(consumer_tag_);
}

runtime::task<> subscription::settle_to_the_last()
{
    settler_->flush();
    co_await channel_->barrier();
    if (queue_.kind != queue_kind::classic) {
        // The round trip says that the channel process has handled the frames. Of many it has
        // stashed all but the first, and nothing tells when it has sent them on: give it the time.
        // A stashed settlement frees no slot of the window, so no more than the prefetch are there.
        std::uint64_t stashed =
            std::min<std::uint64_t>(settler_->metrics().frames, queue_.prefetch);
        for (; stashed > quorum_commands_in_flight; stashed -= quorum_commands_in_flight) {
            co_await runtime::sleep(10ms);
            co_await channel_->barrier();
        }
    }
    channel_->on_lost = nullptr;
    co_await channel_->close();
    let_go_of_channel();
    channel_.reset();
    consumer_tag_.clear();
}

void subscription::abandon()
{
    if (inbox_ == nullptr)
        return;
    for (auto run = inbox_->withdraw_run(); run.count != 0; run = inbox_->withdraw_run())
        counts_.abandoned += run.count;
    if (tokens_ != nullptr)
        tokens_->abandon();
    if (!cancelling_) {
        inbox_->for_each_in_hand([this](const delivery& d) {
            if (unfinished_.size() < retrier::names_max)
                unfinished_.push_back(
                    {.where = unfinished::stage::in_handler,
                     .what = unfinished::fate::redelivered,
                     .message_id = std::string(d.properties().message_id.value_or("")),
                     .destination = {}});
        });
    }
    for (auto& left : retrier_->abandon())
        unfinished_.push_back(std::move(left));
    settler_->flush();
    cancelling_ = true;
    if (health_ != health::failed)
        health_ = health::stopped;
}

} // namespace acquit::settle
