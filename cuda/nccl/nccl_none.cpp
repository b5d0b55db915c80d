// This build has no headers of CUDA or NCCL.
#include "cuda/nccl/communicator.hpp"
#include "cuda/nccl/device_launcher.hpp"

namespace farandole {

namespace {

error missing() {
  return {error_kind::unimplemented,
          "this build of Farandole cannot use NCCL: it found no cuda.h or no nccl.h; build it where the CUDA "
          "toolkit and NCCL are installed"};
}

} // namespace

expected<std::shared_ptr<device_launcher>> device_launcher::open(std::shared_ptr<devices>, std::int32_t) {
  return missing();
}

expected<std::shared_ptr<device_launcher>> device_launchers::lend(const std::shared_ptr<devices>&,
                                                                  std::int32_t) {
  return missing();
}

error nccl_library::objection_to_build() {
  return missing();
}

expected<std::shared_ptr<nccl_library>> nccl_library::open(const std::vector<std::string>&,
                                                           std::chrono::nanoseconds, stuck_handler) {
  return missing();
}

} // namespace farandole
