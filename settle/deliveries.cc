#include <acquit/runtime/assert.h>
#include <acquit/settle/deliveries.h>
#include <acquit/settle/topology.h>

namespace acquit::settle {

owned_delivery& owned_delivery::operator=(owned_delivery&& other) noexcept
{
    if (this != &other) {
        if (held_ != nullptr)
            owner_->leave_undecided(*held_);
        owner_ = other.owner_;
        held_ = std::exchange(other.held_, nullptr);
    }
    return *this;
}

void owned_delivery::leave_undecided() noexcept
{
    owner_->leave_undecided(*held_);
}

deliveries::deliveries(amqp::connection& broker, queue_description queue, flush_policy flush)
    : queue_(std::move(queue)), settler_(flush, queue_.prefetch), inbox_(settler_, false),
      channel_(broker)
{
    auto problems = queue_.problems();
    if (auto problem = validate(flush, queue_.prefetch))
        problems.push_back(std::move(*problem));
    if (!problems.empty())
        throw start_error(problems);
    inbox_.on_end(
        [](void* self, std::exception_ptr why) noexcept {
            auto& me = *static_cast<deliveries*>(self);
            if (why != nullptr)
                return; // channel::on_lost tells
            me.tag_.clear();
            me.lost_ = std::make_exception_ptr(
                amqp::channel_error(me.channel_.number(), 404, "the broker ended the consumer"));
            me.inbox_.close();
        },
        this);
}

runtime::task<> deliveries::open()
{
    // Also after `stop`, when no consumer is left to be told: what is in hand is stale then.
    channel_.on_lost = [this](std::exception_ptr why) {
        (void)inbox_.detach();
        settler_.detach();
        if (!lost_)
            lost_ = std::move(why);
        inbox_.close();
    };
    co_await channel_.open();
    co_await channel_.qos(queue_.prefetch);
    settler_.attach(channel_);
    inbox_.attach(channel_);
    tag_ = co_await channel_.consume(
        {.queue = queue_.name, .arguments = queue_.consume_arguments.view()}, inbox_);
}

runtime::task<> deliveries::stop()
{
    if (channel_.is_open() && !tag_.empty())
        co_await channel_.cancel(std::exchange(tag_, {}));
    inbox_.close();
}

runtime::task<> deliveries::close()
{
    co_await stop();
    const auto untouched = inbox_.withdraw_run(); // one: every delivery comes through the inbox
    ACQUIT_ASSERT(inbox_.in_hand() == 0, "deliveries closed while {} of them are not settled",
                  inbox_.in_hand());
    if (!channel_.is_open())
        co_return;
    settler_.flush();
    settler_.give_back(untouched.first, untouched.last);
    co_await channel_.barrier();
    channel_.on_lost = nullptr;
    co_await channel_.close();
}

void deliveries::leave_undecided(held_delivery& d) noexcept
{
    ++undecided_;
    (void)settle(d, retry());
}

} // namespace acquit::settle
