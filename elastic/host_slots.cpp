#include "elastic/host_slots.hpp"

#include <algorithm>
#include <charconv>

namespace farandole {

namespace {

/// A name must not begin with a dash: it becomes an argument of ssh, which would take it for an option.
bool is_name(std::string_view text) {
  return !text.empty() && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_.-") == std::string_view::npos;
}

bool is_v6(std::string_view text) {
  return text.find(':') != std::string_view::npos &&
         text.find_first_not_of("0123456789abcdefABCDEF:.%") == std::string_view::npos;
}

} // namespace

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<std::int32_t> parse_slots(std::string_view digits) {
  std::int32_t slots = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  if (problem != std::errc() || end != digits.data() + digits.size() || slots < 0 || slots > most_slots)
    return std::nullopt;
  return slots;
}

std::optional<host_entry> parse_host_entry(std::string_view text) {
  host_entry entry;
  std::string_view rest; // ":2" or nothing
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos || !is_v6(text.substr(1, bracket - 1)))
      return std::nullopt;
    entry.name = text.substr(1, bracket - 1);
    rest = text.substr(bracket + 1);
  } else {
    const auto colon = text.find(':');
    entry.name = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon);
    if (!is_name(entry.name))
      return std::nullopt;
  }
  if (rest.empty())
    return entry;
  entry.slots = parse_slots(rest.substr(1));
  return rest.front() == ':' && entry.slots ? std::optional(entry) : std::nullopt;
}

std::string_view host_name_hint(std::string_view refused) {
  return refused.find('@') != std::string_view::npos ? "; the user of ssh belongs in ~/.ssh/config (User)"
         : refused.starts_with('-')                  ? "; a name must not begin with a dash"
                                                     : "";
}

std::int32_t slots_of(const std::vector<host_slots>& hosts, std::string_view name) {
  for (const auto& host : hosts)
    if (host.name == name)
      return host.slots;
  return 0;
}

bool add_slots(std::vector<host_slots>& hosts, std::string_view name, std::int32_t slots) {
  const auto known_host =
      std::find_if(hosts.begin(), hosts.end(), [&](const host_slots& host) { return host.name == name; });
  if (known_host == hosts.end()) {
    hosts.push_back({std::string(name), slots});
    return false;
  }
  known_host->slots += slots;
  return true;
}

} // namespace farandole
