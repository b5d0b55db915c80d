// Takes the place of the other files, and of those in `staged/`, if CUDA's headers were not found.
#include "cuda/driver/devices.hpp"
#include "cuda/driver/driver_facts.hpp"

namespace farandole {

namespace {

error built_without(const char* consequence) {
  return {error_kind::unimplemented,
          std::string("Farandole was built without CUDA's headers (cuda.h), so it cannot ") + consequence +
              "; set CUDA_HOME and build it again"};
}

} // namespace

expected<driver_facts> find_driver(const std::string&) {
  return built_without("look for GPUs");
}

bool devices::are_built_in() {
  return false;
}

expected<std::shared_ptr<devices>> devices::open(const std::string&) {
  return built_without("use GPUs");
}

} // namespace farandole
