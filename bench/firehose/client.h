#pragma once

#include "channel.h"
#include "floor.h"
#include "settle_frame.h"

#include <acquit/amqp/session/session.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace acquit::firehose {

namespace wire = amqp::wire;

/// The server's side of one connection. The session keeps handshake, channels and errors; deliveries
/// and settlements, which are all that counts here, go around it.
///
/// Output leaves in batches: what the session has to say, then pieces of the belts. A batch is sent
/// to its end before the next is put together, so frames never mix and belts are free again.
class client {
public:
    /// Takes the descriptor, which must not block.
    client(floor& shared, int fd);
    ~client();
    client(const client&) = delete;
    client& operator=(const client&) = delete;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    /// The kernel has something for us, or room, or the client has ended the connection.
    void on_ready(bool readable, bool writable, bool over) noexcept;
    /// Reads, answers and delivers for a while. Asks to be called again by `floor::pending`.
    void work();
    /// When `tick` wants to be called.
    [[nodiscard]] std::uint64_t next_tick_ns() const noexcept;
    void tick();
    /// Nothing more is to be had from it.
    [[nodiscard]] bool is_over() const noexcept { return over_; }
    /// Bytes wait for room in its socket.
    [[nodiscard]] bool is_blocked() const noexcept { return !batch_.empty() && !writable_; }

    void schedule();
    /// Some consumer could be sent something, were it time.
    [[nodiscard]] bool has_waiting() const noexcept { return !waiting_.empty(); }
    /// The consumer may have something to get.
    void offer(consumer& c);

private:
    /// Paced: so many tags back the time of sending is known.
    static constexpr std::size_t sent_times = 65536;

    // client.cc
    void read();
    bool receive();
    void parse();
    void write();
    void compose();
    void wait_for_its_time(consumer& c);
    void delivered(consumer& c, std::uint64_t count, bool again);
    bool send_batch();
    void batch_is_gone();
    std::size_t write_size(std::size_t wanted) noexcept;
    void leave();
    void end() noexcept;

    // client_methods.cc
    void handle(const amqp::event& e);
    void answer(channel& c, const amqp::method_event& m);
    void answer_queue(channel& c, const amqp::method_event& m);
    void answer_exchange(channel& c, const amqp::method_event& m);
    void answer_basic(channel& c, const amqp::method_event& m);
    void consume(channel& c, const wire::basic::consume& what);
    void cancel(channel& c, const wire::basic::cancel& what);
    void drop_block(consumer& c) noexcept;
    void recover(channel& c);
    void confirm_publishes();
    void refuse(channel& c, wire::reply_code code, std::string_view text, wire::method_id offender);

    // client_settle.cc
    bool settle(const settlement& s);
    void settled(channel& c, std::uint8_t slot, std::uint64_t count, verdict how);
    void note_latency(const channel& c, std::uint64_t first, std::uint64_t last);
    void refuse_settlement(channel& c, const settlement& s, unsettled::finding found);
    void give_back(queue& q, std::uint64_t count);
    void end_channel(std::uint16_t number);
    void forget_retired() noexcept;

    [[nodiscard]] channel* find(std::uint16_t number) noexcept
    {
        return number < channels_.size() ? channels_[number].get() : nullptr;
    }
    template <class M>
    void say(std::uint16_t channel, const M& method)
    {
        (void)session_.send(channel, method);
    }

    floor& shared_;
    int fd_;
    amqp::session session_;
    std::vector<std::unique_ptr<channel>> channels_; // by number
    std::vector<std::unique_ptr<channel>> retired_;  // whose bytes may stand in the batch
    std::vector<std::uint16_t> to_confirm_;
    std::deque<consumer*> waiting_;
    std::size_t consumers_ = 0;

    std::unique_ptr<std::byte[]> input_;
    std::size_t input_size_ = 0;
    std::size_t begin_ = 0; // unread: [begin_, end_)
    std::size_t end_ = 0;

    std::vector<iovec> batch_; // what is left of it from batch_at_ on
    std::size_t batch_at_ = 0;
    std::vector<consumer*> in_batch_;
    bool session_in_batch_ = false;

    std::minstd_rand random_;
    std::uint64_t deadline_ns_; // of the handshake, and of a goodbye
    bool readable_ = true;
    bool writable_ = true;
    bool end_is_near_ = false;
    bool scheduled_ = false;
    bool leaving_ = false; // when the output is gone
    bool said_goodbye_ = false;
    bool over_ = false;
};

} // namespace acquit::firehose
