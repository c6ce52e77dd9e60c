#include <acquit/runtime/loop.h>
#include <acquit/runtime/random.h>
#include <acquit/runtime/scope.h>
#include <acquit/runtime/timer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

using namespace acquit::runtime;
using namespace std::chrono_literals;

namespace {

class numbered final : public timer {
public:
    numbered(int number, std::vector<int>& fired) : number_(number), fired_(fired) {}
    [[nodiscard]] int number() const { return number_; }

private:
    void on_timer() noexcept override { fired_.push_back(number_); }
    int number_;
    std::vector<int>& fired_;
};

struct plain_node final : timer_node {
    [[nodiscard]] bool pending() const { return in_heap(); }
};

task<> pass(duration time)
{
    co_await sleep(time);
}

} // namespace

TEST(timer, equal_deadlines_fire_in_the_order_in_which_they_were_armed)
{
    loop events({.virtual_time = true});
    std::vector<int> fired;
    std::vector<std::unique_ptr<numbered>> timers;
    for (int number = 0; number < 100; ++number) {
        timers.push_back(std::make_unique<numbered>(number, fired));
        timers.back()->arm_after(events, 1s);
    }
    events.run(pass(2s));
    ASSERT_EQ(fired.size(), 100u);
    EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
}

TEST(timer, can_be_moved_cancelled_and_armed_again_from_its_own_call)
{
    loop events({.virtual_time = true});
    std::vector<int> fired;
    numbered moved(1, fired);
    numbered cancelled(2, fired);
    moved.arm_after(events, 1s);
    moved.arm_after(events, 3s);
    cancelled.arm_after(events, 1s);
    cancelled.cancel();
    EXPECT_FALSE(cancelled.armed());
    events.run(pass(2s));
    EXPECT_TRUE(fired.empty());
    EXPECT_TRUE(moved.armed());
    events.run(pass(2s));
    EXPECT_EQ(fired, std::vector<int>{1});

    struct ticking final : timer {
        explicit ticking(loop& owner) : owner_(owner) {}
        void on_timer() noexcept override
        {
            if (++ticks < 5)
                arm_after(owner_, 1s);
        }
        loop& owner_;
        int ticks = 0;
    };
    ticking clock(events);
    clock.arm_after(events, 1s);
    events.run(pass(10s));
    EXPECT_EQ(clock.ticks, 5);
}

TEST(timer, one_that_already_stands_on_the_ready_queue_can_still_be_cancelled)
{
    loop events({.virtual_time = true});
    std::vector<int> fired;
    numbered victim(1, fired);
    struct killer final : timer {
        explicit killer(timer& target) : target_(target) {}
        void on_timer() noexcept override { target_.cancel(); }
        timer& target_;
    };
    killer first(victim);
    first.arm_after(events, 1s);
    victim.arm_after(events, 1s);
    events.run(pass(2s));
    EXPECT_TRUE(fired.empty());
}

TEST(timer, of_the_longest_duration_does_not_fire_at_once)
{
    loop events({.virtual_time = true});
    events.run(pass(1h)); // no longer at the epoch, where the sum would still fit
    std::vector<int> fired;
    numbered for_ever(1, fired);
    for_ever.arm_after(events, duration::max());
    bool woke = false;
    bool cancelled = false;
    events.run(with_scope([&](scope& sleepers) -> task<> {
        sleepers.spawn([](bool& over, bool& ended) -> task<> {
            try {
                co_await sleep(duration::max());
                over = true;
            } catch (const operation_cancelled&) {
                ended = true;
            }
        }(woke, cancelled));
        co_await sleep(24h * 365);
        sleepers.cancel();
    }));
    EXPECT_FALSE(woke);
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(fired.empty());
    EXPECT_TRUE(for_ever.armed());
    EXPECT_EQ(later(events.now(), duration::max()), time_point::max());
}

TEST(timer, destroying_an_armed_one_disarms_it)
{
    loop events({.virtual_time = true});
    std::vector<int> fired;
    {
        numbered gone(1, fired);
        gone.arm_after(events, 1s);
        EXPECT_EQ(events.pending_timers(), 1u);
    }
    EXPECT_EQ(events.pending_timers(), 0u);
}

TEST(timer, sleeping_takes_at_least_the_time_on_a_real_clock)
{
    loop events;
    auto root = []() -> task<duration> {
        const auto before = std::chrono::steady_clock::now();
        co_await sleep(3ms);
        co_return std::chrono::steady_clock::now() - before;
    };
    EXPECT_GE(events.run(root()), 3ms);
}

TEST(timer_heap, does_what_an_ordered_multimap_does)
{
    const std::uint64_t seed = std::random_device{}();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random_source random(seed);
    timer_heap heap;
    std::vector<plain_node> nodes(3000);
    std::multimap<time_point, plain_node*> model; // equal keys keep their order of insertion
    std::map<plain_node*, std::multimap<time_point, plain_node*>::iterator> armed;
    for (int round = 0; round < 60'000; ++round) {
        auto& node = nodes[random.below(nodes.size())];
        const auto choice = random.below(3);
        if (const auto found = armed.find(&node); found != armed.end()) {
            heap.remove(node);
            model.erase(found->second);
            armed.erase(found);
        } else if (choice != 0) {
            const time_point deadline{duration(random.below(500))};
            heap.insert(node, deadline);
            armed[&node] = model.emplace(deadline, &node);
        } else if (!model.empty()) {
            ASSERT_EQ(heap.earliest(), model.begin()->first);
            ASSERT_EQ(&heap.pop(), model.begin()->second);
            armed.erase(model.begin()->second);
            model.erase(model.begin());
        }
        ASSERT_EQ(heap.size(), model.size());
    }
    for (; !model.empty(); model.erase(model.begin()))
        ASSERT_EQ(&heap.pop(), model.begin()->second);
    EXPECT_TRUE(heap.empty());
}

TEST(timer_heap, holds_a_million_timers_under_a_hundred_bytes_each)
{
    // The heap's own entry is a deadline and a pointer; its array may have grown to twice the need.
    EXPECT_LE(sizeof(callback_timer) - 2 * sizeof(void*) + 2 * 16, 100u);
    EXPECT_LE(sizeof(timer_node) + 2 * 16, 100u);
    constexpr std::size_t million = 1'000'000;
    random_source random(1);
    timer_heap heap;
    std::vector<plain_node> nodes(million);
    for (auto& node : nodes)
        heap.insert(node, time_point{duration(random.below(1'000'000'000))});
    for (std::size_t index = 0; index < million; index += 2)
        heap.remove(nodes[index]);
    EXPECT_EQ(heap.size(), million / 2);
    time_point last{};
    for (int popped = 0; popped < 10'000; ++popped) {
        ASSERT_GE(heap.earliest(), last);
        last = heap.earliest();
        (void)heap.pop();
    }
    for (std::size_t index = 0; index < million; ++index)
        if (nodes[index].pending())
            heap.remove(nodes[index]);
    EXPECT_TRUE(heap.empty());
}
