#include "actors/submission/device_gate.hpp"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/submission/request_check.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

error named(const submission& request, const error& problem) {
  return {problem.kind, printable_name(request.name) + ": " + problem.text};
}

} // namespace

expected<std::shared_ptr<devices>> devices_of_process() {
  // Never destroyed: threads of frameworks may call until the process ends.
  static auto& guard = *new std::mutex;
  static auto& opened = *new std::shared_ptr<devices>;
  std::lock_guard lock(guard);
  if (!opened) {
    auto found = devices::open();
    if (!found)
      return found.error();
    opened = std::move(*found);
  }
  return opened;
}

namespace {

// A device faults on elements that are not aligned.
error check_alignment(const submission& request, const std::byte* memory) {
  const auto element_bytes = size_of(request.signature.dtype);
  if (reinterpret_cast<std::uintptr_t>(memory) % element_bytes == 0)
    return {};
  return named(request, {error_kind::invalid_argument,
                         "its address is not a multiple of " + std::to_string(element_bytes) +
                             " bytes, the size of its elements; copy it to a tensor of its own"});
}

error check_memory(const submission& request, std::int32_t members, known_memory& inputs,
                   known_memory& outputs) {
  if (request.signature.memory == memory_kind::host)
    return {};
  for (const auto* memory : {request.input, static_cast<const std::byte*>(request.output)})
    if (auto problem = check_alignment(request, memory))
      return problem;
  auto all = devices_of_process();
  if (!all)
    return named(request, all.error());
  const auto device = request.memory.device;
  if (const auto bytes = input_bytes(request); bytes > 0)
    if (auto problem = (*all)->check(request.input, bytes, device, inputs))
      return named(request, problem);
  if (request.output != nullptr && request.output != request.input)
    if (const auto bytes = output_bytes(request, members); bytes > 0)
      if (auto problem = (*all)->check(request.output, bytes, device, outputs))
        return named(request, {problem.kind, "the output: " + problem.text});
  return {};
}

expected<device_point_ptr> ready_point(const submission& request) {
  if (request.signature.memory == memory_kind::host)
    return device_point_ptr{};
  auto all = devices_of_process();
  if (!all)
    return named(request, all.error());
  auto ready = (*all)->ready_point(request.memory);
  if (!ready)
    return named(request, ready.error());
  return ready;
}

} // namespace

bool is_own_result(const signature& signature, bool in_place, std::int32_t members) {
  const bool moves_nothing =
      signature.operation == operation::allreduce || signature.operation == operation::broadcast;
  return members == 1 && moves_nothing && in_place && signature.memory == memory_kind::device &&
         signature.prescale == 1.0 && signature.postscale == 1.0;
}

expected<device_point_ptr> admit_memory(const submission& request, std::int32_t members) {
  if (request.signature.memory == memory_kind::host)
    return device_point_ptr{};
  known_memory input, output;
  if (auto problem = check_memory(request, members, input, output))
    return problem;
  return ready_point(request);
}

expected<std::vector<device_point_ptr>> admit_group_memory(std::span<const submission> requests,
                                                           std::int32_t members) {
  std::vector<device_point_ptr> points;
  points.reserve(requests.size());
  known_memory inputs, outputs; // tensors of a group are often in the same memory
  for (const auto& request : requests) {
    const auto& first = requests.front();
    if (request.memory.device != first.memory.device)
      return named(request,
                   {error_kind::invalid_argument, "all tensors of a group must be on the same device, as " +
                                                      printable_name(first.name) + " is"});
    if (auto problem = check_memory(request, members, inputs, outputs))
      return problem;
    // One point serves all tensors of one stream.
    const auto& before = requests[points.size() - (points.empty() ? 0 : 1)].memory;
    if (!points.empty() && before.stream == request.memory.stream &&
        before.readiness == request.memory.readiness) {
      points.push_back(points.back());
      continue;
    }
    auto point = ready_point(request);
    if (!point)
      return point.error();
    points.push_back(std::move(*point));
  }
  return points;
}

bool is_ready_with_tensor(const operation_state& operation) {
  return operation.on_device.done != nullptr && operation.on_device.done == operation.ready;
}

error make_stream_wait(const operation_state& operation, void* stream) {
  const auto& own = operation.memory;
  const bool is_of_stream = own.readiness == device_readiness::stream && own.stream == stream;
  if (is_ready_with_tensor(operation) ? is_of_stream : operation.on_device.progress.ended())
    return {};
  if (operation.given_up.load(std::memory_order_acquire))
    return operation.late_problem;
  auto all = devices_of_process();
  if (!all)
    return all.error();
  auto problem = (*all)->wait(operation.memory.device, stream, operation.on_device.done);
  return problem ? error{problem.kind, printable_name(operation.name) + ": " + problem.text} : error{};
}

} // namespace farandole
