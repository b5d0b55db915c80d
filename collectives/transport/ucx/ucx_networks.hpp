// Which of UCX's transports and devices a job may use. UCX authenticates nobody. On fabrics with RDMA, keys
// keep strangers out of a worker's memory; over TCP, anybody that reaches its port can write there. So TCP
// needs a network that the user has declared trusted. UCX listens only on the interface on which the job's
// links are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

/// The value of UCX_TLS for this job; `precondition` if the user's own value allows TCP and the network is
/// not trusted. Shared memory is left out of the default on purpose: members on one host have the local path,
/// and a killed process leaves UCX's segments behind.
expected<std::string> ucx_transports(const std::optional<std::string>& users_choice, bool trusted_network);

/// What the system says of its devices.
struct network_devices {
  std::string interface;                   ///< that has the address of the links; empty: none has
  std::vector<std::string> interface_rdma; ///< RDMA devices behind this interface, "mlx5_0:1"
  std::vector<std::string> all_rdma;
};

/// Of the interface with this address.
network_devices find_network_devices(const std::string& ip);

/// The value of UCX_NET_DEVICES: the interface itself where TCP is allowed, and its RDMA devices, or every
/// RDMA device where it has none. Empty: nothing to choose from.
std::string ucx_devices(const network_devices& found, bool trusted_network);

} // namespace farandole
