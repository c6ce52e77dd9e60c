#include <acquit/amqp/wire/methods.h>

namespace acquit::amqp::wire {

namespace {

template <class... M>
const char* name_in(method_list<M...>, method_id id) noexcept
{
    const char* name = "unknown";
    static_cast<void>(((id == id_of<M> && (name = M::name, true)) || ...));
    return name;
}

} // namespace

const char* method_name(method_id id) noexcept
{
    return name_in(all_methods{}, id);
}

} // namespace acquit::amqp::wire
