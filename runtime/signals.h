#pragma once

#include <acquit/runtime/task.h>

#include <initializer_list>

namespace acquit::runtime {

/// Signals as something to wait for, whatever thread the kernel delivers them to.
///
///     signal_watcher stop{SIGINT, SIGTERM};
///     int signal = co_await stop.next();
///
/// While a watcher for a signal lives its default action does not happen; the last one puts the
/// previous handler back. Each of several watchers (of several loops) sees each signal; equal
/// signals that come before `next` is called count once. Not for SIGKILL, SIGSTOP, and not for
/// those that tell of a bug in the program (SIGSEGV...). At most 64 watchers at once.
class signal_watcher {
public:
    /// Throws io_error.
    signal_watcher(std::initializer_list<int> signals);
    ~signal_watcher();
    signal_watcher(const signal_watcher&) = delete;
    signal_watcher& operator=(const signal_watcher&) = delete;

    /// The number of a signal that came; the lowest where several did. Throws operation_cancelled.
    /// Needs a loop with a ring.
    task<int> next();

private:
    int slot_;
};

} // namespace acquit::runtime
