#include <acquit/amqp/session/mechanism.h>
#include <acquit/amqp/session/options.h>
#include <acquit/amqp/wire/table.h>

#include <algorithm>
#include <array>

namespace acquit::amqp {

namespace {

constexpr std::array<std::string_view, 3> known{"PLAIN", "AMQPLAIN", "EXTERNAL"};

bool list_has(std::string_view list, std::string_view word) noexcept
{
    while (!list.empty()) {
        const auto end = std::min(list.find(' '), list.size());
        if (list.substr(0, end) == word) {
            return true;
        }
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return false;
}

} // namespace

std::optional<std::string_view> choose_mechanism(const std::vector<std::string>& wanted,
                                                 std::string_view offered) noexcept
{
    for (const auto& mechanism : wanted) {
        const auto* const ours = std::find(known.begin(), known.end(), mechanism);
        if (ours != known.end() && list_has(offered, mechanism)) {
            return *ours;
        }
    }
    return std::nullopt;
}

std::optional<std::string> mechanism_response(std::string_view mechanism, std::string_view user,
                                              std::string_view password)
{
    std::string response;
    if (mechanism == "PLAIN") {
        if (user.find('\0') != user.npos || password.find('\0') != password.npos) {
            return std::nullopt;
        }
        response.reserve(2 + user.size() + password.size()); // no second copy to wipe
        response += '\0';
        response += user;
        response += '\0';
        response += password;
        return response;
    }
    if (mechanism == "AMQPLAIN") {
        wire::table login;
        login.set("LOGIN", user).set("PASSWORD", password);
        const auto raw = login.raw();
        response.assign(reinterpret_cast<const char*>(raw.data()), raw.size());
        return response;
    }
    if (mechanism == "EXTERNAL") {
        return response;
    }
    return std::nullopt;
}

std::optional<credentials> read_response(std::string_view mechanism, std::string_view response)
{
    if (mechanism == "PLAIN") {
        // The authorisation identity before the first zero is ignored, as RabbitMQ does.
        const auto first = response.find('\0');
        const auto second = first == response.npos ? first : response.find('\0', first + 1);
        if (second == response.npos) {
            return std::nullopt;
        }
        return credentials{std::string(response.substr(first + 1, second - first - 1)),
                           std::string(response.substr(second + 1))};
    }
    if (mechanism == "AMQPLAIN") {
        const wire::table_view login(
            {reinterpret_cast<const std::byte*>(response.data()), response.size()});
        const auto user = login.find("LOGIN");
        const auto password = login.find("PASSWORD");
        if (!user || !password || !user->as_string() || !password->as_string()) {
            return std::nullopt;
        }
        return credentials{std::string(*user->as_string()), std::string(*password->as_string())};
    }
    return std::nullopt;
}

} // namespace acquit::amqp
