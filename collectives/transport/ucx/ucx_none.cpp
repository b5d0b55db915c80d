// Replaces the ucx path in builds that found no UCX.
#include "collectives/transport/ucx/ucx_path.hpp"

namespace farandole {

expected<std::unique_ptr<p2p_path>> open_ucx_path(const ucx_options&) {
  return error{error_kind::unimplemented, "the ucx path is not in this build: UCX was not found"};
}

expected<std::unique_ptr<path>> open_ucx(const path_setup&) {
  return open_ucx_path({}).error();
}

} // namespace farandole
