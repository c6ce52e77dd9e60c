#include "host.h"

#include <cerrno>

namespace acquit::testing {

amqp::connection_options host::client()
{
    amqp::connection_options options;
    options.connector = [this] { return connect(); };
    return options;
}

task<std::unique_ptr<runtime::stream>> host::connect()
{
    if (refuse_ != 0) {
        --refuse_;
        ++refused_;
        arrived_.notify_all();
        throw runtime::io_error(ECONNREFUSED, "connect to memory");
    }
    auto [here, there] = runtime::memory_stream_pair(runtime::loop::current(), options_.stream);
    peers_.push_back(std::make_unique<peer>(std::move(there), options_.server));
    if (options_.automatic)
        model.serve(*peers_.back());
    tasks_->spawn(silent_ ? peers_.back()->ignore() : peers_.back()->serve());
    arrived_.notify_all();
    co_return std::move(here);
}

task<> host::connected(std::size_t n)
{
    while (peers_.size() < n)
        co_await arrived_.wait();
}

std::string text_of(const std::exception_ptr& failure)
{
    if (!failure)
        return "";
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "?";
    }
}

task<> settle_down()
{
    // A timer that is due fires when nothing else is ready; a few rounds for what answers answers.
    for (int i = 0; i < 20; ++i)
        co_await runtime::sleep(1us);
}

} // namespace acquit::testing
