#pragma once

#include <acquit/amqp/connection_options.h>
#include <acquit/amqp/message.h>
#include <acquit/amqp/session/session.h>
#include <acquit/amqp/wire/methods.h>
#include <acquit/runtime/event.h>
#include <acquit/runtime/receive_buffer.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>

namespace acquit::testing {

using runtime::scope;
using runtime::task;
namespace wire = amqp::wire;

/// A server that keeps one consumer's window full until it has sent `total` messages, notes how each
/// tag was settled, and takes nothing from the heap for it. Bodies are 100 bytes and begin with the tag.
class feeder {
public:
    enum class verdict : char { none, ack, drop, requeue };

    feeder(runtime::loop& owner, int fd, std::uint64_t total, std::uint64_t prefetch)
        : stream_(owner, fd, "feeder"), session_(amqp::server_options{}), input_(owner),
          verdicts_(total + 1), total_(total), prefetch_(prefetch)
    {
    }

    task<> serve()
    {
        session_.start(0);
        try {
            co_await runtime::with_scope([this](scope& tasks) -> task<> {
                tasks.spawn(write_loop());
                co_await read_loop();
                over_ = true;
                wake_.notify_all();
            });
        } catch (const runtime::io_error&) {
        }
        stream_.close();
    }

    [[nodiscard]] std::uint64_t settled() const noexcept { return settled_; }
    /// Settlements of a tag that was settled before, or never sent.
    [[nodiscard]] std::uint64_t wrong() const noexcept { return wrong_; }
    [[nodiscard]] verdict of(std::uint64_t tag) const { return verdicts_.at(tag); }

private:
    task<> read_loop()
    {
        while (co_await input_.receive(stream_) != 0) {
            for (;;) {
                const auto e = session_.next(input_.unread());
                if (e.kind == amqp::event_kind::need_more) {
                    input_.require(e.wanted);
                    break;
                }
                if (e.kind == amqp::event_kind::method)
                    answer(session_.method());
                input_.consume(e.consumed);
            }
            fill_window();
            wake_.notify_all();
        }
    }

    task<> write_loop()
    {
        auto& output = session_.output();
        for (;;) {
            while (output.open_empty()) {
                if (over_)
                    co_return;
                co_await wake_.wait();
            }
            const auto bytes = output.begin_send();
            co_await stream_.write(bytes);
            output.end_send();
        }
    }

    template <class M>
    static M decoded(const amqp::method_event& m)
    {
        M method;
        (void)wire::decode(m.payload, method).ok();
        return method;
    }

    void answer(const amqp::method_event& m)
    {
        if (m.id == wire::id_of<wire::queue::declare>) {
            (void)session_.send(m.channel, wire::queue::declare_ok{.queue = "q"});
        } else if (m.id == wire::id_of<wire::basic::qos>) {
            (void)session_.send(m.channel, wire::basic::qos_ok{});
        } else if (m.id == wire::id_of<wire::basic::consume>) {
            tag_ = decoded<wire::basic::consume>(m).consumer_tag;
            (void)session_.send(m.channel, wire::basic::consume_ok{.consumer_tag = tag_});
            channel_ = m.channel;
        } else if (m.id == wire::id_of<wire::basic::cancel>) {
            (void)session_.send(m.channel, wire::basic::cancel_ok{.consumer_tag = tag_});
            channel_ = 0;
        } else if (m.id == wire::id_of<wire::basic::ack>) {
            const auto method = decoded<wire::basic::ack>(m);
            if (method.multiple)
                settle_up_to(method.delivery_tag);
            else
                settle(method.delivery_tag, verdict::ack);
        } else if (m.id == wire::id_of<wire::basic::reject>) {
            const auto method = decoded<wire::basic::reject>(m);
            settle(method.delivery_tag, method.requeue ? verdict::requeue : verdict::drop);
        }
        while (low_ <= sent_ && verdicts_[low_] != verdict::none)
            ++low_;
    }

    void settle_up_to(std::uint64_t last)
    {
        // RabbitMQ refuses an ack that settles nothing.
        const auto before = settled_;
        for (auto tag = low_; tag <= last && tag <= sent_; ++tag) {
            if (verdicts_[tag] == verdict::none)
                settle(tag, verdict::ack);
        }
        wrong_ += settled_ == before || last > sent_ ? 1 : 0;
    }

    void settle(std::uint64_t tag, verdict how)
    {
        if (tag == 0 || tag > sent_ || verdicts_[tag] != verdict::none) {
            ++wrong_;
            return;
        }
        verdicts_[tag] = how;
        ++settled_;
    }

    void fill_window()
    {
        while (channel_ != 0 && sent_ < total_ && sent_ - settled_ < prefetch_) {
            ++sent_;
            std::memcpy(body_.data(), &sent_, sizeof sent_);
            (void)session_.send_content(channel_,
                                        wire::basic::deliver{.consumer_tag = tag_,
                                                             .delivery_tag = sent_,
                                                             .exchange = "",
                                                             .routing_key = "q"},
                                        wire::properties{}, amqp::bytes_of(body_));
        }
    }

    runtime::socket_stream stream_;
    amqp::session session_;
    runtime::receive_buffer input_;
    std::vector<verdict> verdicts_;
    std::string tag_;
    std::string body_ = std::string(100, 'x');
    runtime::notifier wake_;
    std::uint64_t total_;
    std::uint64_t prefetch_;
    std::uint64_t sent_ = 0;
    std::uint64_t settled_ = 0;
    std::uint64_t wrong_ = 0;
    std::uint64_t low_ = 1;
    std::uint16_t channel_ = 0;
    bool over_ = false;
};

/// Runs `body(options, feeder)` beside a feeder to which these client options lead.
template <class F>
void beside(std::uint64_t total, std::uint64_t prefetch, F body)
{
    runtime::loop events;
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw runtime::io_error(errno, "socketpair");
    feeder there(events, ends[1], total, prefetch);
    amqp::connection_options options;
    options.connector = [&events, fd = ends[0]]() -> task<std::unique_ptr<runtime::stream>> {
        co_return std::make_unique<runtime::socket_stream>(events, fd, "feeder");
    };
    events.run([](feeder& f, amqp::connection_options& o, F& run) -> task<> {
        co_await runtime::with_scope([&](scope& s) -> task<> {
            s.spawn(f.serve());
            co_await run(o, f);
        });
    }(there, options, body));
}

} // namespace acquit::testing
