#include <acquit/amqp/channel.h>
#include <acquit/amqp/connection.h>
#include <acquit/runtime/assert.h>
#include <acquit/runtime/log.h>
#include <acquit/runtime/socket.h>
#include <acquit/runtime/timeout.h>
#include <acquit/runtime/timer.h>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace acquit::amqp {

namespace {

using namespace std::chrono_literals;

/// How long the last frames and the peer's end of stream may take once the connection is over.
constexpr auto goodbye_limit = 1s;

std::uint64_t nanoseconds_of(runtime::time_point t) noexcept
{
    return static_cast<std::uint64_t>(t.time_since_epoch().count());
}

std::uint64_t now_ns() noexcept
{
    return nanoseconds_of(runtime::loop::current().now());
}

runtime::task<> until_set(runtime::event& awaited)
{
    co_await awaited.wait();
}

} // namespace

/// Where the writer waits while there is nothing to send. The end of the turn resumes it on the
/// spot, so that its send goes with the enter that comes next anyway.
class connection::output_gate final : public runtime::waiter {
public:
    explicit output_gate(connection& owner) noexcept : owner_(owner) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept
    {
        if (!suspend(handle))
            return false;
        owner_.writer_ = this;
        return true;
    }
    void await_resume()
    {
        owner_.writer_ = nullptr;
        throw_if_cancelled();
    }

private:
    void on_cancel() noexcept override
    {
        owner_.writer_ = nullptr;
        mark_cancelled();
        runtime::loop::current().make_ready(*this);
    }
    connection& owner_;
};

connection::connection(connection_options options)
    : options_(std::move(options)), session_(options_.session)
{
    wipe(options_.session.password);
}

connection::~connection()
{
    ACQUIT_ASSERT(phase_ == phase::idle || phase_ == phase::over,
                  "connection to {} destroyed while run() is active", peer_);
}

runtime::task<> connection::run()
{
    ACQUIT_ASSERT(phase_ == phase::idle, "connection::run() called twice");
    phase_ = phase::connecting;
    std::exception_ptr why;
    bool cancelled = false;
    try {
        co_await runtime::with_scope([this](runtime::scope& tasks) -> runtime::task<> {
            serving_ = &tasks;
            handshake_deadline_ = runtime::loop::current().now() + options_.connect_timeout;
            stream_ = co_await runtime::with_timeout(options_.connect_timeout, connect());
            peer_ = stream_->peer();
            input_ = std::make_unique<runtime::receive_buffer>(runtime::loop::current());
            co_await serve(tasks);
            tasks.cancel();
        });
    } catch (const runtime::operation_cancelled&) {
        cancelled = true;
        why = std::current_exception();
    } catch (const runtime::io_error& failed) {
        why = std::make_exception_ptr(connection_error(failed.what()));
    } catch (const runtime::timed_out& late) {
        why = std::make_exception_ptr(connection_error(fmt::format(
            "no connection to {}: {}",
            options_.hosts.empty() ? "the broker" : options_.hosts.front().host, late.what())));
    } catch (...) {
        why = std::current_exception();
    }
    serving_ = nullptr;
    // What the broker said outweighs how the socket ended afterwards.
    if (failure_ && !cancelled)
        why = failure_;
    // Who waits on this connection was not cancelled himself.
    end(cancelled
            ? std::make_exception_ptr(connection_error("the connection was cancelled by this side"))
            : why);
    if (why)
        std::rethrow_exception(why);
}

runtime::task<std::unique_ptr<runtime::stream>> connection::connect()
{
    if (options_.connector)
        co_return co_await options_.connector();
    if (!options_.unix_path.empty())
        co_return co_await runtime::connect_unix(options_.unix_path);
    if (options_.hosts.empty())
        throw connection_error("no host to connect to");
    std::string reasons;
    for (const auto& host : options_.hosts) {
        try {
            co_return co_await runtime::connect_tcp(host.host, host.port);
        } catch (const runtime::io_error& failed) {
            if (!reasons.empty())
                reasons += "; ";
            reasons += failed.what();
        }
    }
    throw connection_error(reasons);
}

runtime::task<> connection::serve(runtime::scope& tasks)
{
    session_.start(now_ns());
    tasks.spawn(write_loop());
    tasks.spawn(handshake_watch());
    output_written();
    co_await read_loop();
    co_await say_goodbye();
}

runtime::task<> connection::read_loop()
{
    for (;;) {
        while (pauses_ != 0)
            co_await resume_.wait();
        if (co_await input_->receive(*stream_) == 0)
            throw connection_error(end_of_stream_text());
        ++traffic_.receives;
        session_.note_input(now_ns());
        if (take_in()) {
            // Nothing may be written for a channel behind the close.
            if (failure_) {
                phase_ = phase::closing;
                lose_channels(failure_);
            }
            co_return;
        }
        if (!session_.output().open_empty())
            output_written();
    }
}

// Not in the coroutine, whose variables live in memory: this is what a message costs.
bool connection::take_in()
{
    const auto received = input_->unread();
    auto unread = received;
    bool over = false;
    for (;;) {
        if (session_.next_delivery(unread)) [[likely]] {
            const auto& content = session_.content();
            unread = unread.subspan(content.consumed);
            if (channel* const c = content.channel < channels_.size() ? channels_[content.channel]
                                                                      : nullptr) [[likely]]
                c->on_delivery(content, input_->current());
        } else {
            const event e = session_.next_other(unread);
            if (e.kind == event_kind::need_more) {
                input_->require(e.wanted);
                break;
            }
            unread = unread.subspan(e.consumed);
            over = dispatch(e);
        }
        if (over || failure_) [[unlikely]] {
            over = true;
            break;
        }
    }
    traffic_.bytes_in += received.size() - unread.size();
    input_->consume(received.size() - unread.size());
    return over;
}

bool connection::dispatch(const event& e)
{
    channel* const c = e.channel < channels_.size() ? channels_[e.channel] : nullptr;
    switch (e.kind) {
    case event_kind::content:
        if (c != nullptr)
            c->on_content(session_.content(), input_->current());
        return failure_ != nullptr;
    case event_kind::method:
        if (c != nullptr)
            c->on_method(session_.method());
        return failure_ != nullptr;
    case event_kind::need_more:
    case event_kind::nothing:
    case event_kind::secret_updated:
        return false;
    case event_kind::opened:
        phase_ = phase::open;
        opened_.set();
        return false;
    case event_kind::channel_opened:
        if (c != nullptr)
            c->on_opened();
        return false;
    case event_kind::channel_closed: {
        if (c == nullptr)
            return false;
        const auto& info = session_.close_info();
        detach(e.channel);
        c->lose(std::make_exception_ptr(
            channel_error(e.channel, static_cast<std::uint16_t>(info.code), info.text,
                          info.offender.class_id, info.offender.method_id)));
        return false;
    }
    case event_kind::channel_close_ok:
        if (c != nullptr)
            c->on_close_ok();
        return false;
    case event_kind::blocked:
        blocked_ = true;
        blocked_reason_ = session_.blocked_reason();
        runtime::log(runtime::log_level::warning, "the broker blocks publishing",
                     {{"peer", peer_}, {"reason", blocked_reason_}});
        if (on_blocked)
            on_blocked();
        return false;
    case event_kind::unblocked:
        blocked_ = false;
        blocked_reason_.clear();
        if (on_blocked)
            on_blocked();
        return false;
    case event_kind::closed: {
        const auto& info = session_.close_info();
        if (info.by_peer)
            failure_ = std::make_exception_ptr(
                connection_error(static_cast<std::uint16_t>(info.code), info.text, peer_));
        return true;
    }
    case event_kind::failed:
        failure_ = std::make_exception_ptr(
            connection_error(fmt::format("{}: {}", peer_, session_.fault_text())));
        return true;
    }
    return false;
}

runtime::task<> connection::write_loop()
{
    auto& output = session_.output();
    for (;;) {
        while (output.open_empty()) {
            if (writer_stopped_) {
                writer_done_.set();
                co_return;
            }
            co_await output_gate(*this);
        }
        const std::size_t size = output.open_size();
        const bool gathered = output.open_has_shared();
        if (gathered) {
            send_parts_.clear();
            for (const auto part : output.begin_gathered_send())
                send_parts_.push_back({const_cast<std::byte*>(part.data()), part.size()});
        }
        try {
            if (gathered)
                co_await stream_->write(send_parts_);
            else
                co_await stream_->write(output.begin_send());
        } catch (...) {
            output.end_send();
            throw;
        }
        ++traffic_.sends;
        traffic_.bytes_out += size;
        output.end_send();
        session_.note_output(now_ns());
        if (output.pending() < options_.output_bound)
            room_.notify_all();
    }
}

void connection::output_written()
{
    runtime::loop::current().at_turn_end(hook_);
}

void connection::wake_writer() noexcept
{
    if (writer_ != nullptr && (!session_.output().open_empty() || writer_stopped_))
        std::exchange(writer_, nullptr)->resume_now();
}

runtime::task<> connection::output_room()
{
    while (phase_ != phase::over && session_.output().pending() >= options_.output_bound)
        co_await room_.wait();
    if (phase_ == phase::over)
        throw connection_error("the connection ended before the publish");
}

runtime::task<> connection::handshake_watch()
{
    const auto left = handshake_deadline_ - runtime::loop::current().now();
    try {
        co_await runtime::with_timeout(left, opened());
    } catch (const runtime::timed_out&) {
        throw connection_error(fmt::format(
            "{}: connecting and the AMQP handshake were not done within {} ms", peer_,
            std::chrono::duration_cast<std::chrono::milliseconds>(options_.connect_timeout)
                .count()));
    }
    co_await heartbeat_loop();
}

runtime::task<> connection::heartbeat_loop()
{
    for (;;) {
        // While nothing is read the peer's silence says nothing.
        if (pauses_ != 0)
            session_.note_input(now_ns());
        auto beat = session_.tick(now_ns());
        if (beat.peer_dead) {
            // A process that was stopped for a while finds the peer's bytes waiting: read first.
            co_await runtime::sleep(0ns);
            beat = session_.tick(now_ns());
        }
        if (beat.peer_dead) {
            throw connection_error(
                fmt::format("{}: no sign of life within two heartbeats ({} s each)", peer_,
                            session_.tuned().heartbeat_s));
        }
        if (!session_.output().open_empty())
            output_written();
        if (beat.next_ns == never_ns)
            co_return;
        co_await runtime::sleep_until(runtime::time_point(std::chrono::nanoseconds(beat.next_ns)));
    }
}

runtime::task<> connection::opened()
{
    co_await opened_.wait();
    if (phase_ == phase::over) {
        if (failure_)
            std::rethrow_exception(failure_);
        throw connection_error("the connection is closed");
    }
}

runtime::task<> connection::close(std::uint16_t code, std::string text)
{
    if (phase_ == phase::idle || phase_ == phase::over)
        co_return;
    if (phase_ == phase::connecting) {
        failure_ = std::make_exception_ptr(connection_error("closed before it was open"));
        serving_->cancel();
        co_await over_.wait();
        co_return;
    }
    if (phase_ != phase::closing) {
        phase_ = phase::closing;
        lose_channels(
            std::make_exception_ptr(connection_error("the connection was closed by this side")));
        (void)session_.close(static_cast<wire::reply_code>(code), text);
        output_written();
    }
    bool late = false;
    try {
        co_await runtime::with_timeout(options_.operation_timeout, until_set(over_));
    } catch (const runtime::timed_out&) {
        late = true;
    }
    if (late && phase_ != phase::over) {
        failure_ = std::make_exception_ptr(
            connection_error(fmt::format("{}: no answer to connection.close", peer_)));
        if (serving_ != nullptr)
            serving_->cancel();
        co_await over_.wait();
    }
}

runtime::task<> connection::say_goodbye()
{
    // What stands in the output goes first: our close, or the answer to the peer's. Then our end of
    // the stream, then the peer's: a socket that is closed with unread bytes sends a reset, which
    // may overtake our last frames.
    writer_stopped_ = true;
    wake_writer();
    try {
        co_await runtime::with_timeout(goodbye_limit, until_set(writer_done_));
        stream_->shutdown_write();
        co_await runtime::with_timeout(goodbye_limit, read_to_end());
    } catch (const runtime::io_error&) {
    } catch (const runtime::timed_out&) {
        // The peer owes us nothing more.
    }
}

runtime::task<> connection::read_to_end()
{
    while (co_await input_->receive(*stream_) != 0)
        input_->consume(input_->unread().size());
}

void connection::end(std::exception_ptr why) noexcept
{
    failure_ = why;
    phase_ = phase::over;
    lose_channels(why ? why
                      : std::make_exception_ptr(connection_error("the connection is closed")));
    // Nothing of it may be in flight from here on: the loop may end before this object does.
    if (input_)
        input_->clear();
    if (stream_)
        stream_->close();
    opened_.set();
    over_.set();
    room_.notify_all();
    resume_.notify_all();
}

void connection::lose_channels(const std::exception_ptr& why) noexcept
{
    // A channel that hears of it may destroy others, which take themselves off the list.
    for (std::size_t i = 0; i < channels_.size(); ++i) {
        if (auto* c = std::exchange(channels_[i], nullptr))
            c->lose(why);
    }
}

std::string connection::end_of_stream_text() const
{
    if (session_.is_open())
        return fmt::format("{} closed the connection without a word", peer_);
    return fmt::format(
        "{} closed the connection during the AMQP handshake without a word. RabbitMQ does "
        "so when it refuses what was tuned (frame size, channels), on a port that speaks "
        "TLS, or when its clients' properties are too large",
        peer_);
}

bool connection::server_is_at_least(int major, int minor) const
{
    if (session_.server_product() != "RabbitMQ")
        return false;
    const std::string version = session_.server_version();
    int found_major = 0;
    int found_minor = 0;
    const char* const stop = version.data() + version.size();
    const auto [dot, failed] = std::from_chars(version.data(), stop, found_major);
    if (failed != std::errc{} || dot == stop)
        return false;
    if (std::from_chars(dot + 1, stop, found_minor).ec != std::errc{})
        return false;
    return found_major > major || (found_major == major && found_minor >= minor);
}

void connection::protocol_violation(const std::string& what)
{
    failure_ = std::make_exception_ptr(connection_error(fmt::format("{} sent {}", peer_, what)));
    (void)session_.close(wire::reply_code::command_invalid, what);
}

void connection::resume_reading() noexcept
{
    ACQUIT_DEBUG_ASSERT(pauses_ != 0, "resume_reading without a pause");
    if (--pauses_ == 0)
        resume_.notify_all();
}

void connection::attach(channel& c, std::uint16_t number)
{
    if (channels_.size() <= number)
        channels_.resize(std::size_t{number} + 1);
    channels_[number] = &c;
}

void connection::detach(std::uint16_t number) noexcept
{
    if (number < channels_.size())
        channels_[number] = nullptr;
}

} // namespace acquit::amqp
