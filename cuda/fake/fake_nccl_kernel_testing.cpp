#include "cuda/fake/fake_nccl_kernel_testing.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/fake/fake_nccl_calls_testing.hpp"
#include "cuda/fake/fake_nccl_comm_testing.hpp"
#include "cuda/fake/fake_nccl_places_testing.hpp"

namespace fake_nccl {

namespace {

class kernel {
public:
  kernel(std::shared_ptr<ncclComm> comm, std::vector<operation> operations)
      : comm_(std::move(comm)), operations_(std::move(operations)), number_(comm_->launch_kernel()) {
    kernel_places::all().launch(comm_->device());
  }
  kernel(const kernel&) = delete;
  kernel& operator=(const kernel&) = delete;
  ~kernel() {
    if (has_run_)
      return;
    kernel_places::all().drop(comm_->device()); // its stream was captured, or its launch failed
    comm_->kernel_ended(number_);
  }

  void run() {
    comm_->wait_for_turn(number_);
    auto& places = kernel_places::all();
    if (places.begin(comm_->device()))
      move_bytes();
    has_run_ = true;
    places.end(comm_->device());
    comm_->kernel_ended(number_);
  }

private:
  void move_bytes() {
    std::vector<frame> frames;
    for (const auto& next : operations_)
      frames.emplace_back(
          next.header, std::vector<unsigned char>(next.input.content, next.input.content + next.input_bytes));
    const auto results = comm_->exchange(std::move(frames));
    for (std::size_t i = 0; i < results.size(); ++i)
      std::copy(results[i]->begin(), results[i]->end(), operations_[i].output.content);
  }

  std::shared_ptr<ncclComm> comm_;
  std::vector<operation> operations_;
  std::uint64_t number_;
  bool has_run_ = false;
};

std::vector<CUstream> streams_of(const std::vector<operation>& operations) {
  std::vector<CUstream> result;
  for (const auto& next : operations)
    if (std::ranges::find(result, next.stream) == result.end())
      result.push_back(next.stream);
  return result;
}

ncclResult_t launch_failure(ncclComm& comm, CUresult reason) {
  const bool is_manual = reason == CUDA_ERROR_NOT_SUPPORTED;
  const std::string text =
      is_manual ? "the stand-in for NCCL cannot wait for other ranks while streams are manual "
                  "(FARANDOLE_FAKE_CUDA_STREAMS)"
                : "the launch of a kernel failed: result " + std::to_string(reason) + " of the driver";
  const auto result = is_manual ? ncclInvalidUsage : ncclUnhandledCudaError;
  comm.set_error(result, text);
  return result;
}

} // namespace

ncclResult_t launch(const std::shared_ptr<ncclComm>& comm, std::vector<operation> operations) {
  if (is_faulty("launch"))
    return launch_failure(*comm, CUDA_ERROR_UNKNOWN);
  const auto streams = streams_of(operations);
  auto made = std::make_unique<kernel>(comm, std::move(operations));
  const auto result = comm->driver().launch(
      comm->context(), streams.data(), static_cast<unsigned>(streams.size()), comm->size() > 1 ? 1 : 0,
      [](void* argument) { static_cast<kernel*>(argument)->run(); },
      [](void* argument) { delete static_cast<kernel*>(argument); }, made.get());
  if (result != CUDA_SUCCESS)
    return launch_failure(*comm, result);
  static_cast<void>(made.release()); // it is the stream's
  return ncclSuccess;
}

} // namespace fake_nccl
