#include <acquit/amqp/wire/wire.h>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

// The codec alone: nanoseconds per delivery and bytes per second, without sockets, loop or
// handlers. Arguments are body sizes in bytes. Tables and properties: tables_bench.cc.

namespace {

using namespace acquit::amqp::wire;

constexpr std::uint32_t frame_max = 131072;

[[noreturn]] void fail()
{
    std::fputs("bench_codec: the codec refused what it wrote itself\n", stderr);
    std::abort();
}

void append(std::vector<std::byte>& out, std::size_t room, auto&& encode)
{
    auto at = out.size();
    out.resize(at + room);
    out.resize(at + encode(std::span(out).subspan(at)));
}

// About 256 KiB of deliveries, as a receive segment holds them.
std::vector<std::byte> deliveries(std::size_t body_size, const properties& props)
{
    std::vector<std::byte> out, body(body_size);
    std::uint64_t tag = 0;
    while (out.size() < 256 * 1024) {
        basic::deliver method{
            .consumer_tag = "acquit-orders-1", .delivery_tag = ++tag, .routing_key = "orders"};
        append(out, encoded_size(method), [&](auto to) { return encode_frame(to, 1, method); });
        append(out, header_frame_size(props),
               [&](auto to) { return encode_header_frame(to, 1, body_size, props); });
        if (body_size != 0)
            append(out, body_size + frame_overhead,
                   [&](auto to) { return encode_body_frame(to, 1, body, frame_max); });
    }
    return out;
}

void count(benchmark::State& state, std::size_t messages, std::size_t bytes)
{
    state.SetItemsProcessed(static_cast<std::int64_t>(messages));
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
    state.counters["each"] = benchmark::Counter(
        static_cast<double>(messages), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void one_pass_delivery(benchmark::State& state)
{
    auto input =
        deliveries(static_cast<std::size_t>(state.range(0)), {.delivery_mode = std::uint8_t{2}});
    std::size_t messages = 0, bytes = 0;
    for (auto _ : state) {
        std::span<const std::byte> rest(input);
        delivery_frames out;
        for (; parse_delivery(rest, frame_max, out); ++messages) {
            benchmark::DoNotOptimize(out.body.data());
            rest = rest.subspan(out.consumed);
        }
        bytes += input.size() - rest.size();
    }
    count(state, messages, bytes);
}

void frame_by_frame_delivery(benchmark::State& state)
{
    auto input =
        deliveries(static_cast<std::size_t>(state.range(0)), {.delivery_mode = std::uint8_t{2}});
    std::size_t messages = 0, bytes = 0;
    for (auto _ : state) {
        std::span<const std::byte> rest(input);
        frame_view frame;
        while (parse_frame(rest, frame_max, frame).complete()) {
            if (frame.type == frame_method)
                visit_method(frame.payload, [&](const auto& method) {
                    benchmark::DoNotOptimize(&method), ++messages;
                });
            rest = rest.subspan(frame.size);
        }
        bytes += input.size() - rest.size();
    }
    count(state, messages, bytes);
}

void settle_frame(benchmark::State& state)
{
    std::vector<std::byte> out(1024 * settle_frame_size);
    std::uint64_t tag = 0;
    for (auto _ : state) {
        auto* at = out.data();
        for (int i = 0; i < 1024; ++i)
            at = write_ack(at, 1, ++tag, false);
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
    }
    count(state, tag, tag * settle_frame_size);
}

/// `encode(span)` writes a frame again and again to the same place.
template <class Encode>
void encode_again(benchmark::State& state, std::size_t room, Encode encode)
{
    std::vector<std::byte> out(room);
    std::size_t messages = 0, bytes = 0;
    for (auto _ : state) {
        const auto written = encode(std::span(out));
        benchmark::DoNotOptimize(out.data());
        benchmark::ClobberMemory();
        if (written == 0)
            fail();
        bytes += written;
        ++messages;
    }
    count(state, messages, bytes);
}

void encode_deliver_method(benchmark::State& state)
{
    std::uint64_t tag = 0;
    encode_again(state, 512, [&](std::span<std::byte> out) {
        const basic::deliver method{
            .consumer_tag = "acquit-orders-1", .delivery_tag = ++tag, .routing_key = "orders"};
        return encode_frame(out, 1, method);
    });
}

void encode_content_header(benchmark::State& state)
{
    const properties props{.content_type = "application/json", .delivery_mode = std::uint8_t{2}};
    encode_again(state, 512,
                 [&](std::span<std::byte> out) { return encode_header_frame(out, 1, 16, props); });
}

void encode_body(benchmark::State& state)
{
    // Copying takes ten times as long where the target is up to 15 bytes behind the source modulo
    // 4096, and large blocks of the heap lie just so: hence from the middle of a larger one.
    const auto size = static_cast<std::size_t>(state.range(0));
    const std::vector<std::byte> block(size + 1024);
    const auto body = std::span(block).subspan(512, size);
    encode_again(state, body.size() + frame_overhead, [&](std::span<std::byte> out) {
        return encode_body_frame(out, 1, body, frame_max);
    });
}

void encode_heartbeats(benchmark::State& state)
{
    encode_again(state, 64, [&](std::span<std::byte> out) { return encode_heartbeat(out); });
}

void encode_publish(benchmark::State& state)
{
    const std::vector<std::byte> body(static_cast<std::size_t>(state.range(0)));
    const properties props{.content_type = "application/json", .delivery_mode = std::uint8_t{2}};
    const basic::publish method{.routing_key = "orders", .mandatory = true};
    encode_again(state, body.size() + 512, [&](std::span<std::byte> out) {
        auto rest = out;
        rest = rest.subspan(encode_frame(rest, 1, method));
        rest = rest.subspan(encode_header_frame(rest, 1, body.size(), props));
        if (!body.empty())
            rest = rest.subspan(encode_body_frame(rest, 1, body, frame_max));
        return out.size() - rest.size();
    });
}

/// One frame is read again and again: its head, then what `inside` makes of the payload.
template <class Inside>
void decode_again(benchmark::State& state, const std::vector<std::byte>& bytes, Inside inside)
{
    std::size_t messages = 0;
    for (auto _ : state) {
        std::span<const std::byte> input(bytes);
        benchmark::DoNotOptimize(input);
        frame_view frame;
        if (!parse_frame(input, frame_max, frame).complete() || !inside(frame.payload))
            fail();
        benchmark::DoNotOptimize(frame);
        ++messages;
    }
    count(state, messages, messages * bytes.size());
}

template <class Encode>
std::vector<std::byte> one_frame(std::size_t room, Encode encode)
{
    std::vector<std::byte> out;
    append(out, room, encode);
    return out;
}

template <class Method>
void decode_method(benchmark::State& state, const Method& method)
{
    const auto bytes =
        one_frame(512, [&](std::span<std::byte> out) { return encode_frame(out, 1, method); });
    decode_again(state, bytes, [](std::span<const std::byte> payload) {
        Method found;
        const bool good = decode(payload.subspan(4), found).ok(); // behind class and method
        benchmark::DoNotOptimize(found);
        return good;
    });
}

void decode_deliver_method(benchmark::State& state)
{
    decode_method(state, basic::deliver{.consumer_tag = "acquit-orders-1",
                                        .delivery_tag = 7,
                                        .routing_key = "orders"});
}

void decode_ack_method(benchmark::State& state)
{
    decode_method(state, basic::ack{.delivery_tag = 7, .multiple = true});
}

void decode_content_header(benchmark::State& state)
{
    const properties props{.content_type = "application/json", .delivery_mode = std::uint8_t{2}};
    const auto bytes = one_frame(
        512, [&](std::span<std::byte> out) { return encode_header_frame(out, 1, 16, props); });
    decode_again(state, bytes, [](std::span<const std::byte> payload) {
        content_header header;
        const bool good = decode(payload, header).ok();
        benchmark::DoNotOptimize(header);
        return good;
    });
}

/// The bytes of the body are not looked at: a view.
void decode_body(benchmark::State& state)
{
    const std::vector<std::byte> body(static_cast<std::size_t>(state.range(0)));
    const auto bytes = one_frame(body.size() + frame_overhead, [&](std::span<std::byte> out) {
        return encode_body_frame(out, 1, body, frame_max);
    });
    decode_again(state, bytes, [](std::span<const std::byte>) { return true; });
}

void decode_heartbeats(benchmark::State& state)
{
    const auto bytes =
        one_frame(64, [](std::span<std::byte> out) { return encode_heartbeat(out); });
    decode_again(state, bytes, [](std::span<const std::byte>) { return true; });
}

// 131064 is the largest body in one frame.
#define BODY_SIZES ->Arg(0)->Arg(16)->Arg(128)->Arg(1024)->Arg(16384)->Arg(131064)
BENCHMARK(one_pass_delivery) BODY_SIZES;
BENCHMARK(frame_by_frame_delivery) BODY_SIZES;
BENCHMARK(decode_deliver_method);
BENCHMARK(decode_ack_method);
BENCHMARK(decode_content_header);
BENCHMARK(decode_body)->Arg(16)->Arg(131064);
BENCHMARK(decode_heartbeats);
BENCHMARK(settle_frame);
BENCHMARK(encode_deliver_method);
BENCHMARK(encode_content_header);
BENCHMARK(encode_body) BODY_SIZES;
BENCHMARK(encode_heartbeats);
BENCHMARK(encode_publish) BODY_SIZES;

} // namespace

BENCHMARK_MAIN();
