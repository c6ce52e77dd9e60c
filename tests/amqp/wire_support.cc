#include "wire_support.h"

namespace acquit::amqp::wire::testing {

visited visit(std::span<const std::byte> payload)
{
    visited seen;
    seen.result = visit_method(payload, [&]<class M>(const M& method) {
        seen.id = id_of<M>;
        seen.frame = frame_of(7, method);
        seen.fields = printed(method);
    });
    return seen;
}

} // namespace acquit::amqp::wire::testing
