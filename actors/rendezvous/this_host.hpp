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

/// Returns the address of this host that a peer at `remote_ip` would see, or that of the interface setting. The error
/// names the missing route, address or interface.
expected<std::string> own_address_towards(const std::string& remote_ip, const settings& values);

/// All IPv4 addresses of this host's interfaces that are up, without loopback, in the system's order.
expected<std::vector<host_address>> addresses_for_others();

/// Returns an address of this host at which processes on other hosts can reach it: that of the interface setting, or
/// of the first interface that is up.
expected<std::string> address_for_others(const settings& values);

/// The same, for jobs in which all processes know a name or an address of one host of the job, such as MASTER_ADDR.
/// Returns, in this order of preference:
/// - the address of the interface setting;
/// - the local address towards `known_host`, unless it is on the loopback interface;
/// - the address of the first interface that is up;
/// - the loopback address.
/// Blocks: must not be called on the loop.
expected<std::string> address_for_others(const settings& values, const std::string& known_host);

/// Returns the numeric IPv4 address of a host name. Blocks: must not be called on the loop.
expected<std::string> resolve(const std::string& host);

} // namespace farandole
