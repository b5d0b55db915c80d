#include "collectives/paths/ccl/ccl_start.hpp"

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

/// The network interface with this address; empty when there is none.
std::string interface_of(const char* address) {
  std::string name;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0)
    return name;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr)
      continue;
    const int family = one->ifa_addr->sa_family;
    const void* bytes = nullptr;
    if (family == AF_INET)
      bytes = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    else if (family == AF_INET6)
      bytes = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    char text[INET6_ADDRSTRLEN];
    if (bytes != nullptr && ::inet_ntop(family, bytes, text, sizeof text) != nullptr &&
        std::string(text) == address)
      name = one->ifa_name;
  }
  ::freeifaddrs(all);
  return name;
}

/// On one host the address is the loopback, which oneCCL and libfabric pass over while there is another.
bool several_hosts(const farandole_path_set& set) {
  return std::any_of(set.hosts, set.hosts + set.members, [&](auto host) { return host != set.hosts[0]; });
}

std::vector<std::string> wanted_settings(const farandole_path_set& set) {
  const std::int32_t own = set.hosts[set.rank];
  const auto place = std::count(set.hosts, set.hosts + set.rank, own);
  const auto here = std::count(set.hosts, set.hosts + set.members, own);
  std::vector<std::string> wanted = {
      "CCL_ATL_TRANSPORT=ofi", // not MPI, which would want a job of its own
      "CCL_PROCESS_LAUNCHER=none",
      "CCL_LOCAL_RANK=" + std::to_string(place),
      "CCL_LOCAL_SIZE=" + std::to_string(here),
      "CCL_LOG_LEVEL=error", // it warns of each of these
      "FI_PROVIDER=tcp",
      // Its own choice sums in the order in which things arrive: a run would not be repeated bit by bit.
      "CCL_ALLREDUCE=recursive_doubling:0-16384;ring:16385-max",
  };
  // Without a thread of its own, oneCCL moves on when it is asked, and what fails is thrown where we catch
  // it. Whoever tunes its threads wants them.
  if (std::getenv("CCL_WORKER_COUNT") == nullptr && std::getenv("CCL_WORKER_AFFINITY") == nullptr)
    wanted.emplace_back("CCL_WORKER_OFFLOAD=0");
  if (several_hosts(set))
    if (const auto name = interface_of(set.address); !name.empty())
      for (const char* setting : {"CCL_KVS_IFACE=", "FI_TCP_IFACE="})
        wanted.push_back(setting + name);
  return wanted;
}

/// Adds what is not set to the environment. setenv() would do, were it not that it may move the environment
/// under the feet of another thread's getenv(): here every array stays valid for ever. The settings stay, for
/// libfabric reads its own when the first members meet, on another thread.
void show(const std::vector<std::string>& wanted) {
  static std::deque<std::string> texts;
  static std::vector<char*> extended;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each)
    extended.push_back(*each);
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
