// Takes the place of the other files if CUDA's headers were not found. Without them there are no devices either.
#include "cuda/staged/staging.hpp"

namespace farandole {

expected<std::unique_ptr<staging>> staging::open(std::shared_ptr<devices>, std::int32_t) {
  return error{error_kind::unimplemented,
               "Farandole was built without CUDA's headers (cuda.h), so it cannot copy "
               "memory of GPUs; set CUDA_HOME and build it again"};
}

} // namespace farandole
