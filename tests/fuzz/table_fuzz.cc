#include <acquit/amqp/wire/table.h>

#include <algorithm>
#include <cstdlib>

// Input is the inside of a field table. Walking it ends; what can be read of it survives a copy
// field by field; changing a copy leaves the rest as it was.

using namespace acquit::amqp::wire;

namespace {

void expect(bool condition)
{
    if (!condition)
        std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    table_view view(std::as_bytes(std::span(data, size)));
    table copy;
    std::size_t readable = 0;
    bool repeated = false;
    for (auto [name, value] : view) {
        readable += 1 + name.size() + value.raw().size();
        repeated |= copy.contains(name);
        copy.set_raw(name, value);
        expect(value.as_int64().has_value() + value.as_string().has_value() +
                   value.as_bool().has_value() + value.as_double().has_value() +
                   value.as_timestamp().has_value() + value.as_decimal().has_value() +
                   value.as_table().has_value() + value.as_array().has_value() + value.is_void() ==
               1);
        if (auto nested = value.as_array())
            expect(!nested->undecodable() || !nested->valid());
    }
    expect(view.undecodable() == (readable < size));
    expect(!view.valid() || !view.undecodable());
    expect(!copy.view().undecodable());
    if (!repeated)
        expect(std::ranges::equal(copy.raw(), view.raw().first(readable)));
    expect(describe(view, 1000).size() <= 1000 + 4 * nesting_max + 1000);

    table changed(view);
    changed.set("added", 1);
    expect(changed.view().find("added")->as_int64() == 1);
    expect(changed.view().undecodable() == view.undecodable());
    expect(changed.remove("added") && !changed.contains("added"));
    return 0;
}
