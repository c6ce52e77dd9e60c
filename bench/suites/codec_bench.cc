#include <acquit/amqp/wire/wire.h>

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

// The codec alone: nanoseconds per delivery and bytes per second, without sockets, loop or
// handlers.

namespace {

using namespace acquit::amqp::wire;

constexpr std::uint32_t frame_max = 131072;

void append(std::vector<std::byte>& out, std::size_t room, auto&& encode)
{
    auto at = out.size();
    out.resize(at + room);
    out.resize(at + encode(std::span(out).subspan(at)));
}

table some_headers()
{
    table death;
    death.set("count", std::int64_t{1})
        .set("reason", "rejected")
        .set("queue", "orders")
        .set("time", timestamp{1});
    table headers;
    headers.set("x-death", array().add(death))
        .set("x-delivery-count", std::int64_t{3})
        .set("trace", "0af7651916cd43dd");
    return headers;
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

void all_properties_and_one_header(benchmark::State& state)
{
    auto headers = some_headers();
    properties props{.content_type = "application/json",
                     .headers = headers,
                     .delivery_mode = std::uint8_t{2},
                     .message_id = "0af7651916cd43dd"};
    std::vector<std::byte> frame;
    append(frame, header_frame_size(props),
           [&](auto to) { return encode_header_frame(to, 1, 0, props); });
    std::size_t messages = 0;
    for (auto _ : state) {
        content_header header;
        properties out;
        if (decode(std::span(frame).subspan(frame_head_size), header) && header.props.decode(out))
            benchmark::DoNotOptimize(out.headers->find("x-delivery-count"));
        ++messages;
    }
    count(state, messages, messages * frame.size());
}

void headers_left_undecoded_but_one(benchmark::State& state)
{
    auto headers = some_headers();
    std::vector<std::byte> frame;
    properties props{.content_type = "application/json", .headers = headers};
    append(frame, header_frame_size(props),
           [&](auto to) { return encode_header_frame(to, 1, 0, props); });
    properties_view view(std::span<const std::byte>(frame).subspan(frame_head_size + 12));
    std::size_t messages = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(view.headers()->find("x-delivery-count"));
        ++messages;
    }
    count(state, messages, messages * frame.size());
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

void publish_frames(benchmark::State& state)
{
    std::vector<std::byte> body(static_cast<std::size_t>(state.range(0))), out(256 * 1024);
    auto headers = some_headers();
    properties props{
        .content_type = "application/json", .headers = headers, .delivery_mode = std::uint8_t{2}};
    basic::publish method{.routing_key = "orders", .mandatory = true};
    std::size_t messages = 0, bytes = 0;
    for (auto _ : state) {
        std::span<std::byte> rest(out);
        rest = rest.subspan(encode_frame(rest, 1, method));
        rest = rest.subspan(encode_header_frame(rest, 1, body.size(), props));
        rest = rest.subspan(encode_body_frame(rest, 1, body, frame_max));
        benchmark::ClobberMemory();
        ++messages;
        bytes += out.size() - rest.size();
    }
    count(state, messages, bytes);
}

// 131064 is the largest body in one frame.
BENCHMARK(one_pass_delivery)->Arg(0)->Arg(16)->Arg(128)->Arg(1024)->Arg(16384)->Arg(131064);
BENCHMARK(frame_by_frame_delivery)->Arg(0)->Arg(16)->Arg(128)->Arg(1024)->Arg(16384)->Arg(131064);
BENCHMARK(all_properties_and_one_header);
BENCHMARK(headers_left_undecoded_but_one);
BENCHMARK(settle_frame);
BENCHMARK(publish_frames)->Arg(0)->Arg(16)->Arg(1024)->Arg(131064);

} // namespace

BENCHMARK_MAIN();
