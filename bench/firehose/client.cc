#include "client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

namespace acquit::firehose {

namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t handshake_ns = 10 * second_ns;
constexpr std::uint64_t goodbye_ns = 3 * second_ns;

constexpr std::size_t input_size_first = 64 * 1024;
// Of the session's answers; a client that asks and does not read is not read either.
constexpr std::size_t answers_max = 1024 * 1024;
constexpr std::size_t pieces_max = 64;
constexpr std::size_t batch_size = 512 * 1024;
// Then others have their turn.
constexpr unsigned receives_per_turn = 16;
constexpr unsigned sends_per_turn = 8;
constexpr std::size_t random_write_max = 4000;

amqp::server_options session_options(const settings& how)
{
    amqp::server_options o;
    o.frame_size_max = how.frame_size_max;
    o.channel_max = how.channel_max;
    o.heartbeat_s = how.heartbeat_s;
    o.limits.open_channels_max = how.channel_max;
    o.limits.body_size_max = 0; // bodies of publishes are skipped as they come
    return o;
}

} // namespace

client::client(floor& shared, int fd)
    : shared_(shared), fd_(fd), session_(session_options(shared.how)),
      input_(std::make_unique_for_overwrite<std::byte[]>(input_size_first)),
      input_size_(input_size_first),
      random_(static_cast<std::minstd_rand::result_type>(shared.how.writes.value + 1)),
      deadline_ns_(shared.now_ns + handshake_ns)
{
    session_.start(shared.now_ns);
    batch_.reserve(pieces_max + 1);
}

client::~client()
{
    end();
    ::close(fd_);
}

void client::schedule()
{
    if (!scheduled_ && !over_) {
        scheduled_ = true;
        shared_.pending.push_back(this);
    }
}

void client::on_ready(bool readable, bool writable, bool over) noexcept
{
    end_is_near_ = end_is_near_ || over;
    readable_ = readable_ || readable || over;
    writable_ = writable_ || writable || over;
    schedule();
}

void client::work()
{
    scheduled_ = false;
    if (!over_ && readable_)
        read();
    if (!over_ && writable_)
        write();
}

std::uint64_t client::next_tick_ns() const noexcept
{
    return std::min(session_.next_tick_ns(), deadline_ns_);
}

void client::tick()
{
    if (over_ || shared_.now_ns < next_tick_ns())
        return;
    if (shared_.now_ns >= deadline_ns_)
        return end();
    if (session_.tick(shared_.now_ns).peer_dead && !readable_)
        return end();
    schedule();
}

// The session is over: what it has to say still goes, and the client has a while to close its end.
void client::leave()
{
    for (std::size_t i = 0; i < channels_.size(); ++i)
        end_channel(static_cast<std::uint16_t>(i));
    leaving_ = true;
    deadline_ns_ = shared_.now_ns + goodbye_ns;
}

// Everything that is left of the client is given up.
void client::end() noexcept
{
    if (std::exchange(over_, true))
        return;
    batch_.clear();
    in_batch_.clear();
    for (std::size_t i = 0; i < channels_.size(); ++i)
        end_channel(static_cast<std::uint16_t>(i));
    (void)::shutdown(fd_, SHUT_RDWR);
}

// ---- in ------------------------------------------------------------------------------------------

void client::read()
{
    for (unsigned i = 0; i < receives_per_turn; ++i) {
        if (session_.output().pending() > answers_max)
            return; // readable_ stays: on with it when the output is gone
        const bool more = receive();
        if (over_)
            return;
        parse();
        if (!more || over_)
            return;
    }
    schedule();
}

// False: there is nothing more for now.
bool client::receive()
{
    if (begin_ == end_) {
        begin_ = end_ = 0;
    } else if (input_size_ - end_ < input_size_ / 4) {
        std::memmove(input_.get(), input_.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    const auto room = input_size_ - end_;
    const auto got = ::recv(fd_, input_.get() + end_, room, 0);
    ++shared_.seen.receives;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        readable_ = errno == EINTR;
        return readable_;
    }
    if (got <= 0) {
        end();
        return false;
    }
    session_.note_input(shared_.now_ns);
    end_ += static_cast<std::size_t>(got);
    // The end of the stream is told once, maybe together with the bytes before it.
    readable_ = static_cast<std::size_t>(got) == room || end_is_near_;
    return readable_;
}

void client::parse()
{
    const auto before = shared_.seen.settlement_frames;
    while (!over_) {
        const std::span<const std::byte> unread(input_.get() + begin_, end_ - begin_);
        settlement found;
        if (parse_settlement(unread, found) && settle(found)) {
            begin_ += wire::settle_frame_size;
            continue;
        }
        const auto e = session_.next(unread);
        if (e.kind == amqp::event_kind::need_more) {
            if (e.wanted >
                input_size_) { // bounded by the session: frame_max, and 1 MiB for headers
                auto larger = std::make_unique_for_overwrite<std::byte[]>(e.wanted + input_size_);
                std::memcpy(larger.get(), unread.data(), unread.size());
                input_ = std::move(larger);
                input_size_ += e.wanted;
                begin_ = 0;
                end_ = unread.size();
            } else if (e.wanted > input_size_ - begin_) {
                std::memmove(input_.get(), unread.data(), unread.size());
                begin_ = 0;
                end_ = unread.size();
            }
            break;
        }
        begin_ += e.consumed;
        handle(e);
    }
    confirm_publishes();
    if (shared_.seen.settlement_frames != before)
        shared_.seen.note_activity(shared_.now_ns);
}

// ---- out -----------------------------------------------------------------------------------------

void client::offer(consumer& c)
{
    if (!c.waiting && c.sendable() != 0) {
        c.waiting = true;
        waiting_.push_back(&c);
        schedule();
    }
}

// Paced: the server calls when the next delivery is due.
void client::wait_for_its_time(consumer& c)
{
    if (c.sendable() != 0) {
        c.waiting = true;
        waiting_.push_back(&c);
    }
}

void client::write()
{
    for (unsigned i = 0; i < sends_per_turn; ++i) {
        if (batch_.empty())
            compose();
        if (batch_.empty()) {
            if (readable_ && session_.output().pending() <= answers_max)
                schedule(); // it was not read because of its output
            if (leaving_ && !said_goodbye_) {
                said_goodbye_ = true;
                (void)::shutdown(fd_, SHUT_WR);
            }
            return;
        }
        if (!send_batch())
            return;
    }
    schedule();
}

void client::compose()
{
    std::size_t size = 0;
    const auto add = [&](std::span<const std::byte> bytes) {
        batch_.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
        size += bytes.size();
    };
    if (auto& output = session_.output(); !output.open_empty()) {
        add(output.begin_send());
        session_in_batch_ = true;
    }
    // Each consumer is served once in a batch, in turn.
    auto& seen = shared_.seen;
    for (std::size_t left = waiting_.size();
         left != 0 && batch_.size() < pieces_max && size < batch_size && !leaving_; --left) {
        consumer& c = *waiting_.front();
        waiting_.pop_front();
        c.waiting = false;
        auto wanted = c.sendable();
        while (wanted != 0 && batch_.size() < pieces_max) {
            wanted = std::min(wanted, shared_.pace.allowance(shared_.now_ns));
            if (wanted == 0)
                break;
            const bool again = c.from->returned != 0;
            if (again)
                wanted = std::min(wanted, c.from->returned);
            if (shared_.pace.active()) {
                wanted = 1;
                c.deliveries->stamp(clock_ns());
            }
            const auto tag = c.on->open.next_tag();
            const auto some = c.deliveries->take(tag, wanted, again);
            add(some.bytes);
            if (c.in_batch == 0)
                in_batch_.push_back(&c);
            c.in_batch += some.count;
            delivered(c, some.count, again);
            wanted = c.sendable();
        }
        if (shared_.pace.active() && shared_.pace.allowance(shared_.now_ns) == 0)
            wait_for_its_time(c);
        else
            offer(c);
    }
    if (seen.first_delivery_ns == 0 && seen.deliveries != 0) {
        seen.first_delivery_ns = shared_.now_ns;
        seen.first_cpu_ns = cpu_ns();
    }
}

void client::delivered(consumer& c, std::uint64_t count, bool again)
{
    auto& seen = shared_.seen;
    seen.deliveries += count;
    if (again) {
        seen.redelivered += count;
        c.from->returned -= count;
    } else if (!c.from->endless) {
        c.from->ready -= count;
    }
    if (shared_.pace.active()) {
        seen.late += shared_.pace.allowance(shared_.now_ns) > 1 ? count : 0;
        shared_.pace.spend(count);
    }
    if (c.no_ack) {
        c.on->open.skip(count);
        seen.no_ack += count;
        seen.note_activity(shared_.now_ns);
        return;
    }
    if (shared_.pace.active()) {
        auto& sent_at = c.on->sent_at;
        sent_at.resize(sent_times);
        sent_at[c.on->open.next_tag() % sent_times] = clock_ns();
    }
    c.on->open.add(count, c.slot);
    c.outstanding += count;
    shared_.unsettled += count;
}

std::size_t client::write_size(std::size_t wanted) noexcept
{
    switch (shared_.how.writes.what) {
    case write_pattern::kind::whole:
        break;
    case write_pattern::kind::fixed:
        return std::min<std::size_t>(wanted, shared_.how.writes.value);
    case write_pattern::kind::random:
        return std::min<std::size_t>(wanted, 1 + random_() % random_write_max);
    }
    return wanted;
}

// False: the socket is full, or gone.
bool client::send_batch()
{
    const auto left = std::span(batch_).subspan(batch_at_);
    msghdr message{};
    message.msg_iov = left.data();
    message.msg_iovlen = left.size();
    iovec part{};
    if (shared_.how.writes.what != write_pattern::kind::whole) {
        part = {left.front().iov_base, write_size(left.front().iov_len)};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
    }
    const auto sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    ++shared_.seen.sends;
    if (sent < 0) {
        if (errno == EAGAIN)
            writable_ = false;
        else if (errno != EINTR)
            end();
        return errno == EINTR;
    }
    session_.note_output(shared_.now_ns);
    shared_.seen.bytes_out += static_cast<std::uint64_t>(sent);
    auto gone = static_cast<std::size_t>(sent);
    for (; batch_at_ < batch_.size() && gone >= batch_[batch_at_].iov_len; ++batch_at_)
        gone -= batch_[batch_at_].iov_len;
    if (batch_at_ == batch_.size()) {
        batch_is_gone();
    } else {
        batch_[batch_at_].iov_base = static_cast<std::byte*>(batch_[batch_at_].iov_base) + gone;
        batch_[batch_at_].iov_len -= gone;
    }
    return true;
}

void client::batch_is_gone()
{
    batch_.clear();
    batch_at_ = 0;
    if (std::exchange(session_in_batch_, false))
        session_.output().end_send();
    for (consumer* const c : in_batch_) {
        c->in_batch = 0;
        if (c->cancelled)
            drop_block(*c);
        else
            offer(*c);
    }
    in_batch_.clear();
    forget_retired();
}

} // namespace acquit::firehose
