#pragma once

#include "options.h"
#include "result.h"

#include <cstdio>
#include <memory>
#include <string>

namespace acquit::bench {

/// The files that were asked for: -o while the run goes on, the others at its end.
class writers {
public:
    /// Opens all of them, so that one that cannot be written is told of before the run. Throws
    /// runtime::error.
    writers(const options& o, std::string command);

    void begins(const result& about);
    void ticks(const sample& s);
    void ends(result done);

private:
    struct closing {
        void operator()(std::FILE* f) const noexcept { std::fclose(f); }
    };
    using file = std::unique_ptr<std::FILE, closing>;
    static file open(const std::string& path);
    static void write(const file& to, const std::string& text);

    std::string command_;
    result about_;
    file csv_;
    file json_;
    file hdr_;
    file report_;
};

/// Of this program, as the library says it.
[[nodiscard]] std::string version_text();

} // namespace acquit::bench
