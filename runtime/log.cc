#include <acquit/runtime/log.h>

#include <cstdio>
#include <memory>
#include <mutex>

namespace acquit::runtime {

namespace {

void write_to_stderr(const log_record& record)
{
    if (record.level < log_level::info)
        return;
    std::string line;
    line += to_string(record.level);
    line += ' ';
    line += record.text;
    for (const auto& field : record.fields) {
        line += ' ';
        line += field.name;
        line += '=';
        line += field.value;
    }
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stderr);
}

struct callback_holder {
    std::mutex mutex;
    std::shared_ptr<const log_callback> callback;
};

// Never destroyed: threads may still log while the program ends.
callback_holder& holder()
{
    static auto* instance = new callback_holder;
    return *instance;
}

} // namespace

std::string_view to_string(log_level level) noexcept
{
    switch (level) {
    case log_level::debug:
        return "debug";
    case log_level::info:
        return "info";
    case log_level::warning:
        return "warning";
    case log_level::error:
        return "error";
    }
    return "unknown";
}

void set_log_callback(log_callback callback)
{
    std::shared_ptr<const log_callback> next;
    if (callback)
        next = std::make_shared<const log_callback>(std::move(callback));
    const std::lock_guard lock(holder().mutex);
    holder().callback.swap(next);
}

void log(log_level level, std::string_view text, std::initializer_list<log_field> fields) noexcept
{
    try {
        std::shared_ptr<const log_callback> callback;
        {
            const std::lock_guard lock(holder().mutex);
            callback = holder().callback;
        }
        const log_record record{level, text, {fields.begin(), fields.size()}};
        if (callback)
            (*callback)(record);
        else
            write_to_stderr(record);
    } catch (...) { // NOLINT: a log that fails must not end what it reports on
    }
}

} // namespace acquit::runtime
