// Modules of the stand-in driver, and the kernels of `cuda/kernels`, which it runs on the host: the blocks
// and threads one after the other.
#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/fake/fake_calls_testing.hpp"
#include "cuda/fake/fake_capture_testing.hpp"
#include "cuda/fake/fake_contexts_testing.hpp"
#include "cuda/fake/fake_memory_testing.hpp"
#include "cuda/fake/fake_streams_testing.hpp"
#include "cuda/kernels/kernel_image_testing.hpp"
#include "cuda/kernels/kernel_list.hpp"
#include "cuda/kernels/pass_thread.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake;
using namespace farandole::kernels;

namespace fake {

namespace {

using owners = std::vector<std::shared_ptr<const allocation>>;

/// Replaces an address of a device by the one where the driver has the bytes. A GPU would stop at any other
/// memory.
CUresult translate(std::uint64_t& address, std::uint64_t bytes, owners& uses) {
  reachable memory;
  if (reach(address, bytes, memory) != CUDA_SUCCESS || memory.owner == nullptr)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  address = reinterpret_cast<std::uint64_t>(memory.content);
  uses.push_back(std::move(memory.owner));
  return CUDA_SUCCESS;
}

template <class Arguments, class Operation>
CUresult translate_all(void* given, owners& uses) {
  auto& arguments = *static_cast<Arguments*>(given);
  if (arguments.header.count > Arguments::most_pieces)
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::uint64_t begin = 0;
  for (std::uint32_t i = 0; i < arguments.header.count; ++i) {
    auto& piece = arguments.pieces[i];
    const auto elements = piece.end - begin;
    begin = piece.end;
    if (const auto result = translate(piece.output, elements * sizeof(typename Operation::target), uses);
        result != CUDA_SUCCESS)
      return result;
    if (piece.input == 0)
      continue;
    if (const auto result = translate(piece.input, elements * sizeof(typename Operation::source), uses);
        result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

template <class Arguments, class Operation>
void run_blocks(const void* given, unsigned blocks) {
  const auto& arguments = *static_cast<const Arguments*>(given);
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < threads_of_block; ++thread)
      run_thread<Operation>(arguments.header, arguments.pieces, {block, thread});
}

} // namespace

} // namespace fake

struct CUfunc_st {
  const char* name;
  std::size_t argument_bytes;
  CUresult (*translate)(void* argument, owners& uses);
  void (*run)(const void* argument, unsigned blocks);
  CUcontext context = nullptr;
};

struct CUmod_st {
  std::vector<CUfunc_st> functions;
};

namespace fake {

namespace {

#define KERNEL_OF(name, arguments, ...)                                                                      \
  {"farandole_" #name, sizeof(arguments), &translate_all<arguments, __VA_ARGS__>,                            \
   &run_blocks<arguments, __VA_ARGS__>},
#define KERNEL(name, ...)                                                                                    \
  KERNEL_OF(name##_small, small_arguments, __VA_ARGS__)                                                      \
  KERNEL_OF(name##_large, large_arguments, __VA_ARGS__)
const CUfunc_st host_kernels[] = {FARANDOLE_KERNELS(KERNEL)};

/// Never destroyed, as other threads may call the driver while the process ends.
struct modules {
  std::mutex mutex;
  std::map<CUmodule, std::shared_ptr<CUmod_st>> loaded;
};

modules& all_modules() {
  static auto& all = *new modules;
  return all;
}

/// Reads no byte behind the first that differs: the size of the image is not known.
bool begins_with(const void* image, std::span<const std::byte> expected) {
  const auto* bytes = static_cast<const std::byte*>(image);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (bytes[i] != expected[i])
      return false;
  return !expected.empty();
}

bool is_known(const void* image) {
  return image != nullptr && (begins_with(image, farandole::built_kernels().bytes) ||
                              begins_with(image, std::as_bytes(std::span(farandole::stand_in_image))));
}

/// A copy, so that the work does not depend on the module.
bool find(CUfunction function, CUfunc_st& found) {
  auto& all = all_modules();
  const std::lock_guard lock(all.mutex);
  for (const auto& [handle, module] : all.loaded)
    for (const auto& candidate : module->functions)
      if (&candidate == function) {
        found = candidate;
        return true;
      }
  return false;
}

CUresult check_argument(std::size_t bytes) {
  return bytes > small_bytes && number("FARANDOLE_FAKE_CUDA", 13000) < large_version
             ? CUDA_ERROR_NOT_SUPPORTED
             : CUDA_SUCCESS;
}

} // namespace

} // namespace fake

FAKE CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (const auto fault = enter("cuModuleLoadData"); fault != CUDA_SUCCESS)
    return fault;
  if (current_context() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (const auto refused = refuse_while_captured(); refused != CUDA_SUCCESS)
    return refused;
  if (!is_known(image))
    return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_shared<CUmod_st>();
  made->functions.assign(std::begin(host_kernels), std::end(host_kernels));
  for (auto& function : made->functions)
    function.context = current_context();
  *module = made.get();
  auto& all = all_modules();
  const std::lock_guard lock(all.mutex);
  all.loaded.emplace(*module, std::move(made));
  return CUDA_SUCCESS;
}

FAKE CUresult cuModuleUnload(CUmodule module) {
  if (const auto fault = enter("cuModuleUnload"); fault != CUDA_SUCCESS)
    return fault;
  if (const auto refused = refuse_while_captured(); refused != CUDA_SUCCESS)
    return refused;
  auto& all = all_modules();
  const std::lock_guard lock(all.mutex);
  return all.loaded.erase(module) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (const auto fault = enter("cuModuleGetFunction"); fault != CUDA_SUCCESS)
    return fault;
  auto& all = all_modules();
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(module);
  if (found == all.loaded.end())
    return CUDA_ERROR_INVALID_HANDLE;
  for (auto& candidate : found->second->functions)
    if (std::strcmp(candidate.name, name) == 0) {
      *function = &candidate;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

/// Takes grids of one dimension, and the blocks that the kernels are for.
FAKE CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                             CUstream stream, void** parameters, void** extra) {
  CUfunc_st kernel{};
  if (!find(function, kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  if (kernel.context != current_context())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (grid_x == 0 || grid_x > 0x7fffffffU || grid_y != 1 || grid_z != 1 || block_x != threads_of_block ||
      block_y != 1 || block_z != 1 || shared_bytes != 0 || parameters == nullptr || extra != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (const auto result = check_argument(kernel.argument_bytes); result != CUDA_SUCCESS)
    return result;
  const auto argument =
      std::make_shared<std::vector<std::uint64_t>>(kernel.argument_bytes / sizeof(std::uint64_t));
  std::memcpy(argument->data(), parameters[0], kernel.argument_bytes);
  owners uses;
  if (const auto result = kernel.translate(argument->data(), uses); result != CUDA_SUCCESS)
    return result;
  return give_work("cuLaunchKernel", stream,
                   [=, run = kernel.run, uses = std::move(uses)] { run(argument->data(), grid_x); });
}
