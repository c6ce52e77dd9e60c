// Threads decide: the handler hands each delivery on to whichever thread is free, and returns.
#include <acquit/acquit.h>

#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>

using namespace acquit;

class work_queue {
public:
    void push(deferred_delivery item) {
        const std::lock_guard lock(mutex_);
        items_.push(std::move(item));
        changed_.notify_one();
    }
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    deferred_delivery pop() {                            // an empty one once it is closed
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
        if (items_.empty()) return {};
        auto item = std::move(items_.front());
        items_.pop();
        return item;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::queue<deferred_delivery> items_;
    bool closed_ = false;
};

bool encode(std::string_view order) { return !order.empty(); }

int main(int argc, char** argv) {
    work_queue waiting;
    const auto work = [&waiting] {
        while (auto order = waiting.pop())
            order.settle(encode(order.text()) ? ack : drop); // on this thread; the loop writes it
    };
    std::jthread one(work), other(work);

    service orders{argc > 1 ? argv[1] : "amqp://guest:guest@localhost"};
    orders.consume(existing_queue{"orders"}.prefetch(64), // so many are out at most
                   [&](delivery& order) { waiting.push(order.defer()); });
    const int status = run(orders);                      // the drain waits for those that are out
    waiting.close();
    return status;
}
