#include "cuda/driver/device_stream.hpp"

#include <utility>

namespace farandole {

namespace {

/// Lower than the number of any priority: the driver takes the highest priority that the device has.
constexpr int highest_priority = -1000;

} // namespace

expected<std::unique_ptr<device_stream>> device_stream::open(std::shared_ptr<devices> owner,
                                                             std::int32_t device) {
  auto& all = driver_devices::of(*owner);
  const auto context = all.context(device);
  if (!context)
    return context.error();
  const current_context current(all.driver(), *context);
  if (current.result() != CUDA_SUCCESS)
    return device_failure(all.driver(), device, "cuCtxPushCurrent", current.result());
  CUstream stream = nullptr;
  const auto result = all.driver().stream_create(&stream, CU_STREAM_NON_BLOCKING, highest_priority);
  if (result != CUDA_SUCCESS)
    return device_failure(all.driver(), device, "cuStreamCreateWithPriority", result);
  return std::make_unique<device_stream>(std::move(owner), device, *context, stream);
}

device_stream::device_stream(std::shared_ptr<devices> owner, std::int32_t device, CUcontext context,
                             CUstream stream)
    : owner_(std::move(owner)), devices_(driver_devices::of(*owner_)), device_(device), context_(context),
      stream_(stream) {}

device_stream::~device_stream() {
  const current_context current(devices_.driver(), context_);
  devices_.driver().stream_destroy(stream_);
}

expected<device_work> device_stream::launch(std::span<const device_point_ptr> after,
                                            std::vector<std::shared_ptr<const void>> uses,
                                            const submission& submit) {
  devices_.unfinished().release_ended();
  const current_context current(devices_.driver(), context_);
  if (auto problem = result_of("cuCtxPushCurrent", current.result()))
    return problem;
  auto word = devices_.words(device_)->take();
  if (!word)
    return word.error();
  const auto done = devices_.events(device_).take();
  if (!done)
    return done.error();
  if (auto problem = wait(after))
    return problem;
  const device_work work{*done, device_progress(*word)};
  // Before the first call that makes the device write: from then on, the memory is in use even if a call fails.
  uses.insert(uses.end(), after.begin(), after.end());
  uses.push_back(*done);
  devices_.unfinished().add({work.progress, std::move(uses)});
  last_ = work.progress;
  submitted given{write(**word, device_progress::begun_value)};
  if (!given.problem)
    given = submit(stream_, *word);
  if (given.unfinished)
    return given.problem;
  auto unended = write(**word, device_progress::ended_value);
  if (given.problem || unended)
    return given.problem ? given.problem : unended;
  if (auto unrecorded = result_of("cuEventRecord", devices_.driver().event_record((*done)->event(), stream_)))
    return unrecorded;
  return work;
}

error device_stream::failure() const {
  const current_context current(devices_.driver(), context_);
  if (auto problem = result_of("cuCtxPushCurrent", current.result()))
    return problem;
  const auto result = devices_.driver().stream_query(stream_);
  return result == CUDA_ERROR_NOT_READY ? error{} : result_of("cuStreamQuery", result);
}

error device_stream::wait(std::span<const device_point_ptr> points) {
  for (const auto& point : points)
    if (point != nullptr)
      if (auto problem = result_of("cuStreamWaitEvent",
                                   devices_.driver().stream_wait_event(stream_, event_point::of(*point), 0)))
        return problem;
  return {};
}

/// The driver writes it behind all that the stream wrote before, as seen from the host.
error device_stream::write(const progress_words::word& word, std::uint32_t value) {
  return result_of("cuStreamWriteValue32",
                   devices_.driver().stream_write_value(stream_, reinterpret_cast<CUdeviceptr>(&word), value,
                                                        CU_STREAM_WRITE_VALUE_DEFAULT));
}

error device_stream::result_of(const char* function, CUresult result) const {
  return result == CUDA_SUCCESS ? error{} : device_failure(devices_.driver(), device_, function, result);
}

} // namespace farandole
