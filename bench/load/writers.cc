#include "writers.h"

#include "csv.h"
#include "hgrm.h"
#include "html.h"
#include "json.h"

#include <acquit/runtime/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

#include <sys/utsname.h>

namespace acquit::bench {

namespace {

std::string system_text()
{
    utsname name{};
    ::uname(&name);
    const auto cpus = std::thread::hardware_concurrency();
    return fmt::format("{} {}, {} CPU{}", name.sysname, name.release, cpus, cpus == 1 ? "" : "s");
}

std::string time_text()
{
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[64];
    const auto size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return {text, size};
}

} // namespace

std::string version_text()
{
    return ACQUIT_VERSION;
}

writers::file writers::open(const std::string& path)
{
    if (path.empty())
        return nullptr;
    file opened(std::fopen(path.c_str(), "we"));
    if (!opened)
        throw runtime::error(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    return opened;
}

void writers::write(const file& to, const std::string& text)
{
    if (std::fwrite(text.data(), 1, text.size(), to.get()) != text.size() ||
        std::fflush(to.get()) != 0)
        throw runtime::error(fmt::format("cannot write a file: {}", std::strerror(errno)));
}

writers::writers(const options& o, std::string command)
    : command_(std::move(command)), csv_(open(o.csv_file)), json_(open(o.json_file)),
      hdr_(open(o.hdr_file)), report_(open(o.report_file))
{
    about_.began = time_text();
}

void writers::begins(const result& about)
{
    const auto began = about_.began;
    about_ = about;
    about_.began = began;
    if (csv_)
        write(csv_, csv_header(about.milliseconds));
}

void writers::ticks(const sample& s)
{
    if (csv_)
        write(csv_, csv_line(about_, s));
}

void writers::ends(result done)
{
    done.command = command_;
    done.version = version_text();
    done.system = system_text();
    done.began = about_.began;
    if (json_)
        write(json_, json_of(done));
    if (hdr_)
        write(hdr_, hgrm_of(done));
    if (report_)
        write(report_, html_of(done));
}

} // namespace acquit::bench
