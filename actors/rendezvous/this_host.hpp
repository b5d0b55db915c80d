// Facts about the host of this process: its identity (which processes can share memory), its name, and the addresses
// at which other processes reach it.
#pragma once

#include <string>
#include <vector>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"
#include "messages/wire/placement.hpp"

namespace farandole {

/// Returns the identity of the host: the boot id plus the IPC and network namespaces, or the value of
/// FARANDOLE_HOST_ID. Processes with equal identities can share memory.
std::string host_identity(const settings& values);

/// Returns the name of the host, for messages.
std::string host_name();

/// Returns the name for messages of a host that the list of a job's hosts calls `listed`: of `localhost`, this host's own
/// name, which its workers use too.
std::string host_name_of(const std::string& listed);

/// Set by a launcher for workers whose address it has chosen (elastic/network_choice.hpp): the address of their host at
/// which other members reach them.
inline constexpr const char* member_address_variable = "FARANDOLE_MEMBER_ADDRESS";

/// Returns the address of this host that a peer at `remote_ip` would see, or that of the interface setting. The error
/// names the missing route, address or interface.
expected<std::string> own_address_towards(const std::string& remote_ip, const settings& values);

/// Whether this host can use its own address: the kernel may have found an IPv6 address on another host as well, or has not
/// checked that yet.
bool accepts_listeners(const std::string& ip);

/// All addresses of this host's interfaces that are up, without loopback: IPv4, then IPv6, each in the system's order.
expected<std::vector<host_address>> addresses_for_others();

/// The address of the first interface that the interface setting names; IPv4 if it has such an address.
expected<std::string> address_of_wanted_interface(const settings& values);

/// Returns the numeric address of a host name: IPv4 if it has such an address. Blocks: must not be called on the loop.
expected<std::string> resolve(const std::string& host);

} // namespace farandole
