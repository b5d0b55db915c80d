#include "elastic/discovery.hpp"

namespace farandole {

namespace {

constexpr std::size_t longest_quote = 120;

std::string quoted(std::string_view line) {
  std::string text = "'";
  for (const char label : line.substr(0, longest_quote))
    text += static_cast<unsigned char>(label) < ' ' || label == '\x7f' ? '?' : label;
  return text + (line.size() > longest_quote ? "…'" : "'");
}

error wrong(std::size_t number, std::string_view line, const std::string& problem) {
  return {error_kind::invalid_argument,
          "line " + std::to_string(number) + " of the discovered hosts, " + quoted(line) + ", " + problem};
}

error take_line(std::size_t number, std::string_view line, std::optional<std::int32_t> slots_per_host,
                discovered_hosts& into) {
  const auto entry = parse_host_entry(line);
  if (!entry)
    return wrong(number, line,
                 "is no host; print one host a line, as in: node1:4" + std::string(host_name_hint(line)));
  const auto slots = entry->slots ? entry->slots : slots_per_host;
  if (!slots)
    return wrong(number, line,
                 "tells no slots; print name:slots, or say with --slots-per-host how many such hosts have");
  if (*slots < 1)
    return wrong(number, line, "has no slots; print hosts with at least one, and leave out the others");
  const auto before = slots_of(into.hosts, entry->name);
  if (before > most_slots - *slots)
    return wrong(number, line, "gives the host more than " + std::to_string(most_slots) + " slots");
  if (add_slots(into.hosts, entry->name, *slots))
    into.notes.push_back("line " + std::to_string(number) + " of the discovered hosts, " + quoted(line) +
                         ", is a host that was printed before; it has " + std::to_string(before + *slots) +
                         " slots altogether");
  return {};
}

} // namespace

expected<discovered_hosts> parse_discovery(std::string_view printed,
                                           std::optional<std::int32_t> slots_per_host) {
  discovered_hosts result;
  for (std::size_t number = 1; !printed.empty(); ++number) {
    const auto end = printed.find('\n');
    auto line = printed.substr(0, end);
    line = trimmed(line.substr(0, line.find('#')));
    printed.remove_prefix(end == std::string_view::npos ? printed.size() : end + 1);
    if (number > most_discovery_lines)
      return wrong(number, line,
                   "is one too many: " + std::to_string(most_discovery_lines) + " are the most");
    if (line.empty())
      continue;
    if (auto problem = take_line(number, line, slots_per_host, result))
      return problem;
  }
  return result;
}

} // namespace farandole
