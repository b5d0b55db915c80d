#include "elastic/network_choice.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "messages/values/printable.hpp"

namespace farandole {

namespace {

/// The bytes of a numeric address, in network order; empty for other texts.
std::string bytes_of(const std::string& address) {
  char bytes[16];
  if (::inet_pton(AF_INET, address.c_str(), bytes) == 1)
    return {bytes, 4};
  if (::inet_pton(AF_INET6, address.c_str(), bytes) == 1)
    return {bytes, 16};
  return {};
}

bool shares_prefix(const std::string& a, const std::string& b, int bits) {
  if (a.size() != b.size())
    return false;
  for (std::size_t i = 0; i < a.size() && bits > 0; ++i, bits -= 8) {
    const auto mask = static_cast<unsigned char>(bits >= 8 ? 0xff : 0xff << (8 - bits));
    if ((static_cast<unsigned char>(a[i]) & mask) != (static_cast<unsigned char>(b[i]) & mask))
      return false;
  }
  return true;
}

bool is_in(const std::string& address, const char* network, int bits) {
  return shares_prefix(bytes_of(address), bytes_of(network), bits);
}

bool has_address_of(const usable_networks& networks, ip_family family) {
  return std::ranges::any_of(networks.addresses,
                             [&](const auto& address) { return family_of(address.address) == family; });
}

std::string texts_of(std::span<const wanted_network> wanted) {
  std::string texts;
  for (const auto& network : wanted)
    texts += (texts.empty() ? "" : ", ") + network.text();
  return texts;
}

/// Why the address cannot be used by other hosts, or is not wanted; empty if it can be used.
std::string objection_to(const host_address& address, const std::string& machine,
                         std::span<const host_networks> hosts, std::span<const wanted_network> wanted) {
  if (bytes_of(address.address).empty())
    return "it is no numeric address";
  if (is_loopback(address.address))
    return "it is a loopback address";
  if (is_link_local(address.address))
    return "it is a link-local address";
  for (const auto& other : hosts)
    if (other.machine != machine)
      for (const auto& theirs : other.addresses)
        if (theirs.address == address.address)
          return printable_name(other.host) + " has it, too";
  if (!wanted.empty() &&
      std::ranges::none_of(wanted, [&](const auto& network) { return network.contains(address); }))
    return "it is not in " + texts_of(wanted) + " (--network-interfaces)";
  return {};
}

/// The cause of the first attempt to reach the address that has failed; empty if there is none.
std::string objection_by_attempt(const host_address& address, const host_networks& host) {
  for (const auto& attempt : host.attempts) {
    if (attempt.address != address.address || attempt.problem.empty())
      continue;
    if (attempt.from == host.host)
      return attempt.problem;
    return printable_name(attempt.from) + " cannot reach it: " + attempt.problem;
  }
  return {};
}

std::string objection_to_other_family(ip_family used) {
  if (used == ip_family::v4)
    return "the job uses IPv4 addresses";
  return "the job uses IPv6 addresses";
}

} // namespace

ip_family family_of(const std::string& address) {
  return address.find(':') == std::string::npos ? ip_family::v4 : ip_family::v6;
}

bool is_loopback(const std::string& address) {
  return is_in(address, "127.0.0.0", 8) || is_in(address, "::1", 128);
}

bool is_link_local(const std::string& address) {
  return is_in(address, "169.254.0.0", 16) || is_in(address, "fe80::", 10);
}

expected<wanted_network> wanted_network::parse(const std::string& text) {
  wanted_network made;
  made.text_ = text;
  const auto slash = text.find('/');
  if (slash == std::string::npos)
    return made;
  made.network_ = bytes_of(text.substr(0, slash));
  const auto* end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + slash + 1, end, made.prefix_bits_);
  if (made.network_.empty() || result.ec != std::errc{} || result.ptr != end || made.prefix_bits_ < 0 ||
      made.prefix_bits_ > static_cast<int>(8 * made.network_.size()))
    return error{error_kind::invalid_argument,
                 "'" + printable_name(text) +
                     "' is no network (--network-interfaces): write it like 10.0.0.0/8 or fd00::/8"};
  return made;
}

bool wanted_network::contains(const host_address& address) const {
  if (network_.empty())
    return address.interface == text_;
  return shares_prefix(bytes_of(address.address), network_, prefix_bits_);
}

expected<std::vector<wanted_network>> parse_wanted_networks(std::span<const std::string> texts) {
  std::vector<wanted_network> wanted;
  for (const auto& text : texts) {
    auto parsed = wanted_network::parse(text);
    if (!parsed)
      return parsed.error();
    wanted.push_back(std::move(*parsed));
  }
  return wanted;
}

std::vector<std::string> usable_networks::interfaces() const {
  std::vector<std::string> names;
  for (const auto& address : addresses)
    if (std::ranges::find(names, address.interface) == names.end())
      names.push_back(address.interface);
  return names;
}

std::map<std::string, usable_networks> choose_networks(std::span<const host_networks> hosts,
                                                       std::span<const wanted_network> wanted) {
  std::map<std::string, usable_networks> chosen;
  for (const auto& host : hosts) {
    auto& networks = chosen[host.host];
    for (const auto& address : host.addresses) {
      if (auto reason = objection_to(address, host.machine, hosts, wanted); !reason.empty())
        networks.excluded.push_back({address, std::move(reason)});
      else if (auto failure = objection_by_attempt(address, host); !failure.empty())
        networks.excluded.push_back({address, std::move(failure), true});
      else
        networks.addresses.push_back(address);
    }
    // Some hosts may still have been waiting for an answer from an address that others have reached.
    const auto times_reached = [&](const host_address& address) {
      return std::ranges::count(host.attempts, address.address, &connection_attempt::address);
    };
    std::ranges::stable_partition(networks.addresses,
                                  [&](const auto& address) { return address.address == host.preferred; });
    std::ranges::stable_sort(networks.addresses, std::ranges::greater(), times_reached);
  }
  return chosen;
}

ip_family common_family(const std::map<std::string, usable_networks>& chosen) {
  for (const auto family : {ip_family::v4, ip_family::v6})
    if (std::ranges::all_of(chosen, [&](const auto& entry) { return has_address_of(entry.second, family); }))
      return family;
  return ip_family::v4;
}

void use_family(std::map<std::string, usable_networks>& chosen, ip_family family) {
  const auto reason = objection_to_other_family(family);
  for (auto& [host, networks] : chosen)
    std::erase_if(networks.addresses, [&, &excluded = networks.excluded](const host_address& address) {
      if (family_of(address.address) == family)
        return false;
      excluded.push_back({address, reason});
      return true;
    });
}

error missing_networks(const std::map<std::string, usable_networks>& chosen,
                       std::span<const wanted_network> wanted) {
  std::string text;
  bool is_unreached = false;
  for (const auto& [host, networks] : chosen) {
    if (!networks.addresses.empty())
      continue;
    text +=
        "\n  " + printable_name(host) + ":" + (networks.excluded.empty() ? " no interface that is up" : "");
    for (const auto& excluded : networks.excluded) {
      text += "\n    " + excluded.address.interface + " " + excluded.address.address + ": " + excluded.reason;
      is_unreached = is_unreached || excluded.is_unreached;
    }
  }
  if (text.empty())
    return {};
  if (is_unreached)
    text +=
        "\nName networks in which the hosts reach each other (--network-interfaces), or let their firewalls "
        "pass the job: docs/guides/firewalls.md";
  return {error_kind::precondition, "some hosts have no address at which the others can reach them" +
                                        (wanted.empty() ? std::string() : " in " + texts_of(wanted)) + ":" +
                                        text};
}

} // namespace farandole
