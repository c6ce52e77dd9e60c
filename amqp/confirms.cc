#include <acquit/amqp/confirms.h>
#include <acquit/amqp/wire/properties.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace acquit::amqp {

namespace {

// Not a cryptographic hash: both sides of the comparison are our own publishes.
class mixer {
public:
    void bytes(const void* data, std::size_t size) noexcept
    {
        const auto* at = static_cast<const unsigned char*>(data);
        word(size);
        if (size >= 128) { // a body: four words at a time, which do not wait for each other
            std::uint64_t lanes[4] = {state_, state_ + 1, state_ + 2, state_ + 3};
            for (; size >= sizeof lanes; size -= sizeof lanes, at += sizeof lanes) {
                std::uint64_t words[4];
                std::memcpy(words, at, sizeof words);
                for (std::size_t i = 0; i < 4; ++i)
                    mix(lanes[i], words[i]);
            }
            for (const auto lane : lanes)
                word(lane);
        }
        for (; size >= 8; size -= 8, at += 8) {
            std::uint64_t w;
            std::memcpy(&w, at, 8);
            word(w);
        }
        if (size != 0) {
            std::uint64_t w = 0;
            std::memcpy(&w, at, size);
            word(w);
        }
    }

    [[nodiscard]] std::uint64_t finish() const noexcept
    {
        const std::uint64_t h = state_ ^ (state_ >> 29);
        return h == 0 ? 1 : h; // 0 means "not mandatory"
    }

private:
    static void mix(std::uint64_t& state, std::uint64_t w) noexcept
    {
        state = (state ^ w) * 0x9E3779B97F4A7C15U;
        state ^= state >> 32;
    }
    void word(std::uint64_t w) noexcept { mix(state_, w); }

    std::uint64_t state_ = 0x6A09E667F3BCC909U;
};

/// All of them, in any order of the headers: RabbitMQ 4.x sorts these by name.
void add_properties(mixer& to, std::span<const std::byte> properties) noexcept
{
    const auto headers = wire::properties_view(properties).headers();
    if (!headers || headers->empty() || headers->undecodable()) {
        to.bytes(properties.data(), properties.size());
        return;
    }
    const auto before = static_cast<std::size_t>(headers->raw().data() - properties.data());
    const std::size_t after = before + headers->raw().size();
    std::uint64_t fields = 0;
    for (const auto& [name, value] : *headers) {
        mixer field;
        field.bytes(name.data(), name.size());
        field.bytes(value.raw().data(), value.raw().size());
        fields += field.finish();
    }
    to.bytes(properties.data(), before);
    to.bytes(&fields, sizeof fields);
    to.bytes(properties.data() + after, properties.size() - after);
}

} // namespace

message_identity identify(std::string_view exchange, std::string_view routing_key,
                          std::span<const std::byte> properties,
                          std::span<const std::byte> body) noexcept
{
    mixer destination;
    destination.bytes(exchange.data(), exchange.size());
    destination.bytes(routing_key.data(), routing_key.size());
    mixer content;
    add_properties(content, properties);
    content.bytes(body.data(), body.size());
    return {.destination = destination.finish(), .content = content.finish()};
}

std::uint64_t confirm_tracker::add(confirm_listener* listener, message_identity identity)
{
    entries_.push_back({.listener = listener,
                        .identity = identity,
                        .return_code = 0,
                        .open = true,
                        .returned = false});
    ++outstanding_;
    return base_ + entries_.size() - 1;
}

void confirm_tracker::forget(std::uint64_t tag) noexcept
{
    if (tag >= base_ && tag - base_ < entries_.size())
        entries_[tag - base_].listener = nullptr;
}

bool confirm_tracker::confirm(std::uint64_t tag, bool multiple, bool acked)
{
    // Tag 0 with multiple means everything outstanding (AMQP 0-9-1 basic.ack.delivery-tag).
    if (tag == 0 && multiple)
        tag = base_ + entries_.size() - 1;
    if (tag < base_ || tag - base_ >= entries_.size())
        return false;

    const std::size_t last = tag - base_;
    if (!multiple && !entries_[last].open)
        return false;
    for (std::size_t i = multiple ? 0 : last; i <= last; ++i) {
        entry& e = entries_[i];
        if (!e.open)
            continue;
        if (returned_ != 0)
            settle_doubt(e, acked);
        finish(e, e.returned ? publish_result::returned
                  : acked    ? publish_result::confirmed
                             : publish_result::nacked);
    }
    drop_finished();
    return true;
}

bool confirm_tracker::returned(message_identity identity, std::uint16_t code)
{
    entry* found = nullptr;
    for (entry& e : entries_) {
        if (!e.open || e.returned || e.identity.destination != identity.destination)
            continue;
        if (e.identity.content == identity.content) {
            found = &e;
            break;
        }
        if (found == nullptr)
            found = &e;
    }
    if (found == nullptr)
        return false;
    found->returned = true;
    found->return_code = code;
    ++returned_;
    return true;
}

// Of several that are equal, `returned` could only guess. RabbitMQ confirms what it returns with an
// ack, and right away: a nack is for another of them, and the first ack is for this one.
void confirm_tracker::settle_doubt(entry& e, bool acked) noexcept
{
    if (acked == e.returned)
        return;
    for (entry& other : entries_) {
        if (&other == &e || !other.open || other.returned == e.returned ||
            other.identity != e.identity)
            continue;
        std::swap(other.returned, e.returned);
        std::swap(other.return_code, e.return_code);
        return;
    }
}

bool confirm_tracker::has_listeners() const noexcept
{
    return std::any_of(entries_.begin(), entries_.end(),
                       [](const entry& e) { return e.listener != nullptr; });
}

void confirm_tracker::fail_all() noexcept
{
    for (entry& e : entries_) {
        if (e.open)
            finish(e, publish_result::lost);
    }
    drop_finished();
}

std::uint64_t confirm_tracker::take_failures() noexcept
{
    return std::exchange(failures_, 0);
}

void confirm_tracker::finish(entry& e, publish_result result) noexcept
{
    e.open = false;
    --outstanding_;
    returned_ -= e.returned ? 1 : 0;
    if (auto* listener = std::exchange(e.listener, nullptr)) {
        listener->on_confirm(result, e.return_code);
    } else if (result != publish_result::confirmed) {
        ++failures_;
    }
}

void confirm_tracker::drop_finished() noexcept
{
    while (!entries_.empty() && !entries_.front().open) {
        entries_.pop_front();
        ++base_;
    }
}

} // namespace acquit::amqp
