#include "collectives/transport/gloo/gloo_path.hpp"

#include "collectives/transport/gloo/gloo_worker.hpp"
#include "collectives/transport/path_setup.hpp"

namespace farandole {

expected<std::unique_ptr<p2p_path>> open_gloo_path(const gloo_options& options) {
  auto worker = gloo_worker::open(options);
  if (!worker)
    return worker.error();
  return std::make_unique<p2p_path>("gloo", std::move(*worker), options);
}

expected<std::unique_ptr<path>> open_gloo(const path_setup& setup) {
  gloo_options options;
  options.generation = setup.set.generation;
  options.set = setup.set.set;
  options.rank = setup.set.rank;
  options.global_ranks = setup.global_ranks(setup.all_ranks());
  if (auto ip = setup.ip(); !ip.empty())
    options.ip = ip;
  options.adasum_message_bytes = setup.options.adasum_message_bytes;
  return as_path(open_gloo_path(options));
}

} // namespace farandole
