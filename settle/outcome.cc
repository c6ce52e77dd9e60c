#include <acquit/settle/outcome.h>

#include <type_traits>

namespace acquit::settle {

static_assert(sizeof(outcome) == 16 && std::is_trivially_copyable_v<outcome>);

std::string_view name(outcome_kind kind) noexcept
{
    switch (kind) {
    case outcome_kind::ack:
        return "ack";
    case outcome_kind::drop:
        return "drop";
    case outcome_kind::retry:
        return "retry";
    case outcome_kind::retry_after:
        return "retry_after";
    }
    return "unknown";
}

} // namespace acquit::settle
