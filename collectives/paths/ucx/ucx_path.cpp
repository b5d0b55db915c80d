#include "collectives/paths/ucx/ucx_path.hpp"

#include "collectives/paths/ucx/ucx_worker.hpp"

namespace farandole {

expected<std::unique_ptr<exchange_path>> open_ucx_path(const ucx_options& options) {
  auto worker = ucx_worker::open(options);
  if (!worker)
    return worker.error();
  return std::make_unique<exchange_path>("ucx", std::move(*worker), options);
}

} // namespace farandole
