#include <acquit/amqp/wire/wire.h>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

// Properties and header tables, which a consumer reads seldom and then only in part: what the view
// saves, and what it costs to read all the same. `x_death` headers are those of a message that was
// dead-lettered; the others have as many fields as the argument says.

namespace {

using namespace acquit::amqp::wire;

[[noreturn]] void fail()
{
    std::fputs("bench_codec: a header is missing\n", stderr);
    std::abort();
}

table dead_lettered()
{
    table death;
    death.set("count", std::int64_t{1})
        .set("reason", "rejected")
        .set("queue", "orders")
        .set("time", timestamp{1})
        .set("exchange", "shop")
        .set("routing-keys", array().add("order.new"));
    table headers;
    headers.set("x-death", array().add(death))
        .set("x-first-death-reason", "rejected")
        .set("x-delivery-count", std::int64_t{3})
        .set("trace", "0af7651916cd43dd");
    return headers;
}

table with_fields(std::int64_t count)
{
    table t;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto name = "header-" + std::to_string(i);
        if (i % 2 == 0)
            t.set(name, "some value " + std::to_string(i));
        else
            t.set(name, i);
    }
    return t;
}

std::vector<std::byte> header_frame(const properties& props)
{
    std::vector<std::byte> frame(header_frame_size(props));
    if (encode_header_frame(frame, 1, 0, props) != frame.size())
        fail();
    return frame;
}

void count(benchmark::State& state, std::size_t bytes)
{
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

properties rich(const table& headers)
{
    return {.content_type = "application/json",
            .headers = headers,
            .delivery_mode = std::uint8_t{2},
            .correlation_id = "0af7651916cd43dd8448eb211c80319c",
            .message_id = "b7ad6b7169203331",
            .timestamp = timestamp{1},
            .type = "order.new"};
}

/// What each delivery costs whose properties nobody asks for.
void properties_left_alone(benchmark::State& state)
{
    const auto headers = dead_lettered();
    const auto frame = header_frame(rich(headers));
    for (auto _ : state) {
        content_header header;
        if (!decode(std::span(frame).subspan(frame_head_size), header))
            fail();
        benchmark::DoNotOptimize(header);
    }
    count(state, frame.size());
}

/// All properties; the table of headers stays a view.
void properties_decoded(benchmark::State& state)
{
    const auto headers = dead_lettered();
    const auto frame = header_frame(rich(headers));
    for (auto _ : state) {
        content_header header;
        properties out;
        if (!decode(std::span(frame).subspan(frame_head_size), header) ||
            !header.props.decode(out).ok())
            fail();
        benchmark::DoNotOptimize(out);
    }
    count(state, frame.size());
}

/// One header, found without decoding the properties before it.
void one_header_of_x_death(benchmark::State& state)
{
    const auto headers = dead_lettered();
    const auto frame = header_frame(rich(headers));
    const properties_view view(std::span<const std::byte>(frame).subspan(frame_head_size + 12));
    for (auto _ : state) {
        const auto found = view.headers()->find("x-delivery-count");
        if (!found)
            fail();
        benchmark::DoNotOptimize(found);
    }
    count(state, frame.size());
}

void properties_encoded(benchmark::State& state)
{
    const auto headers = dead_lettered();
    const auto props = rich(headers);
    std::vector<std::byte> out(header_frame_size(props));
    for (auto _ : state) {
        benchmark::DoNotOptimize(encode_header_frame(out, 1, 16, props));
        benchmark::ClobberMemory();
    }
    count(state, out.size());
}

/// Lazily: the first field that has this name.
void find_first_field(benchmark::State& state)
{
    const auto t = with_fields(state.range(0));
    for (auto _ : state)
        benchmark::DoNotOptimize(t.view().find("header-0"));
    count(state, t.raw().size());
}

void find_last_field(benchmark::State& state)
{
    const auto t = with_fields(state.range(0));
    const auto name = "header-" + std::to_string(state.range(0) - 1);
    for (auto _ : state) {
        const auto found = t.view().find(name);
        if (!found)
            fail();
        benchmark::DoNotOptimize(found);
    }
    count(state, t.raw().size());
}

/// Every field with its value, as views.
void walk_whole_table(benchmark::State& state)
{
    const auto t = with_fields(state.range(0));
    for (auto _ : state) {
        for (const auto& f : t.view()) {
            benchmark::DoNotOptimize(f.value.as_string());
            benchmark::DoNotOptimize(f.value.as_int64());
        }
    }
    count(state, t.raw().size());
}

/// Nested ones included: what a check of the whole table would cost, were it made.
void inspect_x_death(benchmark::State& state)
{
    const auto t = dead_lettered();
    for (auto _ : state)
        benchmark::DoNotOptimize(t.view().inspect());
    count(state, t.raw().size());
}

/// The only part of the codec that takes memory.
void build_table(benchmark::State& state)
{
    std::size_t bytes = 0;
    for (auto _ : state) {
        const auto t = with_fields(state.range(0));
        bytes = t.raw().size();
        benchmark::DoNotOptimize(t);
    }
    count(state, bytes);
}

#define FIELDS ->Arg(3)->Arg(30)
BENCHMARK(properties_left_alone);
BENCHMARK(properties_decoded);
BENCHMARK(one_header_of_x_death);
BENCHMARK(properties_encoded);
BENCHMARK(find_first_field) FIELDS;
BENCHMARK(find_last_field) FIELDS;
BENCHMARK(walk_whole_table) FIELDS;
BENCHMARK(inspect_x_death);
BENCHMARK(build_table) FIELDS;

} // namespace
