#include "collectives/transport/ucx/ucx_networks.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace farandole {

namespace {

/// The names in a list, without suffixes: "ud:aux" is "ud" for one purpose.
std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::stringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');)
    names.push_back(part.substr(0, part.find(':')));
  return names;
}

/// Whether a value of UCX_TLS allows TCP. A list that begins with "^" names the excluded transports.
bool allows_tcp(const std::string& list) {
  const bool excludes = list.starts_with('^');
  const auto names = names_in(excludes ? list.substr(1) : list);
  const bool has_tcp = std::any_of(names.begin(), names.end(), [&](const auto& name) {
    return name.starts_with("tcp") || (name == "all" && !excludes);
  });
  return has_tcp != excludes;
}

/// The entry with this address; null if there is none.
const interface_address* entry_of(std::span<const interface_address> addresses, const std::string& ip) {
  const auto found = std::find_if(addresses.begin(), addresses.end(),
                                  [&](const auto& entry) { return entry.address == ip; });
  return found == addresses.end() ? nullptr : &*found;
}

/// The devices in a folder with the layout of /sys/class/infiniband, by UCX's names of their first ports.
std::vector<std::string> rdma_devices_in(const std::string& folder) {
  std::vector<std::string> devices;
  std::error_code problem; // usually the folder does not exist
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem))
    devices.push_back(entry.path().filename().string() + ":1");
  std::sort(devices.begin(), devices.end());
  return devices;
}

} // namespace

expected<std::string> ucx_transports(const std::optional<std::string>& users_choice, bool trusted_network) {
  if (!users_choice)
    return std::string(trusted_network ? "self,tcp,rc,dc,ud" : "self,rc,dc,ud");
  if (!trusted_network && allows_tcp(*users_choice))
    return error{
        error_kind::precondition,
        "UCX_TLS=" + *users_choice +
            " allows TCP: any process that reaches a worker's port can forge UCX's messages over TCP and "
            "write into the worker's memory. Unset FARANDOLE_CPU_PATH, and Farandole's own paths move the "
            "tensors; or name transports with RDMA only (UCX_TLS=rc,ud); or set "
            "FARANDOLE_TRUSTED_NETWORK=1 if you trust every process that can reach the workers"};
  return *users_choice;
}

network_devices find_network_devices(const std::string& ip) {
  network_devices found;
  const auto addresses = list_interface_addresses();
  if (const auto* entry = addresses ? entry_of(*addresses, ip) : nullptr)
    found.interface = entry->interface;
  if (!found.interface.empty())
    found.interface_rdma = rdma_devices_in("/sys/class/net/" + found.interface + "/device/infiniband");
  found.all_rdma = rdma_devices_in("/sys/class/infiniband");
  return found;
}

std::string ucx_devices(const network_devices& found, bool trusted_network) {
  if (found.interface.empty())
    return {};
  std::vector<std::string> devices;
  if (trusted_network)
    devices.push_back(found.interface);
  const auto& rdma = found.interface_rdma.empty() ? found.all_rdma : found.interface_rdma;
  devices.insert(devices.end(), rdma.begin(), rdma.end());
  std::string list;
  for (const auto& device : devices)
    list += (list.empty() ? "" : ",") + device;
  return list;
}

std::string other_address_remedy(std::span<const interface_address> addresses, const std::string& ip) {
  const auto* links = entry_of(addresses, ip);
  if (links == nullptr)
    return {};
  const auto used = std::find_if(addresses.begin(), addresses.end(), [&](const auto& entry) {
    return entry.interface == links->interface && entry.is_ipv4 == links->is_ipv4;
  });
  if (used->address == ip)
    return {};
  return "; over TCP, UCX uses " + used->address + ", the first address of " + links->interface +
         " on this host, and not " + ip + ": if other hosts do not reach " + used->address +
         ", unset FARANDOLE_CPU_PATH, or make " + ip + " the first one";
}

} // namespace farandole
