// Selects the transports and devices that UCX may use in a job. UCX has no authentication. On fabrics with
// RDMA, keys protect a worker's memory from strangers. Over TCP, any process that reaches the worker's port
// can write to its memory, so TCP needs a network that the user has declared trusted. UCX listens only on the
// interface of the job's links.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/connections/interface_addresses.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// The value of UCX_TLS for this job. `precondition` if the user's own value allows TCP and the network is
/// not trusted. The default deliberately omits shared memory: members on one host have the local path, and a
/// killed process leaves UCX's segments behind.
expected<std::string> ucx_transports(const std::optional<std::string>& users_choice, bool trusted_network);

/// The network devices of this host.
struct network_devices {
  std::string interface;                   ///< the interface with the address of the links; empty: none
  std::vector<std::string> interface_rdma; ///< RDMA devices behind this interface, "mlx5_0:1"
  std::vector<std::string> all_rdma;
};

/// Finds the interface with this address and its RDMA devices.
network_devices find_network_devices(const std::string& ip);

/// The value of UCX_NET_DEVICES: the interface itself if TCP is allowed, and its RDMA devices, or every RDMA
/// device if it has none. Empty if the interface is unknown or there is no device.
std::string ucx_devices(const network_devices& found, bool trusted_network);

/// What to add to the error of a failed connection if UCX does not use the address of the links (`ip`): over TCP
/// it takes the first address of an interface. Empty if it uses that one. `addresses` are in the system's order.
std::string other_address_remedy(std::span<const interface_address> addresses, const std::string& ip);

} // namespace farandole
