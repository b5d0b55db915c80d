// Chooses the network addresses that the hosts of a job use among each other, and gives a reason for every address that
// is not used. Pure decisions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

enum class ip_family : std::uint8_t { v4, v6 };

/// These take numeric addresses.
ip_family family_of(const std::string& address);
bool is_loopback(const std::string& address);
bool is_link_local(const std::string& address);

/// An interface, or a network such as 10.0.0.0/8 or fd00::/8, that the user wants the job to use.
class wanted_network {
public:
  /// Parses "eth0", "10.0.0.0/8" or "fd00::/8". An error if a network is malformed.
  static expected<wanted_network> parse(const std::string& text);

  bool contains(const host_address& address) const;
  const std::string& text() const { return text_; }

private:
  std::string text_;
  std::string network_; ///< bytes of the address of a network; empty for an interface
  int prefix_bits_ = 0;
};

expected<std::vector<wanted_network>> parse_wanted_networks(std::span<const std::string> texts);

/// Another host has dialled an address (reach_check.hpp), or the host itself could not listen there.
struct connection_attempt {
  std::string address;
  std::string from;    ///< name of the host that dialled
  std::string problem; ///< why it failed; empty: the address was reached

  friend bool operator==(const connection_attempt&, const connection_attempt&) = default;
};

/// The addresses of one host.
struct host_networks {
  std::string host;
  std::vector<host_address> addresses;
  std::string machine;   ///< its identity: two names of one machine share their addresses
  std::string preferred; ///< the address of its connection to the launcher; empty on the launcher's own host
  std::vector<connection_attempt> attempts = {}; ///< from other hosts; none: they have not tried
};

/// Why an address is not used.
struct excluded_address {
  host_address address;
  std::string reason;        ///< "it is a loopback address"
  bool is_unreached = false; ///< an attempt to reach it has failed
};

struct usable_networks {
  std::vector<host_address> addresses; ///< those that most hosts have reached first, then the preferred one
  std::vector<excluded_address> excluded;

  /// The names of the interfaces, without repetition.
  std::vector<std::string> interfaces() const;
};

/// Excludes loopback and link-local addresses, addresses that several machines have (such as that of docker0), those
/// outside of the wanted networks, and those that another host has failed to reach. The wanted networks may differ between hosts: each host uses those that it has.
std::map<std::string, usable_networks> choose_networks(std::span<const host_networks> hosts,
                                                       std::span<const wanted_network> wanted);

/// The family in which all members of a job reach each other: IPv4 if each host has a usable IPv4 address, otherwise IPv6
/// if each has one. IPv4 if neither holds.
ip_family common_family(const std::map<std::string, usable_networks>& chosen);
/// Excludes the addresses of the other family.
void use_family(std::map<std::string, usable_networks>& chosen, ip_family family);

/// The error `precondition` for the hosts that have no usable address, with all their addresses and the reasons, and with
/// the remedy if other hosts do not reach them; no error if every host has one.
error missing_networks(const std::map<std::string, usable_networks>& chosen,
                       std::span<const wanted_network> wanted);

} // namespace farandole
