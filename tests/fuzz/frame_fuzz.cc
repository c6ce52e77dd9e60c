#include <acquit/amqp/wire/wire.h>

#include <cstdlib>
#include <string>
#include <vector>

// Input is a stream of frames. Read whole, and read byte by byte, it must give the same frames and
// the same fault; and what the one-pass delivery parser finds must be what the general path finds.

using namespace acquit::amqp::wire;

namespace {

constexpr std::uint32_t frame_max = 4096; // so that short inputs reach the bound

void expect(bool condition)
{
    if (!condition)
        std::abort();
}

// Everything that can be asked of a frame, as text.
std::string read_payload(const frame_view& frame)
{
    std::string events = std::to_string(frame.type) + " " + std::to_string(frame.channel) + " " +
                         std::to_string(frame.payload.size()) + " ";
    if (frame.type == frame_method) {
        std::vector<std::byte> again;
        auto result = visit_method(frame.payload, [&]<class M>(const M& method) {
            events += M::name;
            again.resize(encoded_size(method));
            expect(encode_frame(again, frame.channel, method) == again.size());
        });
        events += describe(result);
    } else if (frame.type == frame_header) {
        content_header header;
        expect(decode(frame.payload, header).ok());
        properties props;
        events += describe(header.props.decode(props));
        events += std::to_string(header.body_size) + describe(props.headers.value_or(table_view{}));
        auto in_place = header.props.headers();
        expect(in_place.has_value() == props.headers.has_value());
        std::vector<std::byte> again(header_frame_size(props));
        expect(encode_header_frame(again, frame.channel, header.body_size, props) == again.size());
    }
    return events + "\n";
}

// `step`: bytes that become visible at a time; each view is a copy of exactly those, so that ASan
// guards its end.
std::string read_stream(std::span<const std::byte> input, std::size_t step)
{
    std::string events;
    std::size_t at = 0;
    for (std::size_t visible = std::min(step, input.size());;) {
        std::vector<std::byte> window(input.begin() + static_cast<std::ptrdiff_t>(at),
                                      input.begin() + static_cast<std::ptrdiff_t>(visible));
        frame_view frame;
        auto status = parse_frame(window, frame_max, frame);
        if (status.failed())
            return events + describe(status.error);
        if (status.complete()) {
            expect(frame.size <= window.size() &&
                   frame.size == frame.payload.size() + frame_overhead);
            events += read_payload(frame);
            at += frame.size;
        } else {
            expect(status.wanted > window.size());
            if (visible == input.size())
                return events;
            visible = std::min(visible + step, input.size());
        }
    }
}

void check_delivery(std::span<const std::byte> input)
{
    delivery_frames fast;
    if (!parse_delivery(input, frame_max, fast))
        return;
    frame_view method, header, body;
    expect(parse_frame(input, frame_max, method).complete());
    expect(parse_frame(input.subspan(method.size), frame_max, header).complete());
    basic::deliver deliver;
    content_header content;
    expect(decode(method.payload.subspan(4), deliver).ok() && decode(header.payload, content).ok());
    if (content.body_size != 0)
        expect(parse_frame(input.subspan(method.size + header.size), frame_max, body).complete());
    expect(fast.channel == method.channel && fast.delivery_tag == deliver.delivery_tag &&
           fast.redelivered == deliver.redelivered && fast.consumer_tag == deliver.consumer_tag &&
           fast.exchange == deliver.exchange && fast.routing_key == deliver.routing_key &&
           fast.body.size() == content.body_size &&
           fast.properties.data() == content.props.raw().data() &&
           fast.consumed == method.size + header.size + body.size);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    auto input = std::as_bytes(std::span(data, size));
    check_delivery(input);
    auto whole = read_stream(input, std::max<std::size_t>(size, 1));
    if (size <= 4096) // byte by byte is quadratic
        expect(whole == read_stream(input, 1));
    return 0;
}
