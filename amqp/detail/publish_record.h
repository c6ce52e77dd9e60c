#pragma once

#include <acquit/amqp/confirms.h>
#include <acquit/amqp/publish_ticket.h>
#include <acquit/amqp/publisher.h>
#include <acquit/runtime/clock.h>
#include <acquit/runtime/waiter.h>

#include <cstdint>
#include <utility>

namespace acquit::amqp::detail {

/// A publish that the broker has not answered. Its place in the list, which is in the order of the
/// publishes, is left as soon as somebody was told; the record itself is free for the next publish
/// when the broker has answered, since only then there is room in the window.
class publish_record final : public confirm_listener, private runtime::list_node {
public:
    explicit publish_record(publisher& owner) noexcept : owner_(owner) {}
    publish_record(const publish_record&) = delete;
    publish_record& operator=(const publish_record&) = delete;

    [[nodiscard]] static publish_record& first_of(runtime::list_node& list) noexcept
    {
        return static_cast<publish_record&>(*list.next);
    }

    void begin(std::uint64_t publish, runtime::time_point until, runtime::list_node& list) noexcept
    {
        number = publish;
        deadline = until;
        insert_before(list);
    }
    [[nodiscard]] bool in_use() const noexcept { return number != 0; }
    [[nodiscard]] bool told() const noexcept { return next == nullptr; }

    /// A ticket for it. At most one.
    [[nodiscard]] publish_ticket ticket() noexcept
    {
        publish_ticket made;
        made.answer_.number = number;
        made.open_ = this;
        holder = &made;
        return made;
    }

    /// Leaves the list, and tells who holds it. False: nobody does.
    bool tell(const publish_answer& answer) noexcept
    {
        unlink();
        if (auto told_once = std::exchange(done, nullptr)) {
            told_once(answer);
            return true;
        }
        if (holder == nullptr)
            return false;
        holder->take(answer);
        return true;
    }

    std::uint64_t number = 0; ///< 0: free
    runtime::time_point deadline{};
    publish_ticket* holder = nullptr;
    publisher::callback done;

private:
    void on_confirm(publish_result result, std::uint16_t return_code) noexcept override
    {
        owner_.on_answer(*this, result, return_code);
    }

    publisher& owner_;
};

} // namespace acquit::amqp::detail
