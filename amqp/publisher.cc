#include <acquit/amqp/detail/destination.h>
#include <acquit/amqp/detail/publish_record.h>
#include <acquit/amqp/publisher.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/loop.h>
#include <acquit/runtime/timeout.h>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace acquit::amqp {

namespace {

using detail::destination;

using milliseconds_text = std::array<char, 24>; // any 64-bit number

/// What the broker closed the channel or the connection with; 0: it did not.
std::uint16_t code_of(const std::exception_ptr& cause) noexcept
{
    try {
        std::rethrow_exception(cause);
    } catch (const channel_error& e) {
        return e.code();
    } catch (const connection_error& e) {
        return e.code();
    } catch (...) {
        return 0;
    }
}

std::optional<publish_error::reason> failure_in(publish_result result) noexcept
{
    switch (result) {
    case publish_result::confirmed:
        return std::nullopt;
    case publish_result::nacked:
        return publish_error::reason::nacked;
    case publish_result::returned:
        return publish_error::reason::returned;
    case publish_result::lost:
    case publish_result::pending:
        break;
    }
    return publish_error::reason::lost;
}

} // namespace

/// The gate, if this call had to wait for it: the next call's when this is over.
class publisher::turn {
public:
    explicit turn(runtime::semaphore& gate) noexcept : gate_(gate) {}
    ~turn() { leave(); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    void hold() noexcept { held_ = true; }
    /// The gate stays closed: somebody else holds it now.
    void pass_on() noexcept { held_ = false; }
    void leave() noexcept
    {
        if (std::exchange(held_, false))
            gate_.release();
    }

private:
    runtime::semaphore& gate_;
    bool held_ = false;
};

/// A coroutine of the publisher's, as long as it runs.
class publisher::running_call {
public:
    explicit running_call(std::size_t& count) noexcept : count_(count) { ++count_; }
    ~running_call() { --count_; }
    running_call(const running_call&) = delete;
    running_call& operator=(const running_call&) = delete;

private:
    std::size_t& count_;
};

publisher::publisher(connection& broker, publisher_options options)
    : options_(std::move(options)), channel_(broker)
{
    ACQUIT_ASSERT(options_.window >= 1, "a publisher with a window of 0 can publish nothing");
    waiting_.next = waiting_.previous = &waiting_;
}

publisher::~publisher()
{
    ACQUIT_ASSERT(calls_ == 0, "a publisher destroyed while {} of its calls are waiting", calls_);
    for (const auto& record : records_) {
        if (record->in_use())
            channel_.forget_confirm(record->number);
    }
    if (waiting_.next == &waiting_)
        return;
    const auto cause = std::make_exception_ptr(
        channel_error(channel_.number(), 200, "its publisher was destroyed"));
    while (waiting_.next != &waiting_) {
        auto& record = detail::publish_record::first_of(waiting_);
        finish(record, {.number = record.number,
                        .failure = publish_error::reason::lost,
                        .code = 200,
                        .cause = cause});
    }
    if (failures_ != 0)
        runtime::log(runtime::log_level::warning,
                     "publisher destroyed, and nobody was told of its failures",
                     {{"failed", std::to_string(failures_)}});
}

runtime::task<> publisher::open()
{
    const running_call here(calls_);
    co_await channel_.open();
    if (options_.confirms)
        co_await channel_.confirm_select();
    usable_ = true;
}

runtime::task<> publisher::close()
{
    const running_call here(calls_);
    if (!std::exchange(usable_, false))
        co_return;
    std::exception_ptr failure;
    try {
        co_await flush();
    } catch (const publish_error&) {
        failure = std::current_exception();
    }
    co_await channel_.close();
    if (failure)
        std::rethrow_exception(failure);
}

runtime::task<> publisher::publish(publication message)
{
    const running_call here(calls_);
    const auto deadline = deadline_of_now();
    turn mine(gate_);
    if (must_wait()) {
        co_await wait_for_turn(deadline);
        mine.hold();
    }
    if (!options_.confirms) {
        co_await write_unconfirmed(message);
        co_return;
    }
    auto ticket = write(message, deadline).ticket();
    mine.leave();
    const publish_answer& answer = co_await ticket.answered();
    if (answer.failure) {
        throw publish_error(
            *answer.failure, answer.code, answer.text(),
            destination(message.exchange.value_or(options_.exchange), message.routing_key),
            answer.cause);
    }
}

runtime::task<publish_ticket> publisher::send(publication message)
{
    const running_call here(calls_);
    const auto deadline = deadline_of_now();
    turn mine(gate_);
    if (must_wait()) {
        co_await wait_for_turn(deadline);
        mine.hold();
    }
    if (options_.confirms)
        co_return write(message, deadline).ticket();
    co_await write_unconfirmed(message);
    co_return publish_ticket{};
}

runtime::task<std::uint64_t> publisher::send(publication message, callback told)
{
    const running_call here(calls_);
    ACQUIT_ASSERT(options_.confirms, "a publisher without confirms cannot call back");
    const auto deadline = deadline_of_now();
    turn mine(gate_);
    if (must_wait()) {
        co_await wait_for_turn(deadline);
        mine.hold();
    }
    auto& record = write(message, deadline);
    record.done = std::move(told);
    co_return record.number;
}

runtime::task<> publisher::flush()
{
    const running_call here(calls_);
    if (!options_.confirms) {
        co_await channel_.barrier();
        co_return;
    }
    const auto last = last_;
    while (waiting_.next != &waiting_ && detail::publish_record::first_of(waiting_).number <= last)
        co_await told_.wait();
    if (failures_ == 0)
        co_return;
    const auto first = std::exchange(first_failure_, {});
    throw publish_error(*first.failure, first.code, first.text(), first.number,
                        std::exchange(failures_, 0), first.cause);
}

publisher_metrics publisher::metrics() const noexcept
{
    publisher_metrics now = counts_;
    now.unanswered = unanswered();
    return now;
}

runtime::time_point publisher::deadline_of_now() const noexcept
{
    return runtime::later(runtime::loop::current().now(), options_.confirm_timeout);
}

bool publisher::has_room() noexcept
{
    auto& broker = channel_.owner();
    return unanswered() < options_.window &&
           broker.output().pending() < broker.options().output_bound;
}

bool publisher::must_wait() noexcept
{
    // On a channel that is over there is nothing to wait for, and writing says why.
    return channel_.is_open() && (gate_.available() == 0 || !has_room());
}

runtime::task<> publisher::wait_for_turn(runtime::time_point deadline)
{
    try {
        co_await runtime::with_timeout(deadline - runtime::loop::current().now(), wait_for_turn());
    } catch (const runtime::timed_out&) {
        throw runtime::timed_out(fmt::format(
            "publish on channel {}: no room within {} ms; {} of {} are unanswered, {} bytes unsent",
            channel_.number(),
            std::chrono::duration_cast<std::chrono::milliseconds>(options_.confirm_timeout).count(),
            unanswered(), options_.window, channel_.owner().output().pending()));
    }
}

runtime::task<> publisher::wait_for_turn()
{
    co_await gate_.acquire();
    turn mine(gate_);
    mine.hold();
    while (channel_.is_open() && !has_room()) {
        if (unanswered() >= options_.window)
            co_await room_.wait(); // a lost channel answers all
        else
            co_await channel_.owner().output_room();
    }
    mine.pass_on(); // to who awaits this
}

outgoing publisher::complete(const publication& message, std::span<char> digits) const
{
    outgoing whole{.exchange = message.exchange.value_or(options_.exchange),
                   .routing_key = message.routing_key,
                   .mandatory = message.mandatory.value_or(options_.mandatory),
                   .properties = message.properties,
                   .body = message.body,
                   .body_owner = message.body_owner};
    if (options_.persistent && !whole.properties.delivery_mode)
        whole.properties.delivery_mode = std::uint8_t{2};
    if (message.ttl) {
        ACQUIT_ASSERT(message.ttl->count() >= 0, "a message that lives {} ms",
                      message.ttl->count());
        char* const begin = digits.data();
        const auto written = std::to_chars(begin, begin + digits.size(), message.ttl->count());
        whole.properties.expiration =
            std::string_view(begin, static_cast<std::size_t>(written.ptr - begin));
    }
    return whole;
}

raw_outgoing publisher::encode(const outgoing& message)
{
    scratch_.resize(wire::encoded_size(message.properties));
    const auto size = wire::encode(scratch_, message.properties);
    if (size == 0)
        throw channel_error(channel_.number(), 502,
                            fmt::format("message to {} not sent: a property has over 255 bytes",
                                        destination(message.exchange, message.routing_key)));
    return {.exchange = message.exchange,
            .routing_key = message.routing_key,
            .mandatory = message.mandatory,
            .properties = scratch_,
            .body = message.body,
            .body_owner = message.body_owner};
}

runtime::task<> publisher::write_unconfirmed(const publication& message)
{
    milliseconds_text digits;
    co_await channel_.publish(complete(message, digits)); // there is room: it does not wait
    ++counts_.published;
}

detail::publish_record& publisher::write(const publication& message, runtime::time_point deadline)
{
    milliseconds_text digits;
    if (free_.empty()) {
        records_.push_back(std::make_unique<detail::publish_record>(*this));
        free_.reserve(records_.capacity()); // an answer may not fail
        free_.push_back(records_.back().get());
    }
    auto& record = *free_.back();
    last_ = channel_.publish_raw(encode(complete(message, digits)), record);
    free_.pop_back();
    record.begin(last_, deadline, waiting_);
    ++counts_.published;
    if (!timer_.armed()) // not taken back with the answer: that would be work for each message
        timer_.arm(runtime::loop::current(), deadline);
    return record;
}

void publisher::on_answer(detail::publish_record& record, publish_result result,
                          std::uint16_t code) noexcept
{
    if (!record.told()) {
        publish_answer answer{.number = record.number, .failure = failure_in(result), .code = code};
        if (answer.failure == publish_error::reason::lost) {
            answer.cause = channel_.failure();
            answer.code = code_of(answer.cause);
        }
        finish(record, answer);
    }
    record.number = 0;
    free_.push_back(&record);
    room_.notify_one();
}

void publisher::finish(detail::publish_record& record, const publish_answer& answer) noexcept
{
    count(answer);
    if (!record.tell(answer) && answer.failure && failures_++ == 0)
        first_failure_ = answer;
    told_.notify_all();
}

void publisher::count(const publish_answer& answer) noexcept
{
    if (!answer.failure) {
        ++counts_.confirmed;
        return;
    }
    switch (*answer.failure) {
    case publish_error::reason::returned:
        ++counts_.returned;
        return;
    case publish_error::reason::nacked:
        ++counts_.nacked;
        return;
    case publish_error::reason::timed_out:
        ++counts_.timed_out;
        return;
    case publish_error::reason::lost:
        ++counts_.lost;
        return;
    }
}

/// The oldest are first: all have the same time.
void publisher::expire() noexcept
{
    auto& loop = runtime::loop::current();
    while (waiting_.next != &waiting_) {
        auto& record = detail::publish_record::first_of(waiting_);
        if (record.deadline > loop.now()) {
            timer_.arm(loop, record.deadline);
            return;
        }
        finish(record, {.number = record.number, .failure = publish_error::reason::timed_out});
    }
}

} // namespace acquit::amqp
