#include <acquit/amqp/wire/settle_frames.h>
#include <acquit/settle/ledger.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace acquit::settle {
namespace {

namespace wire = amqp::wire;

// One bit each, so that eight tags are tested by one AND.
constexpr std::uint8_t state_gone = 0;
constexpr std::uint8_t state_open = 1;
constexpr auto state_rejected = static_cast<std::uint8_t>(disposition::reject);
constexpr auto state_requeued = static_cast<std::uint8_t>(disposition::requeue);
constexpr auto state_acked = static_cast<std::uint8_t>(disposition::ack);
constexpr std::uint8_t states_refused = state_rejected | state_requeued;
constexpr std::uint8_t states_decided = states_refused | state_acked;
constexpr std::uint8_t states_outstanding = states_decided | state_open;

constexpr std::size_t capacity_min = 64;
// A larger window grows as it fills: a wrong hint costs nothing.
constexpr std::size_t capacity_hint_max = 65536;
// The ring has at least this many places per expected outstanding delivery. So a ring that is full
// although the hint was right holds mostly gone tags, and moving the low half away is cheap per
// tag.
constexpr std::size_t sparseness = 4;

constexpr std::uint64_t no_tag = ~std::uint64_t{0};

constexpr std::uint64_t in_each_byte(std::uint8_t state) noexcept
{
    return state * 0x0101010101010101u;
}

// Eight states, the lowest tag in the lowest byte.
std::uint64_t load_word(const std::uint8_t* from) noexcept
{
    std::uint64_t word;
    std::memcpy(&word, from, sizeof word);
    if constexpr (std::endian::native == std::endian::big)
        word = __builtin_bswap64(word);
    return word;
}

// Of a word with at most one bit in each byte.
std::uint64_t lowest_byte(std::uint64_t word) noexcept
{
    return static_cast<std::uint64_t>(std::countr_zero(word)) / 8;
}
std::uint64_t highest_byte(std::uint64_t word) noexcept
{
    return (63 - static_cast<std::uint64_t>(std::countl_zero(word))) / 8;
}

// Calls step(word, tag of its lowest byte) for the tags of [from, to), eight at a time, until it
// answers false. Bytes outside the range read as gone: what lies there belongs to other tags.
template <class Step>
void for_each_word(const std::uint8_t* ring, std::uint64_t mask, std::uint64_t from,
                   std::uint64_t to, Step&& step) noexcept
{
    if (from >= to)
        return;
    std::uint64_t first = from & ~std::uint64_t{7};
    std::uint64_t word = load_word(ring + (first & mask)) & ~std::uint64_t{0} << 8 * (from - first);
    while (to - first > 8) {
        if (!step(word, first))
            return;
        first += 8;
        word = load_word(ring + (first & mask));
    }
    step(word & ~std::uint64_t{0} >> 8 * (first + 8 - to), first);
}

} // namespace

// Everything decided at the low end: what lies before the first open delivery.
struct ledger::low_run {
    std::uint64_t end = 0;     // the first open tag, or next_
    std::uint64_t top_ack = 0; // the highest acked tag
    std::uint64_t acks = 0;
    bool refusals = false; // rejected or requeued ones among them
};

// Settlement frames, as many as fit.
class ledger::frame_writer {
public:
    frame_writer(std::span<std::byte> out, std::uint16_t channel) noexcept
        : begin_{out.data()}, at_{out.data()}, room_{out.size() / wire::settle_frame_size},
          channel_{channel}
    {
    }

    // Each answers false, and writes nothing, when there is no room for another frame.
    bool ack(std::uint64_t tag, bool multiple, std::uint64_t settles) noexcept
    {
        return take(settles) && (at_ = wire::write_ack(at_, channel_, tag, multiple));
    }
    bool nack(std::uint64_t tag, bool multiple, std::uint64_t settles) noexcept
    {
        return take(settles) && (at_ = wire::write_nack(at_, channel_, tag, multiple, true));
    }
    // What a state says of one tag; an open one is given back.
    bool single(std::uint64_t tag, std::uint64_t state) noexcept
    {
        if (!take(1))
            return false;
        if (state & state_acked)
            at_ = wire::write_ack(at_, channel_, tag, false);
        else if (state & state_open)
            at_ = wire::write_nack(at_, channel_, tag, false, true);
        else
            at_ = wire::write_reject(at_, channel_, tag, (state & state_requeued) != 0);
        return true;
    }

    [[nodiscard]] flush_result result(bool complete) const noexcept
    {
        return {.bytes = static_cast<std::size_t>(at_ - begin_),
                .frames = frames_,
                .settled = settled_,
                .complete = complete};
    }

private:
    bool take(std::uint64_t settles) noexcept
    {
        if (frames_ == room_)
            return false;
        ++frames_;
        settled_ += settles;
        return true;
    }

    std::byte* begin_;
    std::byte* at_;
    std::size_t room_;
    std::uint64_t settled_ = 0;
    std::uint32_t frames_ = 0;
    std::uint16_t channel_;
};

ledger::ledger(std::uint32_t window_hint)
{
    const std::size_t wanted =
        std::min<std::size_t>(sparseness * std::size_t{window_hint}, capacity_hint_max);
    const std::size_t capacity = std::bit_ceil(std::max(wanted, capacity_min));
    ring_ = std::make_unique<std::uint8_t[]>(capacity);
    mask_ = capacity - 1;
    set_base(1);
}

void ledger::make_room()
{
    forget_gone();
    if (next_ - base_ <= mask_ / 2)
        return;
    if ((outstanding() - stragglers_.size()) * sparseness <= capacity())
        move_low_half_to_stragglers();
    else
        grow();
}

void ledger::move_low_half_to_stragglers()
{
    // Room first: if there is none, this throws and nothing has changed.
    stragglers_.reserve(outstanding());
    const std::uint64_t middle = base_ + capacity() / 2;
    for (std::uint64_t tag = base_; (tag = find(tag, middle, states_outstanding)) < middle; ++tag)
        stragglers_.push_back({tag, state_of(tag)});
    set_base(middle);
    forget_gone();
}

void ledger::grow()
{
    const std::uint64_t mask = 2 * mask_ + 1;
    auto ring = std::make_unique<std::uint8_t[]>(mask + 1);
    for (std::uint64_t tag = base_; tag != next_; ++tag)
        ring[tag & mask] = state_of(tag);
    ring_ = std::move(ring);
    mask_ = mask;
    set_base(base_);
}

// A tag that is not open in the ring.
settled ledger::settle_rare(std::uint64_t tag, disposition how) noexcept
{
    if (tag >= base_ && tag < next_)
        return state_of(tag) == state_skipped ? settled::stale : settled::already;
    const auto found = std::ranges::lower_bound(stragglers_, tag, {}, &straggler::tag);
    if (found == stragglers_.end() || found->tag != tag)
        return settled::stale;
    if (found->state != state_open)
        return settled::already;
    found->state = static_cast<std::uint8_t>(how);
    ++unflushed_;
    return settled::done;
}

std::size_t ledger::flush_size() const noexcept
{
    return static_cast<std::size_t>(unflushed_) * wire::settle_frame_size;
}

// The fewest frames: the broker knows no range but "everything outstanding up to this tag", and
// only for acks. So each refused delivery needs a frame of its own, each ack beyond the first open
// delivery does, and the acks of the low run need one together. One is enough for them however many
// refused ones lie between: once those have been rejected they are not outstanding any more, and
// the multiple passes over them. Splitting the run at each reject would only add acks.
//
// In ascending order, since the broker searches its list of outstanding deliveries from the oldest:
// the refused ones below the multiple come first because they must, everything above it after it
// because by then all that was older and decided has left the list.
flush_result ledger::flush(std::span<std::byte> out, std::uint16_t channel) noexcept
{
    if (unflushed_ == 0)
        return {};
    frame_writer frames{out, channel};
    const bool complete =
        write_low_run(frames) && (unflushed_ == 0 || write_singles(frames, no_tag, states_decided));
    if (complete) {
        assert(unflushed_ == 0);
        dirty_low_ = no_tag;
    }
    forget_gone();
    return frames.result(complete);
}

ledger::low_run ledger::find_low_run() const noexcept
{
    low_run run;
    for (const straggler& old : stragglers_) {
        if (old.state == state_open) {
            run.end = old.tag;
            return run;
        }
        if (old.state == state_acked) {
            run.top_ack = old.tag;
            ++run.acks;
        } else {
            run.refusals = true;
        }
    }
    run.end = next_;
    std::uint64_t seen = 0;
    std::uint64_t ack_word = 0;
    std::uint64_t ack_word_first = 0;
    for_each_word(ring_.get(), mask_, base_, next_, [&](std::uint64_t word, std::uint64_t first) {
        constexpr std::uint64_t all_acked = in_each_byte(state_acked);
        if (word == all_acked) {
            ack_word = word;
            ack_word_first = first;
            run.acks += 8;
            return true;
        }
        const std::uint64_t open = word & in_each_byte(state_open);
        if (open != 0) {
            word &= (open & (~open + 1)) - 1; // what is below the first open one
            run.end = first + lowest_byte(open);
        }
        seen |= word;
        if (const std::uint64_t acks = word & in_each_byte(state_acked); acks != 0) {
            ack_word = acks;
            ack_word_first = first;
            run.acks += ((acks / state_acked) * in_each_byte(1)) >> 56; // adds up the bytes
        }
        return open == 0;
    });
    if (ack_word != 0)
        run.top_ack = ack_word_first + highest_byte(ack_word);
    run.refusals = run.refusals || (seen & in_each_byte(states_refused)) != 0;
    return run;
}

// Writes the multiple ack of the low run and the rejects that must precede it. Everything else is
// left to write_singles, a lone ack too.
bool ledger::write_low_run(frame_writer& out) noexcept
{
    const low_run run = find_low_run();
    if (run.acks < 2)
        return true;
    if (run.refusals && !write_singles(out, run.top_ack, states_refused))
        return false;
    if (!out.ack(run.top_ack, true, run.acks))
        return false;
    unflushed_ -= run.acks;
    gone_ += run.acks;
    // A straggler that is left is above the multiple; then the ring is, too.
    std::erase_if(stragglers_, [&](const straggler& old) { return old.tag <= run.top_ack; });
    set_base(std::max(base_, run.top_ack + 1));
    return true;
}

// Writes one frame for each tag below `until` that is in one of the states, ascending, and forgets
// it.
bool ledger::write_singles(frame_writer& out, std::uint64_t until, std::uint8_t states) noexcept
{
    bool complete = true;
    if (!stragglers_.empty()) {
        for (straggler& old : stragglers_) {
            if (old.tag >= until || !complete)
                break;
            if ((old.state & states) == 0)
                continue;
            if ((complete = out.single(old.tag, old.state))) {
                old.state = state_gone;
                --unflushed_;
                ++gone_;
            }
        }
        std::erase_if(stragglers_, [](const straggler& old) { return old.state == state_gone; });
    }
    if (!complete)
        return false;
    const std::uint64_t from = std::max(base_, std::min(dirty_low_, next_));
    const std::uint64_t wanted = in_each_byte(states);
    for_each_word(ring_.get(), mask_, from, std::min(until, next_),
                  [&](std::uint64_t word, std::uint64_t first) {
                      word &= wanted;
                      while (word != 0) {
                          const std::uint64_t byte = lowest_byte(word);
                          if (!(complete = out.single(first + byte, word >> (8 * byte) & 0xff)))
                              return false;
                          state_of(first + byte) = state_gone;
                          --unflushed_;
                          ++gone_;
                          word &= word - 1;
                      }
                      return unflushed_ != 0;
                  });
    return complete;
}

flush_result ledger::give_back(std::span<std::byte> out, std::uint16_t channel, std::uint64_t first,
                               std::uint64_t last) noexcept
{
    frame_writer frames{out, channel};
    const std::uint64_t end = std::min(last, next_ - 1) + 1;
    // What lies below `first`, or is decided, must not be covered by a multiple.
    bool alone = true;
    std::uint64_t open = 0;
    std::uint64_t top = 0;
    for (const straggler& old : stragglers_) {
        if (old.tag >= end)
            break;
        if (old.tag >= first && old.state == state_open) {
            ++open;
            top = old.tag;
        }
    }
    for (std::uint64_t tag = std::max(first, base_); (tag = find(tag, end, state_open)) < end;
         ++tag) {
        ++open;
        top = tag;
    }
    if (open == 0)
        return {};
    for (const straggler& old : stragglers_)
        alone = alone && (old.tag > top || (old.tag >= first && old.state == state_open));
    alone = alone && find(base_, first, states_outstanding) >= first; // first <= top
    alone = alone && find(base_, top, states_decided) >= top;

    bool complete = true;
    if (alone && open > 1) {
        if (!frames.nack(top, true, open))
            return {.complete = false};
        gone_ += open;
        std::erase_if(stragglers_, [&](const straggler& old) { return old.tag <= top; });
        set_base(std::max(base_, top + 1));
    } else {
        for (straggler& old : stragglers_) {
            if (old.tag < first || old.tag >= end || old.state != state_open)
                continue;
            if (!(complete = frames.single(old.tag, state_open)))
                break;
            old.state = state_gone;
            ++gone_;
        }
        std::erase_if(stragglers_, [](const straggler& old) { return old.state == state_gone; });
        for (std::uint64_t tag = std::max(first, base_);
             complete && (tag = find(tag, end, state_open)) < end; ++tag) {
            if (!(complete = frames.single(tag, state_open)))
                break;
            state_of(tag) = state_gone;
            ++gone_;
        }
    }
    forget_gone();
    return frames.result(complete);
}

void ledger::reset() noexcept
{
    set_base(1);
    next_ = 1;
    gone_ = 0;
    unflushed_ = 0;
    dirty_low_ = no_tag;
    stragglers_.clear();
    if (++epoch_ == 0) // 0 stays the epoch of no channel
        epoch_ = 1;
}

std::uint64_t ledger::oldest_unsettled_tag() const noexcept
{
    if (unsettled() == 0)
        return 0;
    for (const straggler& old : stragglers_)
        if (old.state == state_open)
            return old.tag;
    return find(base_, next_, state_open);
}

// Raises base_ to the oldest outstanding tag of the ring, or to next_.
void ledger::forget_gone() noexcept
{
    set_base(outstanding() == stragglers_.size() ? next_ : find(base_, next_, states_outstanding));
}

// The first tag of [from, to) in one of the states, or `to` (or `from`, if that is larger).
std::uint64_t ledger::find(std::uint64_t from, std::uint64_t to, std::uint8_t states) const noexcept
{
    std::uint64_t found = std::max(from, to);
    for_each_word(ring_.get(), mask_, from, to, [&](std::uint64_t word, std::uint64_t first) {
        const std::uint64_t hits = word & in_each_byte(states);
        if (hits != 0)
            found = first + lowest_byte(hits);
        return hits == 0;
    });
    return found;
}

} // namespace acquit::settle
