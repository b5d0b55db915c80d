#include "collectives/transport/ucx/ucx_path.hpp"

#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/ucx/ucx_worker.hpp"

namespace farandole {

expected<std::unique_ptr<p2p_path>> open_ucx_path(const ucx_options& options) {
  auto worker = ucx_worker::open(options);
  if (!worker)
    return worker.error();
  return std::make_unique<p2p_path>("ucx", std::move(*worker), options);
}

expected<std::unique_ptr<path>> open_ucx(const path_setup& setup) {
  auto options = setup.between<ucx_options>(setup.all_ranks());
  options.trusted_network = setup.options.trusted_network;
  options.ip = setup.ip();
  options.ports = setup.options.ports;
  return as_path(open_ucx_path(options));
}

} // namespace farandole
