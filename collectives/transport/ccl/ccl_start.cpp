#include "collectives/transport/ccl/ccl_start.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include <oneapi/ccl.hpp>

namespace farandole {
namespace {

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

/// The network interface to use. Empty: oneCCL chooses one itself, which works if there is an interface
/// other than the loopback. If all members are on one host, this member's address is that of the loopback.
std::string interface_for(const farandole_path_set& set) {
  std::string own;
  bool others = false;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    return {};
  for (const ifaddrs* address_entry = all; address_entry != nullptr; address_entry = address_entry->ifa_next)
    if (address_entry->ifa_addr != nullptr)
      if (const std::string address = text_of(address_entry->ifa_addr); !address.empty()) {
        if (address == set.address)
          own = address_entry->ifa_name;
        others = others || (address_entry->ifa_flags & IFF_LOOPBACK) == 0;
      }
  ::freeifaddrs(all);
  const bool several_hosts =
      std::any_of(set.hosts, set.hosts + set.members, [&](auto host) { return host != set.hosts[0]; });
  return several_hosts || !others ? own : std::string();
}

std::vector<std::string> wanted_settings(const farandole_path_set& set) {
  const std::int32_t own = set.hosts[set.rank];
  const auto local_rank = std::count(set.hosts, set.hosts + set.rank, own);
  const auto local_size = std::count(set.hosts, set.hosts + set.members, own);
  std::vector<std::string> wanted = {
      "CCL_ATL_TRANSPORT=ofi", // not MPI, which would need an MPI job
      "CCL_PROCESS_LAUNCHER=none",
      "CCL_LOCAL_RANK=" + std::to_string(local_rank),
      "CCL_LOCAL_SIZE=" + std::to_string(local_size),
      "CCL_LOG_LEVEL=error", // oneCCL would warn about each of these settings
      "FI_PROVIDER=tcp",
      // oneCCL's default algorithms sum in the order of arrival, so runs would not be reproducible bit for
      // bit.
      "CCL_ALLREDUCE=recursive_doubling:0-16384;ring:16385-max",
  };
  // Without worker threads, oneCCL makes progress inside our calls and throws errors where this module
  // catches them. If the user has set an option for worker threads, they stay enabled.
  if (std::getenv("CCL_WORKER_COUNT") == nullptr && std::getenv("CCL_WORKER_AFFINITY") == nullptr)
    wanted.emplace_back("CCL_WORKER_OFFLOAD=0");
  if (const auto name = interface_for(set); !name.empty())
    for (const char* setting : {"CCL_KVS_IFACE=", "FI_TCP_IFACE="})
      wanted.push_back(setting + name);
  return wanted;
}

/// Adds the settings that are not set to the environment. It does not use setenv(), which may move the
/// environment while another thread is in getenv(); here every array stays valid for ever. The settings are
/// never removed, because libfabric reads its own later, on another thread, when the first communicator is
/// created.
void show(const std::vector<std::string>& wanted) {
  static std::deque<std::string> texts;
  static std::vector<char*> extended;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    extended.push_back(*variable);
  for (const auto& setting : wanted)
    if (std::getenv(setting.substr(0, setting.find('=')).c_str()) == nullptr)
      extended.push_back(texts.emplace_back(setting).data());
  extended.push_back(nullptr);
  environ = extended.data();
}

std::string start(const farandole_path_set& set) {
  try {
    show(wanted_settings(set));
    ccl::init();
    return {};
  } catch (const std::exception& problem) {
    return std::string("oneCCL does not start: ") + problem.what();
  }
}

} // namespace

const std::string& start_oneccl(const farandole_path_set& set) {
  static const std::string problem = start(set);
  return problem;
}

} // namespace farandole
