#include <acquit/amqp/wire/constants.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/scope.h>
#include <acquit/settle/copy_publisher.h>
#include <acquit/settle/detail/exception_text.h>
#include <acquit/settle/detail/retrying.h>

#include <random>
#include <utility>

namespace acquit::settle {

namespace {

/// For the handshakes of a close.
constexpr auto goodbye = std::chrono::seconds(1);

copy_result result_of(amqp::publish_result r) noexcept
{
    switch (r) {
    case amqp::publish_result::confirmed:
        return copy_result::confirmed;
    case amqp::publish_result::returned:
        return copy_result::returned;
    case amqp::publish_result::nacked:
        return copy_result::nacked;
    case amqp::publish_result::lost:
    case amqp::publish_result::pending:
        break;
    }
    return copy_result::lost;
}

void make_empty(runtime::list_node& list) noexcept
{
    list.next = list.previous = &list;
}

bool is_empty(const runtime::list_node& list) noexcept
{
    return list.next == &list;
}

} // namespace

const char* name(copy_result r) noexcept
{
    switch (r) {
    case copy_result::confirmed:
        return "confirmed";
    case copy_result::returned:
        return "returned: no queue would have it";
    case copy_result::nacked:
        return "refused by the broker";
    case copy_result::timed_out:
        return "not confirmed in time";
    case copy_result::lost:
        return "not confirmed before its channel was lost";
    }
    return "unknown";
}

copy_request::~copy_request()
{
    ACQUIT_ASSERT(state_ == state::idle, "a copy destroyed while it is being published");
}

void copy_request::on_confirm(amqp::publish_result result, std::uint16_t) noexcept
{
    publisher().finish(*this, result_of(result));
}

void copy_request::on_timer() noexcept
{
    if (state_ == state::idle)
        on_wait_over();
    else
        publisher().finish(*this, copy_result::timed_out);
}

copy_publisher::copy_publisher(amqp::connection_options connection, options o)
    : connection_options_(std::move(connection)), options_(o), random_(std::random_device{}()),
      frame_size_max_(amqp::wire::frame_size_min)
{
    auto& name = connection_options_.session.connection_name;
    if (!name.empty())
        name += ", copies";
    make_empty(waiting_);
    make_empty(in_flight_);
}

copy_publisher::~copy_publisher()
{
    ACQUIT_ASSERT(is_empty(waiting_) && is_empty(in_flight_),
                  "copy_publisher destroyed with {} copies waiting and {} in flight",
                  counts_.waiting, counts_.in_flight);
    amqp::wipe(connection_options_.session.password);
}

void copy_publisher::submit(copy_request& r) noexcept
{
    ACQUIT_ASSERT(!r.submitted(), "a copy submitted twice");
    r.state_ = copy_request::state::waiting;
    r.link().insert_before(waiting_);
    ++counts_.waiting;
    r.arm_after(runtime::loop::current(), options_.confirm_timeout);
    wanted_.set();
    news_.notify_all();
}

void copy_publisher::withdraw(copy_request& r) noexcept
{
    if (r.submitted())
        take_back(r);
}

/// Out of its list and idle; whatever the broker says of it is not heard.
void copy_publisher::take_back(copy_request& r) noexcept
{
    r.timer::cancel();
    r.link().unlink();
    if (r.in_flight()) {
        --counts_.in_flight;
        if (channel_ != nullptr)
            channel_->forget_confirm(r.publish_);
        news_.notify_all(); // room in the window
    } else {
        --counts_.waiting;
    }
    r.state_ = copy_request::state::idle;
}

void copy_publisher::finish(copy_request& r, copy_result result) noexcept
{
    take_back(r);
    ++(result == copy_result::confirmed ? counts_.confirmed : counts_.failed);
    r.on_copy_done(result); // it may be gone from here on
}

runtime::task<> copy_publisher::run()
{
    struct leaving {
        copy_publisher& self;
        ~leaving()
        {
            self.over_.set();
            self.progress_.notify_all();
        }
    } const until_it_ends{*this};
    auto& loop = runtime::loop::current();
    co_await wanted_.wait();
    for (std::uint32_t attempt = 1; !closing_.is_set(); ++attempt) {
        const auto since = loop.now();
        const auto confirmed = counts_.confirmed;
        try {
            co_await publish_until_lost_or_closed();
        } catch (const runtime::operation_cancelled&) {
            if (closing_.is_set())
                co_return;
            throw;
        } catch (...) {
            failure_ = std::current_exception();
            progress_.notify_all();
        }
        if (closing_.is_set())
            co_return;
        if (loop.now() - since >= detail::lasting || counts_.confirmed != confirmed)
            attempt = 1;
        runtime::log(runtime::log_level::warning, "no connection for copies, trying again",
                     {{"reason", failure_ ? detail::text_of(failure_) : "closed"},
                      {"waiting", std::to_string(counts_.waiting)}});
        co_await pause(attempt);
    }
}

runtime::task<> copy_publisher::pause(std::uint32_t attempt)
{
    co_await detail::wait_at_most(options_.reconnect.delay(attempt, random_()), closing_);
}

runtime::task<> copy_publisher::publish_until_lost_or_closed()
{
    co_await runtime::with_scope([this](runtime::scope& tasks) -> runtime::task<> {
        tasks.spawn(leave_when_closed(tasks));
        co_await publish_until_lost();
        tasks.cancel();
    });
}

/// Nobody is left who would wait for a broker that says nothing.
runtime::task<> copy_publisher::leave_when_closed(runtime::scope& publishing)
{
    co_await closing_.wait();
    if (channel_ != nullptr)
        co_await runtime::sleep(goodbye);
    publishing.cancel();
}

runtime::task<> copy_publisher::publish_until_lost()
{
    amqp::connection broker(connection_options_);
    co_await runtime::with_scope([&](runtime::scope& tasks) -> runtime::task<> {
        tasks.spawn(broker.run());
        co_await broker.opened();
        ++counts_.connections;
        broker.on_blocked = [this] { news_.notify_all(); };
        for (std::uint32_t attempt = 1; broker.is_open() && !closing_.is_set(); ++attempt) {
            const auto since = runtime::loop::current().now();
            co_await publish_on_channel(broker);
            if (runtime::loop::current().now() - since >= detail::lasting)
                attempt = 1;
            if (broker.is_open() && !closing_.is_set())
                co_await pause(attempt); // the channel was closed by the broker
        }
        co_await broker.close();
    });
}

/// While the channel is there, the publisher knows it.
class copy_publisher::on_connection {
public:
    on_connection(copy_publisher& self, amqp::connection& broker, amqp::channel& c) : self_(self)
    {
        self.broker_ = &broker;
        self.channel_ = &c;
        self.frame_size_max_ = broker.session().tuned().frame_size_max;
        self.failure_ = nullptr;
        self.progress_.notify_all();
    }
    ~on_connection() { self_.leave_channel(); }
    on_connection(const on_connection&) = delete;
    on_connection& operator=(const on_connection&) = delete;

private:
    copy_publisher& self_;
};

runtime::task<> copy_publisher::publish_on_channel(amqp::connection& broker)
{
    amqp::channel c(broker);
    try {
        co_await c.open();
        co_await c.confirm_select();
        c.on_lost = [this](const std::exception_ptr& why) {
            failure_ = why;
            news_.notify_all();
        };
        const on_connection known(*this, broker, c);
        co_await pump(broker, c);
        c.on_lost = nullptr;
        co_await c.close();
    } catch (const amqp::channel_error& refused) {
        failure_ = std::current_exception();
        runtime::log(runtime::log_level::error, "channel for copies lost",
                     {{"reason", refused.what()}});
    }
}

runtime::task<> copy_publisher::pump(amqp::connection& broker, amqp::channel& c)
{
    while (c.is_open() && !closing_.is_set()) {
        while (c.is_open() && !is_empty(waiting_) && !broker.is_blocked() &&
               counts_.in_flight < options_.window) {
            if (broker.output().pending() >= broker.options().output_bound)
                co_await broker.output_room();
            else
                publish_front(c);
        }
        if (c.is_open() && !closing_.is_set())
            co_await news_.wait();
    }
    if (!c.is_open() && c.failure())
        std::rethrow_exception(c.failure());
}

void copy_publisher::publish_front(amqp::channel& c) noexcept
{
    copy_request& r = first_of(waiting_);
    try {
        r.publish_ = c.publish_raw(r.message.view(), r);
    } catch (const std::exception& refused) {
        runtime::log(runtime::log_level::error, "copy not published", {{"reason", refused.what()}});
        finish(r, copy_result::nacked);
        return;
    }
    r.link().unlink();
    r.link().insert_before(in_flight_);
    r.state_ = copy_request::state::in_flight;
    --counts_.waiting;
    ++counts_.in_flight;
    ++counts_.published;
}

void copy_publisher::leave_channel() noexcept
{
    // Those that nobody answered: the channel's own end has told all but after a cancellation.
    while (!is_empty(in_flight_))
        finish(first_of(in_flight_), copy_result::lost);
    channel_ = nullptr;
    broker_ = nullptr;
}

runtime::task<> copy_publisher::ready()
{
    wanted_.set();
    while (channel_ == nullptr && !failure_ && !over_.is_set())
        co_await progress_.wait();
    if (channel_ == nullptr && failure_)
        std::rethrow_exception(failure_);
}

void copy_publisher::close() noexcept
{
    closing_.set();
    wanted_.set();
    news_.notify_all();
}

runtime::task<> copy_publisher::closed()
{
    co_await over_.wait();
}

copy_metrics copy_publisher::metrics() const noexcept
{
    copy_metrics now = counts_;
    now.blocked = broker_ != nullptr && broker_->is_blocked();
    return now;
}

} // namespace acquit::settle
