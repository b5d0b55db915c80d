#include "cuda/kernels/tensor_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/kernels/pass_arguments.hpp"

namespace farandole {

namespace {

using namespace kernels;

/// Whether the driver can use other images than this one.
bool is_of_image(CUresult result) {
  return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_INVALID_PTX ||
         result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND || result == CUDA_ERROR_NOT_SUPPORTED;
}

std::uint64_t address_of(const std::byte* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

std::uint64_t quotient_up(std::uint64_t dividend, std::uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

bool is_aligned(const std::byte* memory, dtype type) {
  return address_of(memory) % size_of(type) == 0;
}

error not_implemented(std::int32_t device, const std::string& reason) {
  return {error_kind::unimplemented, "GPU " + std::to_string(device) + ": " + reason};
}

} // namespace

expected<std::unique_ptr<tensor_kernels>> tensor_kernels::open(driver_devices& owner, std::int32_t device,
                                                               const kernel_image& image) {
  const auto context = owner.context(device);
  if (!context)
    return context.error();
  if (image.bytes.empty())
    return not_implemented(device, image.origin);
  const current_context current(owner.driver(), *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(owner.driver(), device, "cuCtxPushCurrent", current.result());
  auto result = std::unique_ptr<tensor_kernels>(new tensor_kernels(owner, device, *context));
  if (auto problem = result->load(image))
    return problem;
  return result;
}

error tensor_kernels::load(const kernel_image& image) {
  const auto& driver = owner_.driver();
  CUdevice handle = 0;
  if (const auto result = driver.device(&handle, device_); result != CUDA_SUCCESS)
    return failure("cuDeviceGet", result);
  int multiprocessors = 0;
  if (const auto result =
          driver.device_attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle);
      result != CUDA_SUCCESS)
    return failure("cuDeviceGetAttribute", result);
  most_blocks_ = static_cast<std::uint64_t>(std::max(multiprocessors, 1)) * blocks_of_multiprocessor;
  if (const auto result = driver.module_load(&module_, image.bytes.data()); result != CUDA_SUCCESS) {
    auto problem = failure("cuModuleLoadData", result);
    problem.text += "; the kernels are of " + image.origin;
    if (is_of_image(result))
      problem.kind = error_kind::unimplemented;
    module_ = nullptr;
    return problem;
  }
  return find_kernels();
}

error tensor_kernels::find_kernels() {
  const auto& driver = owner_.driver();
  for (std::size_t i = 0; i < kernel_count; ++i)
    for (const bool is_large : {false, true}) {
      if (is_large && driver.version < large_version)
        continue;
      const auto symbol = symbol_of(i, is_large);
      auto& function = is_large ? kernels_[i].large : kernels_[i].small;
      if (const auto result = driver.module_function(&function, module_, symbol.c_str());
          result != CUDA_SUCCESS)
        return failure(("cuModuleGetFunction of " + symbol).c_str(), result);
    }
  return {};
}

tensor_kernels::~tensor_kernels() {
  if (module_ == nullptr)
    return;
  const current_context current(owner_.driver(), context_);
  if (current.result() == CUDA_SUCCESS)
    owner_.driver().module_unload(module_);
}

error tensor_kernels::run(CUstream stream, const tensor_pass& pass) const {
  if (auto problem = check(pass))
    return problem;
  std::vector<pass_piece> filled;
  std::ranges::copy_if(pass.pieces, std::back_inserter(filled),
                       [](const pass_piece& piece) { return piece.elements != 0; });
  const auto& kernel = kernels_[*kernel_for(pass.from, pass.to, pass.scale)];
  for (std::span<const pass_piece> rest = filled; !rest.empty();) {
    const bool is_large = kernel.large != nullptr && rest.size() > small_arguments::most_pieces;
    const auto count = std::min<std::size_t>(rest.size(), is_large ? large_arguments::most_pieces
                                                                   : small_arguments::most_pieces);
    auto problem = is_large ? launch<large_arguments>(kernel.large, stream, pass, rest.first(count))
                            : launch<small_arguments>(kernel.small, stream, pass, rest.first(count));
    if (problem)
      return problem;
    rest = rest.subspan(count);
  }
  return {};
}

error tensor_kernels::check(const tensor_pass& pass) const {
  const auto types = std::string(to_string(pass.from)) + " to " + std::string(to_string(pass.to));
  if (!kernel_for(pass.from, pass.to, pass.scale))
    return not_implemented(device_, "no kernel scales " + types);
  for (const auto& piece : pass.pieces) {
    if (!is_aligned(piece.input, pass.from) || !is_aligned(piece.output, pass.to))
      return not_implemented(device_, "no kernel reads tensors that are not aligned to their elements");
    // A thread would overwrite elements that another one has not read yet.
    if (piece.input == piece.output && size_of(pass.from) != size_of(pass.to) && piece.elements != 0)
      return not_implemented(device_, "no kernel converts " + types + " in place");
  }
  return {};
}

template <class Arguments>
error tensor_kernels::launch(CUfunction function, CUstream stream, const tensor_pass& pass,
                             std::span<const pass_piece> pieces) const {
  Arguments arguments{};
  std::uint64_t elements = 0;
  for (const auto& piece : pieces) {
    elements += piece.elements;
    arguments.pieces[arguments.header.count++] = {address_of(piece.input), address_of(piece.output),
                                                  elements};
  }
  const auto bytes = elements * std::max(size_of(pass.from), size_of(pass.to));
  auto blocks = std::min(quotient_up(bytes, least_block_bytes), most_blocks_);
  blocks = std::max(blocks, quotient_up(elements, most_share));
  arguments.header.scale = pass.scale;
  arguments.header.share = quotient_up(elements, blocks);
  static_assert(sizeof arguments.header.neutral == sizeof pass.neutral);
  std::memcpy(&arguments.header.neutral, pass.neutral.data(), sizeof pass.neutral);
  void* parameters[] = {&arguments};
  const auto result = owner_.driver().launch_kernel(function, static_cast<unsigned>(blocks), 1, 1,
                                                    threads_of_block, 1, 1, 0, stream, parameters, nullptr);
  return result == CUDA_SUCCESS ? error{} : failure("cuLaunchKernel", result);
}

} // namespace farandole
