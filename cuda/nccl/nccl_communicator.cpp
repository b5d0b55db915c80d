#include "cuda/nccl/nccl_communicator.hpp"

#include <cassert>
#include <cstring>
#include <string>
#include <utility>

namespace farandole {

namespace {

constexpr int no_flags = 0;

ncclDataType_t type_of(dtype type) {
  switch (type) {
  case dtype::uint8:
  case dtype::boolean:
    return ncclUint8;
  case dtype::int8:
    return ncclInt8;
  case dtype::int32:
    return ncclInt32;
  case dtype::int64:
    return ncclInt64;
  case dtype::float16:
    return ncclFloat16;
  case dtype::bfloat16:
    return ncclBfloat16;
  case dtype::float32:
    return ncclFloat32;
  case dtype::float64:
    return ncclFloat64;
  default:
    assert(false); // NCCL has no integers of 16 bits, and its callers move them as bytes
    return ncclUint8;
  }
}

ncclRedOp_t reduction_of(reduce_op op) {
  switch (op) {
  case reduce_op::min:
    return ncclMin;
  case reduce_op::max:
    return ncclMax;
  case reduce_op::product:
    return ncclProd;
  default:
    return ncclSum;
  }
}

error ended() {
  return {error_kind::disconnected, "the communicator of NCCL was aborted"};
}

bool is_accepted(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

} // namespace

expected<std::unique_ptr<communicator>> nccl_communicator::begin(surroundings around,
                                                                 const communicator_id& id,
                                                                 std::int32_t ranks, std::int32_t rank) {
  auto& all = driver_devices::of(*around.owner);
  const auto context = all.context(around.device);
  if (!context)
    return context.error();
  const current_context current(all.driver(), *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(all.driver(), around.device, "cuCtxPushCurrent", current.result());
  ncclUniqueId unique{};
  static_assert(sizeof unique.internal == std::tuple_size_v<communicator_id>);
  std::memcpy(unique.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t handle = nullptr;
  const auto& functions = *around.functions;
  const auto result = functions.init_rank(&handle, ranks, unique, rank, &config);
  if (!is_accepted(result) || handle == nullptr)
    return functions.failure("ncclCommInitRankConfig", result);
  return std::unique_ptr<communicator>(
      std::make_unique<nccl_communicator>(std::move(around), *context, handle));
}

nccl_communicator::~nccl_communicator() {
  if (handle_ != nullptr)
    free();
}

error nccl_communicator::connect(const wait_step& step) {
  auto problem = wait_for("ncclCommInitRankConfig", ncclInProgress, step);
  connected_ = !problem;
  return problem;
}

error nccl_communicator::failure() const {
  if (handle_ == nullptr || aborted_)
    return ended();
  ncclResult_t state = ncclSuccess;
  const auto& functions = *around_.functions;
  if (const auto result = functions.async_error(handle_, &state); result != ncclSuccess)
    return functions.failure("ncclCommGetAsyncError", result, handle_);
  return is_accepted(state) ? error{} : functions.failure("NCCL", state, handle_);
}

// Before 2.28.7, and while a communicator connects, kernels end only when the communicator is freed.
void nccl_communicator::abort() {
  if (std::exchange(aborted_, true))
    return;
  const auto& functions = *around_.functions;
  if (!connected_ || functions.revoke == nullptr || !is_accepted(functions.revoke(handle_, no_flags)))
    free();
}

device_stream::submitted nccl_communicator::call(const device_plan& plan, CUstream stream,
                                                 std::shared_ptr<progress_words::word> word,
                                                 const wait_step& step) {
  if (handle_ == nullptr || aborted_)
    return {ended()};
  const auto& functions = *around_.functions;
  if (const auto result = functions.group_start(); result != ncclSuccess)
    return {functions.failure("ncclGroupStart", result, handle_)};
  last_ = word;
  const auto submitted = submit(plan, stream);
  // A group that was started has to be ended in any case.
  const auto grouped = functions.group_end();
  if (!is_accepted(submitted))
    return {functions.failure("the call of NCCL", submitted, handle_)};
  error interrupted;
  auto problem = wait_for("ncclGroupEnd", grouped, [&] { return interrupted = step(); });
  if (!interrupted)
    return {std::move(problem)};
  unfinished_ = std::move(word);
  return {std::move(problem), true};
}

ncclResult_t nccl_communicator::submit(const device_plan& plan, CUstream stream) const {
  const auto& functions = *around_.functions;
  const auto type = type_of(plan.dtype);
  for (const auto& each : plan.calls) {
    const auto result =
        each.kind == device_call_kind::allreduce
            ? functions.allreduce(each.input, each.output, each.elements, type, reduction_of(plan.reduction),
                                  handle_, stream)
            : functions.broadcast(each.input, each.output, each.elements, type, each.root, handle_, stream);
    if (!is_accepted(result))
      return result;
  }
  return ncclSuccess;
}

// A communicator takes no other call until its state says that the library has done the last one.
error nccl_communicator::wait_for(const char* function, ncclResult_t result, const wait_step& step) const {
  const auto& functions = *around_.functions;
  if (!is_accepted(result))
    return functions.failure(function, result, handle_);
  for (auto state = result; state == ncclInProgress;) {
    if (const auto asked = functions.async_error(handle_, &state); asked != ncclSuccess)
      return functions.failure("ncclCommGetAsyncError", asked, handle_);
    if (!is_accepted(state))
      return functions.failure(function, state, handle_);
    if (state == ncclInProgress)
      if (auto problem = step())
        return problem;
  }
  return {};
}

// ncclCommAbort waits until the device is idle, and so no kernel of the communicator runs afterwards.
void nccl_communicator::free() {
  const auto works = [last = last_] {
    return last && last->load(std::memory_order_acquire) < device_progress::ended_value;
  };
  around_.ends->run(
      "ncclCommAbort on GPU " + std::to_string(around_.device),
      [around = around_, context = context_, unfinished = std::move(unfinished_),
       handle = std::exchange(handle_, nullptr)] {
        const current_context current(driver_devices::of(*around.owner).driver(), context);
        if (current.result() == CUDA_SUCCESS)
          around.functions->abort(handle);
        if (unfinished)
          unfinished->store(device_progress::ended_value, std::memory_order_release);
      },
      works);
}

nccl_communicator& nccl_communicator::of(communicator& any) {
  auto* result = dynamic_cast<nccl_communicator*>(&any);
  assert(result != nullptr);
  return *result;
}

} // namespace farandole
