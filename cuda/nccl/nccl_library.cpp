#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "cuda/kernels/kernel_image.hpp"
#include "cuda/nccl/communicator.hpp"
#include "cuda/nccl/communicator_ends.hpp"
#include "cuda/nccl/nccl_communicator.hpp"
#include "cuda/nccl/nccl_facts.hpp"
#include "cuda/nccl/nccl_functions.hpp"

namespace farandole {

namespace {

class loaded_library final : public nccl_library {
public:
  loaded_library(nccl_functions functions, std::shared_ptr<communicator_ends> ends)
      : functions_(std::make_shared<const nccl_functions>(std::move(functions))), ends_(std::move(ends)) {}

  int version() const override { return functions_->version; }
  std::string path() const override { return functions_->path; }

  expected<communicator_id> create_id() override {
    ncclUniqueId unique{};
    if (const auto result = functions_->get_unique_id(&unique); result != ncclSuccess)
      return functions_->failure("ncclGetUniqueId", result);
    communicator_id id;
    std::memcpy(id.data(), unique.internal, id.size());
    return id;
  }

  expected<std::unique_ptr<communicator>> begin(const membership& own, const communicator_id& id) override {
    return nccl_communicator::begin({functions_, own.owner, own.device, ends_}, id, own.ranks, own.rank);
  }

  bool wait_until_freed(std::chrono::nanoseconds timeout) override { return ends_->wait_until_idle(timeout); }

private:
  std::shared_ptr<const nccl_functions> functions_;
  std::shared_ptr<communicator_ends> ends_;
};

} // namespace

error nccl_library::objection_to_build() {
  const auto kernels = built_kernels();
  return kernels.bytes.empty() ? error{error_kind::unimplemented, kernels.origin} : error{};
}

expected<std::shared_ptr<nccl_library>> nccl_library::open(const std::vector<std::string>& candidates,
                                                           std::chrono::nanoseconds free_timeout,
                                                           stuck_handler stuck) {
  const auto facts = find_nccl(candidates);
  if (!facts)
    return facts.error();
  void* library = ::dlopen(facts->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return error{error_kind::unimplemented, reason != nullptr ? reason : facts->path};
  }
  auto functions = find_nccl_functions(library, facts->path, facts->version);
  if (!functions)
    return functions.error();
  return std::shared_ptr<nccl_library>(std::make_shared<loaded_library>(
      std::move(*functions), std::make_shared<communicator_ends>(free_timeout, std::move(stuck))));
}

} // namespace farandole
