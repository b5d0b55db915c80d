// What a process knows of where it runs: whether it can share memory with another, what people call its host,
// and by which address others reach it.
#pragma once

#include <string>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Boot id plus IPC and network namespace, or what FARANDOLE_HOST_ID says. Equal text: memory can be shared.
std::string host_identity(const settings& values);

/// For people.
std::string host_name();

/// The address that a peer at `remote_ip` would see, or that of the interface setting. An error names what is
/// missing.
expected<std::string> own_address_towards(const std::string& remote_ip, const settings& values);

/// An address of this host at which processes on other hosts can reach it: that of the interface setting, or
/// of the first interface that is up.
expected<std::string> address_for_others(const settings& values);

/// The same, where the other processes know a name or an address of a host of the job, such as MASTER_ADDR:
/// without an interface setting, the address towards that host; if `known_host` leads to the loopback
/// interface, the first interface that is up, or, where there is none, 127.0.0.1. Blocks: not for the loop.
expected<std::string> address_for_others(const settings& values, const std::string& known_host);

/// Numeric IPv4 address of a host name. Blocks: not for the loop.
expected<std::string> resolve(const std::string& host);

} // namespace farandole
