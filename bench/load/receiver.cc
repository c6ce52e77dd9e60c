#include "receiver.h"

#include "clock.h"

namespace acquit::bench {

void receiver::arrived(std::span<const std::byte> body) noexcept
{
    meter& m = shared_.measured;
    ++m.now.received;
    const auto mark = read_stamp(body);
    if (!mark)
        return;
    // A message of somebody else has any number here: what is no time of today is not measured. Two
    // machines may disagree a little, one does not.
    const auto latency =
        std::chrono::nanoseconds(stamp_time(shared_.settings.milliseconds) - mark->sent_ns);
    const bool past = latency.count() >= 0 || shared_.settings.milliseconds;
    if (mark->sent_ns > 0 && past && std::chrono::abs(latency) < std::chrono::hours(24))
        m.consumer_latency.record(latency);
}

settle::outcome receiver::draw() noexcept
{
    const auto& shares = shared_.settings.outcomes;
    if (shares.only_acks())
        return settle::ack;
    auto at = random_.below(shares.total());
    if (at < shares.ack)
        return settle::ack;
    at -= shares.ack;
    if (at < shares.drop)
        return settle::drop;
    at -= shares.drop;
    return at < shares.retry ? settle::retry() : settle::retry_after(shared_.settings.retry_after);
}

settle::outcome receiver::decide(std::span<const std::byte> body)
{
    return decide(shared_.kept != nullptr ? read_stamp(body) : std::optional<stamp>{});
}

settle::outcome receiver::decide(const std::optional<stamp>& of_it)
{
    if (full())
        return settle::retry();
    const auto decided = draw();
    counts& now = shared_.measured.now;
    switch (decided.kind()) {
    case settle::outcome_kind::retry:
        ++now.retried;
        return decided;
    case settle::outcome_kind::retry_after:
        ++now.delayed;
        return decided;
    case settle::outcome_kind::ack:
        now.acked += shared_.settings.settles() ? 1 : 0;
        break;
    case settle::outcome_kind::drop:
        ++now.dropped;
        break;
    }
    ++settled_;
    if (shared_.kept != nullptr) {
        if (of_it)
            shared_.kept->settled(*of_it);
        else
            shared_.kept->foreign();
    }
    if (full() || (shared_.kept != nullptr && shared_.kept->open() == 0))
        shared_.on_end();
    return decided;
}

} // namespace acquit::bench
