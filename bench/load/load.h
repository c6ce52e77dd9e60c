#pragma once

#include "options.h"
#include "result.h"

#include <acquit/runtime/task.h>

#include <functional>

namespace acquit::bench {

/// What happens while a run goes on, for whoever shows it.
struct watcher {
    std::function<void(const result& about)>
        begins{}; ///< its first fields are known: id, broker...
    std::function<void(const sample&, const std::string& progress)> ticks{};
};

/// Publishes and consumes as the options say, until they are fulfilled, a signal (SIGINT, SIGTERM)
/// comes, or the broker refuses something: then it throws what the broker said.
///
/// A run ends when its time is over (-z), when every producer has published what it should (-C) and
/// all that was published has been settled, or when every consumer has settled what it should (-D).
/// Messages that nothing brings any more are waited for only so long: see patience.
[[nodiscard]] runtime::task<result> run_load(const options& o, const watcher& seen);

/// After the producers' end, so long without a message means that no more come.
inline constexpr std::chrono::seconds patience{10};

} // namespace acquit::bench
