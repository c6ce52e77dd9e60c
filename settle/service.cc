#include <acquit/amqp/connection.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>
#include <acquit/settle/detail/retrying.h>
#include <acquit/settle/service.h>
#include <acquit/settle/topology.h>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace acquit::settle {

namespace {

/// Who aborts does not wait for a broker that says nothing.
constexpr auto goodbye_after_abort = std::chrono::seconds(1);

} // namespace

service::service(std::string_view address) : service(amqp::options_from_uri(address)) {}

service::service(amqp::connection_options connection)
    : connection_(std::move(connection)), random_(std::random_device{}())
{
}

service::~service()
{
    amqp::wipe(connection_.session.password);
}

service& service::declare_topology(bool yes)
{
    declare_topology_ = yes;
    return *this;
}

service& service::exchange(exchange_description e)
{
    exchanges_.push_back(std::move(e));
    return *this;
}

service& service::drain(drain_policy policy)
{
    drain_policy_ = policy;
    return *this;
}

service& service::drain_timers(timers_at_drain policy)
{
    drain_timers_ = policy;
    return *this;
}

service& service::drain_deadline(std::chrono::nanoseconds limit)
{
    drain_deadline_ = limit;
    return *this;
}

service& service::start_deadline(std::chrono::nanoseconds limit)
{
    start_deadline_ = limit;
    return *this;
}

service& service::reconnect_backoff(backoff policy)
{
    reconnect_backoff_ = policy;
    return *this;
}

service& service::name(std::string connection_name)
{
    connection_.session.connection_name = std::move(connection_name);
    return *this;
}

void service::add(std::unique_ptr<subscription> made)
{
    ACQUIT_ASSERT(!ran_, "consume(\"{}\") on a service that runs already", made->queue().name);
    made->on_stop(
        [](void* self, std::exception_ptr why) noexcept {
            static_cast<service*>(self)->request_stop(std::move(why));
        },
        this);
    subscriptions_.push_back(std::move(made));
}

void service::refuse_problems() const
{
    std::vector<std::string> problems;
    if (subscriptions_.empty())
        problems.emplace_back("the service consumes nothing: call consume(queue, handler)");
    for (const auto& e : exchanges_) {
        for (auto& problem : e.problems())
            problems.push_back(std::move(problem));
    }
    for (const auto& s : subscriptions_) {
        for (auto& problem : s->problems(declare_topology_))
            problems.push_back(std::move(problem));
    }
    find_shared_waiting_queues(problems);
    if (auto problem = reconnect_backoff_.problem())
        problems.push_back(std::move(*problem));
    if (!problems.empty())
        throw start_error(problems);
}

void service::find_shared_waiting_queues(std::vector<std::string>& problems) const
{
    struct waiting {
        std::string name;
        const subscription* of;
    };
    std::vector<waiting> known;
    for (const auto& s : subscriptions_) {
        for (auto& name : s->waits_in()) {
            for (const auto& other : subscriptions_) {
                if (other->queue().name == name)
                    problems.push_back(fmt::format(
                        "queue \"{}\": its delayed messages would wait in \"{}\", which this "
                        "service consumes: give the delay a queue of its own",
                        s->queue().name, name));
            }
            for (const auto& before : known) {
                // Of one queue that is consumed twice it may be the same.
                const auto& queue = before.of->queue().name;
                if (before.name == name && (queue != s->queue().name || queue.empty()))
                    problems.push_back(fmt::format(
                        "queues \"{}\" and \"{}\": their delayed messages would wait in the same "
                        "queue \"{}\", which leads back to one of them: give each delay a name of "
                        "its own",
                        queue, s->queue().name, name));
            }
            known.push_back({std::move(name), s.get()});
        }
    }
}

runtime::task<report> service::run()
{
    ACQUIT_ASSERT(!ran_, "service::run() called twice");
    ran_ = true;
    refuse_problems();
    copies_ = std::make_unique<copy_publisher>(connection_);
    for (auto& s : subscriptions_)
        s->prepare(*copies_);
    {
        const std::lock_guard lock(asked_mutex_);
        loop_ = &runtime::loop::current();
        running_ = std::make_shared<service*>(this);
        if (asked_to_stop_)
            begin_to_stop();
        cut_short_ = asked_to_abort_;
    }
    struct leave {
        service& self;
        ~leave()
        {
            for (auto& s : self.subscriptions_) {
                s->lose();
                // Only where the run was cancelled from outside is anything left here.
                s->abandon();
                s->close_inbox();
            }
            self.over_ = true;
            self.started_.set(); // who waits for it hears that it will not be
            const std::lock_guard lock(self.asked_mutex_);
            self.loop_ = nullptr;
            *self.running_ = nullptr;
        }
    } const leaving{*this};

    std::exception_ptr failure;
    co_await runtime::with_scope([&](runtime::scope& workers) -> runtime::task<> {
        for (auto& s : subscriptions_) {
            for (std::uint32_t i = 0; i < s->workers(); ++i)
                workers.spawn(s->work());
            workers.spawn(s->keep_tokens());
        }
        workers.spawn(copies_->run());
        try {
            co_await serve();
        } catch (...) {
            failure = std::current_exception();
        }
        // Whatever is still in a handler now has no connection to settle on; copies have one.
        if (!cut_short_) {
            finish_up(); // a stop while there was no connection has not come to it
            co_await until_cut_short(wait_until_done());
        }
        copies_->close();
        if (!cut_short_)
            co_await until_cut_short(copies_->closed());
        for (auto& s : subscriptions_) {
            s->abandon();
            s->close_inbox();
        }
        if (cut_short_)
            workers.cancel();
    });
    if (failure && !started_once_)
        std::rethrow_exception(failure);
    if (failure && !error_)
        error_ = failure;
    co_return make_report();
}

runtime::task<> service::serve()
{
    auto& loop = runtime::loop::current();
    first_attempt_ = loop.now();
    for (std::uint32_t attempt = 1; !stop_.is_set(); ++attempt) {
        std::exception_ptr why;
        try {
            co_await one_connection();
            co_return; // stopped and drained
        } catch (const runtime::operation_cancelled&) {
            throw;
        } catch (...) {
            if (left_)
                co_return; // a verb that is not cancelled itself hears of the connection's end
            why = std::current_exception();
        }
        // Whose connections are cut again and again waits longer and longer.
        if (started_.is_set() && loop.now() - last_start_ >= detail::lasting)
            attempt = 1;
        started_.reset();
        for (auto& s : subscriptions_)
            s->lose();
        if (stop_.is_set() || !worth_another_attempt(why))
            std::rethrow_exception(why);
        try {
            std::rethrow_exception(why);
        } catch (const std::exception& e) {
            runtime::log(runtime::log_level::warning, "no connection, trying again",
                         {{"reason", e.what()}, {"attempt", std::to_string(attempt)}});
        }
        co_await pause_before_reconnect(attempt);
    }
}

bool service::worth_another_attempt(const std::exception_ptr& why) const
{
    if (started_once_)
        return true;
    try {
        std::rethrow_exception(why);
    } catch (const amqp::connection_error& e) {
        // A code is the broker's refusal (403 login, 530 vhost): it will not change its mind.
        return e.code() == 0 || e.code() == 320
                   ? runtime::loop::current().now() - first_attempt_ < start_deadline_
                   : false;
    } catch (...) {
        return false;
    }
}

runtime::task<> service::pause_before_reconnect(std::uint32_t attempt)
{
    co_await detail::wait_at_most(reconnect_backoff_.delay(attempt, random_()), stop_);
}

runtime::task<> service::one_connection()
{
    amqp::connection c(connection_);
    struct leave {
        service& self;
        ~leave()
        {
            self.connected_ = nullptr;
            self.phase_ = phase::connecting;
        }
    } const leaving{*this};
    std::exception_ptr refused;
    try {
        co_await serve_on(c, refused);
    } catch (const amqp::connection_error&) {
        // A broker may end the connection over what it refuses: the refusal says more.
        if (!refused)
            throw;
    }
    if (refused)
        std::rethrow_exception(refused);
}

runtime::task<> service::serve_on(amqp::connection& c, std::exception_ptr& refused)
{
    co_await runtime::with_scope([&](runtime::scope& s) -> runtime::task<> {
        connected_ = &s;
        s.spawn(c.run());
        co_await runtime::with_scope([&](runtime::scope& starting) -> runtime::task<> {
            starting.spawn(cancel_when_stopped(starting));
            co_await c.opened();
            starting.cancel();
        });
        if (!c.is_open()) { // stopped meanwhile
            s.cancel();
            co_return;
        }
        phase_ = phase::starting;
        co_await runtime::with_scope([&](runtime::scope& asking) -> runtime::task<> {
            asking.spawn(leave_when_late());
            try {
                co_await start_on(c);
                phase_ = phase::consuming;
                co_await consume_until_stopped(c);
            } catch (const start_error&) {
                refused = std::current_exception();
            }
            asking.cancel();
        });
        co_await drain_within_deadline(); // after a start that failed: those that consume already
        phase_ = phase::closing;
        bool silent = false;
        try {
            co_await runtime::with_timeout(time_to_say_goodbye(), c.close());
        } catch (const runtime::timed_out&) {
            silent = true;
        }
        if (silent)
            s.cancel();
    });
}

runtime::task<> service::cancel_when_stopped(runtime::scope& starting)
{
    co_await stop_.wait();
    starting.cancel();
}

runtime::task<> service::leave_when_late()
{
    co_await stop_.wait();
    co_await runtime::sleep(time_to_say_goodbye());
    leave();
}

runtime::task<> service::start_on(amqp::connection& c)
{
    if (stop_.is_set())
        co_return;
    copies_->expect_frame_size(c.session().tuned().frame_size_max);
    if (!started_once_ && std::any_of(subscriptions_.begin(), subscriptions_.end(),
                                      [](const auto& s) { return s->publishes_copies(); }))
        co_await connect_for_copies();
    if (stop_.is_set())
        co_return;
    if (declare_topology_)
        co_await declare_exchanges(c, exchanges_);
    for (auto& s : subscriptions_)
        co_await s->start(c, declare_topology_);
    if (started_once_)
        ++reconnects_;
    started_once_ = true;
    last_start_ = runtime::loop::current().now();
    started_.set();
}

runtime::task<> service::connect_for_copies()
{
    try {
        co_await runtime::with_scope([this](runtime::scope& connecting) -> runtime::task<> {
            connecting.spawn(cancel_when_stopped(connecting));
            co_await copies_->ready();
            connecting.cancel();
        });
    } catch (const runtime::operation_cancelled&) {
        throw;
    } catch (const std::exception& e) {
        throw start_error(fmt::format("the connection for copies: {}", e.what()));
    }
}

runtime::task<> service::consume_until_stopped(amqp::connection& c)
{
    co_await runtime::with_scope([&](runtime::scope& keepers) -> runtime::task<> {
        for (auto& s : subscriptions_)
            keepers.spawn(s->keep_consuming(c, declare_topology_));
        co_await stop_.wait();
        phase_ = phase::stopping;
        keepers.cancel();
    });
}

runtime::task<> service::drain_within_deadline()
{
    auto& loop = runtime::loop::current();
    const auto began = loop.now();
    phase_ = phase::draining;
    finish_up();
    if (!cut_short_)
        co_await until_cut_short(drain_subscriptions());
    drain_time_ = loop.now() - began;
    if (cut_short_) {
        for (auto& s : subscriptions_)
            s->abandon();
    }
}

void service::finish_up() noexcept
{
    const auto until = runtime::later(runtime::loop::current().now(), time_to_drain());
    for (auto& s : subscriptions_)
        s->finish_up(until, drain_timers_);
}

runtime::task<> service::drain_subscriptions()
{
    co_await runtime::with_scope([this](runtime::scope& draining) -> runtime::task<> {
        for (auto& s : subscriptions_)
            draining.spawn(s->drain(drain_policy_));
        co_return;
    });
}

runtime::task<> service::wait_until_done()
{
    for (auto& s : subscriptions_)
        co_await s->wait_until_done();
}

runtime::task<> service::until_cut_short(runtime::task<> what)
{
    try {
        co_await runtime::with_timeout(time_to_drain(), abortable(std::move(what)));
    } catch (const runtime::timed_out&) {
        cut_short_ = true;
    }
}

runtime::task<> service::abortable(runtime::task<> what)
{
    struct known {
        service& self;
        ~known() { self.draining_ = nullptr; }
    } const until_it_ends{*this};
    co_await runtime::with_scope([&](runtime::scope& tasks) -> runtime::task<> {
        draining_ = &tasks;
        tasks.spawn(std::move(what));
        co_return;
    });
}

void service::cut_short() noexcept
{
    cut_short_ = true;
    if (draining_ != nullptr) {
        draining_->cancel();
    } else if (connected_ != nullptr && (phase_ == phase::starting || phase_ == phase::stopping ||
                                         phase_ == phase::closing)) {
        // Nothing is left to settle, or a verb keeps the stop waiting: go without a goodbye.
        leave();
    }
}

void service::leave() noexcept
{
    cut_short_ = true;
    left_ = true;
    connected_->cancel();
}

void service::request_stop(std::exception_ptr why) noexcept
{
    if (!error_)
        error_ = std::move(why);
    begin_to_stop();
}

void service::begin_to_stop() noexcept
{
    if (stop_.is_set())
        return;
    stop_.set();
    drain_until_ = runtime::later(runtime::loop::current().now(), drain_deadline_);
}

std::chrono::nanoseconds service::time_to_drain() const noexcept
{
    if (!stop_.is_set())
        return drain_deadline_; // after a start that failed
    return std::max(std::chrono::nanoseconds{}, drain_until_ - runtime::loop::current().now());
}

std::chrono::nanoseconds service::time_to_say_goodbye() const noexcept
{
    return cut_short_ ? goodbye_after_abort
                      : std::max<std::chrono::nanoseconds>(time_to_drain(), goodbye_after_abort);
}

void service::stop()
{
    ask(false);
}

void service::abort()
{
    ask(true);
}

void service::ask(bool abort)
{
    const std::lock_guard lock(asked_mutex_);
    asked_to_stop_ = true;
    asked_to_abort_ = asked_to_abort_ || abort;
    if (loop_ == nullptr)
        return;
    loop_->post([running = running_, abort] {
        if (*running == nullptr)
            return; // it ended, and may be gone, before the loop came to this
        (*running)->begin_to_stop();
        if (abort)
            (*running)->cut_short();
    });
}

runtime::task<> service::started()
{
    co_await started_.wait();
    if (over_ && !started_once_)
        throw start_error("the service ended before it consumed");
}

report service::make_report() const
{
    report r;
    for (const auto& s : subscriptions_)
        r.queues.push_back(
            {.queue = s->queue().name, .metrics = s->metrics(), .left = s->left_unfinished()});
    r.reconnects = reconnects_;
    r.drain_time = drain_time_;
    r.cut_short = cut_short_;
    r.error = error_;
    return r;
}

} // namespace acquit::settle
