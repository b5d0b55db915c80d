// The functions of the stand-in for NCCL that move bytes: they check their arguments and join a group.
#include <nccl.h>

#include <string>

#include "cuda/fake/fake_nccl_calls_testing.hpp"
#include "cuda/fake/fake_nccl_comm_testing.hpp"
#include "cuda/fake/fake_nccl_group_testing.hpp"
#include "cuda/fake/fake_nccl_reduce_testing.hpp"
#include "cuda/fake/fake_nccl_registry_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace fake_nccl;

namespace {

constexpr int has_point_to_point = 2700, has_bfloat16 = 21000;

/// The elements of a buffer: none, those of the call, or those of the call for each rank.
enum class extent { none, count, count_for_each };

/// A call as its function got it.
struct call {
  const char* function;
  frame_kind kind;
  ncclComm_t handle;
  cudaStream_t stream;
  ncclDataType_t type;
  std::size_t count;
  const void* input = nullptr;
  extent input_extent = extent::none;
  void* output = nullptr;
  extent output_extent = extent::none;
  int op = 0;
  int peer = 0; ///< or root
  int since = 0;
};

ncclResult_t refuse(const call& from, const std::string& text) {
  return fail(ncclInvalidArgument, std::string(from.function) + ": " + text);
}

ncclResult_t check_values(const call& from, const ncclComm& comm) {
  if (element_bytes(from.type) == 0 || (from.type == ncclBfloat16 && version() < has_bfloat16))
    return refuse(from, "the stand-in has no data type " + std::to_string(from.type));
  const bool reduces = from.kind == frame_kind::all_reduce || from.kind == frame_kind::reduce_scatter;
  if (reduces && !can_reduce(static_cast<ncclRedOp_t>(from.op)))
    return refuse(from, "the stand-in has no operator " + std::to_string(from.op));
  if (from.peer < 0 || from.peer >= comm.size())
    return refuse(from, "there is no rank " + std::to_string(from.peer) + " in a communicator of " +
                            std::to_string(comm.size()));
  return ncclSuccess;
}

ncclResult_t reach(const call& from, const ncclComm& comm, const char* name, const void* buffer,
                   std::size_t bytes, device_bytes& found) {
  if (bytes == 0)
    return ncclSuccess;
  if (buffer == nullptr)
    return refuse(from, std::string(name) + " is null");
  int device = 0;
  void* hold = nullptr;
  if (comm.driver().reach(reinterpret_cast<CUdeviceptr>(buffer), bytes, &device, &found.content, &hold) !=
      CUDA_SUCCESS)
    return refuse(from, std::string(name) + " is not memory that a GPU reaches, or is too short");
  found.hold = std::shared_ptr<void>(hold, comm.driver().unreach);
  if (device != CU_DEVICE_INVALID && device != comm.device())
    return refuse(from, std::string(name) + " is memory of GPU " + std::to_string(device) +
                            ", and the communicator is of GPU " + std::to_string(comm.device()));
  return ncclSuccess;
}

std::size_t bytes_of(const call& from, extent buffer, const ncclComm& comm) {
  const auto bytes = from.count * element_bytes(from.type);
  return buffer == extent::none    ? 0
         : buffer == extent::count ? bytes
                                   : bytes * static_cast<std::size_t>(comm.size());
}

ncclResult_t add(const call& from) {
  if (const auto fault = static_cast<ncclResult_t>(enter(from.function, from.since)); fault != ncclSuccess)
    return fault;
  const auto comm = registry::all().find(from.handle, from.function);
  if (comm == nullptr)
    return ncclInvalidArgument;
  if (const auto refused = comm->check_can_launch(from.function); refused != ncclSuccess)
    return refused;
  if (const auto refused = check_values(from, *comm); refused != ncclSuccess)
    return refused;
  operation next;
  next.header = {from.kind, from.type, from.op, from.peer, 0, from.count, 0};
  next.stream = from.stream;
  // A broadcast's send buffer is only used on the root.
  const bool has_input = from.kind != frame_kind::broadcast || from.peer == comm->rank();
  next.input_bytes = has_input ? bytes_of(from, from.input_extent, *comm) : 0;
  if (const auto refused = reach(from, *comm, "sendbuff", from.input, next.input_bytes, next.input);
      refused != ncclSuccess)
    return refused;
  const auto output_bytes = bytes_of(from, from.output_extent, *comm);
  if (const auto refused = reach(from, *comm, "recvbuff", from.output, output_bytes, next.output);
      refused != ncclSuccess)
    return refused;
  const bool is_collective = from.kind != frame_kind::send && from.kind != frame_kind::receive;
  if (is_collective && from.count == 0)
    return ncclSuccess; // no kernel, as in NCCL
  return add_to_group(comm, std::move(next));
}

} // namespace

FAKE ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return fail_group(add({.function = "ncclAllReduce",
                         .kind = frame_kind::all_reduce,
                         .handle = comm,
                         .stream = stream,
                         .type = type,
                         .count = count,
                         .input = input,
                         .input_extent = extent::count,
                         .output = output,
                         .output_extent = extent::count,
                         .op = op}));
}

FAKE ncclResult_t ncclBroadcast(const void* input, void* output, std::size_t count, ncclDataType_t type,
                                int root, ncclComm_t comm, cudaStream_t stream) {
  return fail_group(add({.function = "ncclBroadcast",
                         .kind = frame_kind::broadcast,
                         .handle = comm,
                         .stream = stream,
                         .type = type,
                         .count = count,
                         .input = input,
                         .input_extent = extent::count,
                         .output = output,
                         .output_extent = extent::count,
                         .peer = root}));
}

FAKE ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                                ncclComm_t comm, cudaStream_t stream) {
  return fail_group(add({.function = "ncclAllGather",
                         .kind = frame_kind::all_gather,
                         .handle = comm,
                         .stream = stream,
                         .type = type,
                         .count = count,
                         .input = input,
                         .input_extent = extent::count,
                         .output = output,
                         .output_extent = extent::count_for_each}));
}

FAKE ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return fail_group(add({.function = "ncclReduceScatter",
                         .kind = frame_kind::reduce_scatter,
                         .handle = comm,
                         .stream = stream,
                         .type = type,
                         .count = count,
                         .input = input,
                         .input_extent = extent::count_for_each,
                         .output = output,
                         .output_extent = extent::count,
                         .op = op}));
}

FAKE ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
  return fail_group(add({.function = "ncclSend",
                         .kind = frame_kind::send,
                         .handle = comm,
                         .stream = stream,
                         .type = type,
                         .count = count,
                         .input = input,
                         .input_extent = extent::count,
                         .peer = peer,
                         .since = has_point_to_point}));
}

FAKE ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream) {
  return fail_group(add({.function = "ncclRecv",
                         .kind = frame_kind::receive,
                         .handle = comm,
                         .stream = stream,
                         .type = type,
                         .count = count,
                         .output = output,
                         .output_extent = extent::count,
                         .peer = peer,
                         .since = has_point_to_point}));
}
