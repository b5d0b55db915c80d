#include "tools/farandole/hosts.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "collectives/transport/connections/interface_addresses.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Adds the slots of a host that may have been named before. The sum must not exceed the maximum for one host.
error add(std::vector<host_slots>& hosts, std::string_view name, std::int32_t slots) {
  if (slots_of(hosts, name) > most_slots - slots)
    return wrong("host '" + printable_name(name) + "' has more than " + std::to_string(most_slots) +
                 " slots altogether; name it once, with fewer");
  add_slots(hosts, name, slots);
  return {};
}

} // namespace

expected<std::vector<host_slots>> parse_hosts(std::string_view list) {
  std::vector<host_slots> hosts;
  for (;;) {
    const auto comma = list.find(',');
    const auto entry = trimmed(list.substr(0, comma));
    const auto host = parse_host_entry(entry);
    if (!host || !host->slots)
      return wrong("'" + printable_name(entry) +
                   "' is no host and its slots; write name:slots, as in localhost:4" +
                   std::string(host_name_hint(entry)));
    if (auto problem = add(hosts, host->name, *host->slots))
      return problem;
    if (comma == std::string_view::npos)
      return hosts;
    list.remove_prefix(comma + 1);
  }
}

namespace {

/// The numbers of a line of a host file.
struct slot_limits {
  std::optional<std::int32_t> slots, most;
};

constexpr const char* line_form = "is not of the form: name slots=number";

/// Reads "slots=2 max_slots = 4". Returns the problem of the line, or nothing.
std::string read_keywords(std::string_view rest, slot_limits& into) {
  while (!rest.empty()) {
    const auto equals = rest.find('=');
    const auto key = trimmed(rest.substr(0, equals));
    if (equals == std::string_view::npos || key.find_first_of(" \t") != std::string_view::npos)
      return line_form;
    rest = trimmed(rest.substr(equals + 1));
    const auto value = rest.substr(0, rest.find_first_of(" \t"));
    rest = trimmed(rest.substr(value.size()));
    auto* number = key == "slots"                             ? &into.slots
                   : key == "max_slots" || key == "max-slots" ? &into.most
                                                              : nullptr;
    if (!number)
      return "has the unknown keyword '" + printable_name(key) + "'; the keywords are slots and max_slots";
    const bool is_repeated = number->has_value();
    *number = parse_slots(value);
    if (is_repeated || !*number)
      return line_form;
  }
  return {};
}

/// Reads a line that is not empty. Returns its problem, or nothing.
std::string read_host_line(std::string_view line, std::vector<host_slots>& hosts) {
  const auto name = line.substr(0, line.find_first_of(" \t"));
  const auto host = parse_host_entry(name);
  slot_limits limits;
  if (host)
    limits.slots = host->slots;
  else if (name.find('=') == std::string_view::npos)
    return "begins with a name that is no host" + std::string(host_name_hint(name));
  if (auto problem = read_keywords(trimmed(line.substr(name.size())), limits); !problem.empty())
    return problem;
  if (!host || !limits.slots)
    return line_form;
  if (limits.most && *limits.most < *limits.slots)
    return "has fewer max_slots than slots";
  const auto problem = add(hosts, host->name, *limits.slots);
  return problem ? "is too much: " + problem.text : std::string();
}

} // namespace

expected<std::vector<host_slots>> parse_hostfile(std::string_view content, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (content.starts_with(byte_order_mark))
    content.remove_prefix(byte_order_mark.size());
  std::vector<host_slots> hosts;
  for (std::size_t number = 1; !content.empty(); ++number) {
    const auto end = content.find('\n');
    auto line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty())
      continue;
    if (const auto problem = read_host_line(line, hosts); !problem.empty()) {
      auto text = "host file " + file + ", line " + std::to_string(number);
      text.append(": '").append(printable_name(line)).append("' ").append(problem);
      return wrong(std::move(text));
    }
  }
  return hosts;
}

expected<std::vector<placement>> place(std::span<const host_slots> hosts, std::int32_t processes,
                                       const machine_lookup& machine_of) {
  std::vector<placement> places;
  std::vector<std::string> machines; // the machine of each process
  std::map<std::string, std::int32_t> sizes;
  for (const auto& host : hosts) {
    const auto machine = machine_of ? machine_of(host.name) : host.name;
    for (std::int32_t slot = 0; slot < host.slots && static_cast<std::int32_t>(places.size()) < processes;
         ++slot) {
      places.push_back({static_cast<std::int32_t>(places.size()), host.name, sizes[machine]++, 0, 0, 0});
      machines.push_back(machine);
    }
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    places[rank].local_size = sizes[machines[rank]];
  if (static_cast<std::int32_t>(places.size()) < processes)
    return wrong(std::to_string(processes) + " processes were asked for (-np), but the hosts have only " +
                 std::to_string(places.size()) + " slots; give them more (-H name:slots) or ask for fewer");
  // A local rank occurs once on each machine that has it.
  for (auto& entry : places)
    for (const auto& other : places)
      if (other.local_rank == entry.local_rank) {
        ++entry.cross_size;
        entry.cross_rank += other.rank < entry.rank;
      }
  return places;
}

namespace {

struct address_list_deleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

char lower_case(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// All of 127.0.0.0/8 is this machine, although the interface lists only one address of it.
bool is_loopback(const sockaddr* address) {
  return address->sa_family == AF_INET &&
         (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
}

/// In any letter case, with or without a final dot.
bool are_equal(std::string_view left, std::string_view right) {
  const auto without_dot = [](std::string_view text) {
    return text.substr(0, text.size() - (text.ends_with('.') ? 1 : 0));
  };
  return std::ranges::equal(without_dot(left), without_dot(right), {}, lower_case, lower_case);
}

} // namespace

bool is_name_of(std::string_view name, std::string_view own) {
  return !name.empty() && (are_equal(name, own) || are_equal(name, own.substr(0, own.find('.'))));
}

bool is_this_host(const std::string& name) {
  char own[256] = {};
  if (are_equal(name, "localhost") || (::gethostname(own, sizeof own - 1) == 0 && are_equal(name, own)))
    return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  // The short name may be that of another host, in a domain that is searched first.
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0)
    return is_name_of(name, own);
  const std::unique_ptr<addrinfo, address_list_deleter> addresses(found);
  const auto local = list_interface_addresses();
  if (!local)
    return false;
  for (const auto* address = found; address; address = address->ai_next) {
    if (is_loopback(address->ai_addr))
      return true;
    const auto text = address_text(address->ai_addr);
    if (std::any_of(local->begin(), local->end(), [&](const auto& entry) { return entry.address == text; }))
      return true;
  }
  return false;
}

std::vector<std::string> machines_with_two_names(std::span<const host_slots> hosts,
                                                 const machine_lookup& machine_of) {
  std::map<std::string, std::string> first; // name of the first host of each machine
  std::vector<std::string> notices;
  for (const auto& host : hosts) {
    const auto [entry, is_new] = first.try_emplace(machine_of(host.name), host.name);
    if (!is_new)
      notices.push_back("hosts " + printable_name(entry->second) + " and " + printable_name(host.name) +
                        " are one machine; its workers count as those of one host");
  }
  return notices;
}

} // namespace farandole
