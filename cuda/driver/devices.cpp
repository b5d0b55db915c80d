#include "cuda/driver/driver_devices.hpp"

#include <cassert>
#include <string>

#include "cuda/driver/driver_facts.hpp"
#include "cuda/driver/driver_start.hpp"
#include "cuda/driver/memory_check.hpp"

namespace farandole {

namespace {

error captured(std::int32_t device) {
  return {error_kind::unimplemented,
          "GPU " + std::to_string(device) +
              ": its stream is being captured into a graph, which Farandole does not "
              "support; submit it outside of the capture"};
}

bool is_of_capture(CUresult result) {
  return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

} // namespace

driver_devices::driver_devices(std::shared_ptr<primary_contexts> contexts)
    : contexts_(std::move(contexts)), pinned_(std::make_shared<pinned_pool>(contexts_)) {
  for (std::int32_t device = 0; device < contexts_->count(); ++device) {
    events_.push_back(std::make_shared<event_pool>(contexts_, device));
    words_.push_back(std::make_shared<progress_words>(pinned_, device));
  }
}

driver_devices& driver_devices::of(devices& all) {
  auto* result = dynamic_cast<driver_devices*>(&all);
  assert(result != nullptr);
  return *result;
}

error driver_devices::check(const std::byte* memory, std::size_t bytes, std::int32_t device,
                            known_memory& region) {
  if (region.holds(memory, bytes, device))
    return {};
  const auto context = contexts_->get(device);
  if (!context)
    return context.error();
  const current_context current(driver(), *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(driver(), device, "cuCtxPushCurrent", current.result());
  return check_device_memory(driver(), *context, memory, bytes, device, region);
}

expected<device_point_ptr> driver_devices::ready_point(const tensor_memory& location) {
  const auto device = location.device;
  const auto context = contexts_->get(device);
  if (!context)
    return context.error();
  if (location.readiness == device_readiness::complete)
    return device_point_ptr();
  const current_context current(driver(), *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(driver(), device, "cuCtxPushCurrent", current.result());
  if (location.readiness == device_readiness::stream)
    if (auto problem = check_not_captured(device, static_cast<CUstream>(location.stream)))
      return problem;
  const auto point = events(device).take();
  if (!point)
    return point.error();
  if (auto problem = record(*context, location, (*point)->event()))
    return problem;
  return device_point_ptr(*point);
}

error driver_devices::record(CUcontext context, const tensor_memory& location, CUevent event) {
  if (location.readiness == device_readiness::stream) {
    const auto result = driver().event_record(event, static_cast<CUstream>(location.stream));
    return result == CUDA_SUCCESS ? error{}
                                  : device_failure(driver(), location.device, "cuEventRecord", result);
  }
  if (driver().context_record_event == nullptr)
    return {
        error_kind::unimplemented,
        "GPU " + std::to_string(location.device) + ": the NVIDIA driver, of CUDA " +
            cuda_version_text(driver().version) +
            ", cannot tell when all streams are ready: it has no function cuCtxRecordEvent; install version "
            "555 or later of the driver"};
  const auto result = driver().context_record_event(context, event);
  if (is_of_capture(result))
    return captured(location.device);
  return result == CUDA_SUCCESS ? error{}
                                : device_failure(driver(), location.device, "cuCtxRecordEvent", result);
}

/// Work of a stream that is captured would become a part of its graph, or break the capture.
error driver_devices::check_not_captured(std::int32_t device, CUstream stream) {
  auto status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto result = driver().stream_is_capturing(stream, &status);
  if (is_of_capture(result) || (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE))
    return captured(device);
  return result == CUDA_SUCCESS ? error{} : device_failure(driver(), device, "cuStreamIsCapturing", result);
}

error driver_devices::wait(std::int32_t device, void* stream, const device_point_ptr& point) {
  const auto context = contexts_->get(device);
  if (!context)
    return context.error();
  if (point == nullptr)
    return {};
  const current_context current(driver(), *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(driver(), device, "cuCtxPushCurrent", current.result());
  if (auto problem = check_not_captured(device, static_cast<CUstream>(stream)))
    return problem;
  const auto result = driver().stream_wait_event(static_cast<CUstream>(stream), event_point::of(*point), 0);
  return result == CUDA_SUCCESS ? error{} : device_failure(driver(), device, "cuStreamWaitEvent", result);
}

bool devices::are_built_in() {
  return true;
}

expected<std::shared_ptr<devices>> devices::open(const std::string& library) {
  auto loaded = load_driver(library);
  if (!loaded)
    return loaded.error();
  const auto count = start_driver(*loaded);
  if (!count)
    return count.error();
  return std::shared_ptr<devices>(
      std::make_shared<driver_devices>(std::make_shared<primary_contexts>(std::move(*loaded), *count)));
}

} // namespace farandole
