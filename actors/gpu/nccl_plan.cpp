#include "actors/gpu/nccl_plan.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "collectives/math/reduce.hpp"

namespace farandole {

namespace {

/// Tensors of up to so many bytes are packed. A copy of so much takes about as long as the start of a kernel.
constexpr std::size_t packed_limit = std::size_t{1} << 20;
constexpr std::size_t piece_alignment = 16; ///< so that kernels access 16 bytes at a time

std::size_t aligned(std::size_t bytes) {
  return (bytes + piece_alignment - 1) / piece_alignment * piece_alignment;
}

bool nccl_reduces(dtype type) {
  return type != dtype::uint16 && type != dtype::int16 && type != dtype::boolean;
}

std::array<std::byte, 8> neutral_of(dtype type, reduce_op op) {
  std::array<std::byte, 8> element{};
  fill_neutral(type, op, element.data(), 1);
  return element;
}

/// Writes the plan of an allreduce.
class allreduce_planner {
public:
  allreduce_planner(const work& bundle, std::size_t members, const device_buffer& buffer, device_plan& plan)
      : bundle_(bundle), buffer_(buffer), plan_(plan), element_bytes_(size_of(bundle.dtype)) {
    const bool averages = bundle.reduce_op == reduce_op::average;
    plan.dtype = bundle.dtype;
    plan.reduction = averages ? reduce_op::sum : bundle.reduce_op;
    for (auto* pass : {&plan.before, &plan.after}) {
      pass->from = pass->to = bundle.dtype;
      pass->neutral = neutral_of(bundle.dtype, bundle.reduce_op);
    }
    plan.before.scale = bundle.prescale;
    plan.after.scale = averages ? bundle.postscale * (1.0 / static_cast<double>(members)) : bundle.postscale;
  }

  /// Of a set of one member, whose result is its own tensor.
  void plan_alone() {
    for (const auto& part : bundle_.parts) {
      if (part.input == nullptr)
        continue;
      if (plan_.before.scale != 1.0 || (part.input != part.output && plan_.after.scale == 1.0))
        plan_.before.pieces.push_back({part.input, part.output, elements_of(part.input_bytes)});
      if (plan_.after.scale != 1.0)
        plan_.after.pieces.push_back({plan_.before.scale != 1.0 ? part.output : part.input, part.output,
                                      elements_of(part.input_bytes)});
    }
  }

  void plan_calls() {
    const auto small = std::ranges::count_if(
        bundle_.parts, [](const part& each) { return each.input_bytes <= packed_limit; });
    for (const auto& part : bundle_.parts) {
      if (part.input_bytes == 0)
        continue;
      if (small > 1 && part.input_bytes <= packed_limit &&
          aligned(part.input_bytes) <= buffer_.packed_bytes - packed_)
        pack(part);
      else
        move_in_place(part);
    }
    if (packed_ > 0)
      call(buffer_.packed, buffer_.packed, packed_);
  }

private:
  std::size_t elements_of(std::size_t bytes) const { return bytes / element_bytes_; }

  void call(const std::byte* input, std::byte* output, std::size_t bytes) {
    plan_.calls.push_back({device_call_kind::allreduce, input, output, elements_of(bytes)});
  }

  void pack(const part& part) {
    auto* place = buffer_.packed + packed_;
    packed_ += aligned(part.input_bytes);
    plan_.before.pieces.push_back({part.input, place, elements_of(part.input_bytes)});
    if (part.output != nullptr)
      plan_.after.pieces.push_back({place, part.output, elements_of(part.input_bytes)});
  }

  void move_in_place(const part& part) {
    const bool absent = part.input == nullptr;
    if (absent)
      fill_neutral_region(part.input_bytes);
    else if (plan_.before.scale != 1.0)
      plan_.before.pieces.push_back({part.input, part.output, elements_of(part.input_bytes)});
    const auto* input = plan_.before.scale != 1.0 ? part.output : part.input;
    for (std::size_t offset = 0; offset < part.input_bytes; offset += buffer_.call_bytes) {
      const auto bytes = std::min(buffer_.call_bytes, part.input_bytes - offset);
      if (absent)
        call(buffer_.neutral, buffer_.discarded, bytes);
      else
        call(input + offset, part.output + offset, bytes);
    }
    if (!absent && plan_.after.scale != 1.0)
      plan_.after.pieces.push_back({part.output, part.output, elements_of(part.input_bytes)});
  }

  void fill_neutral_region(std::size_t part_bytes) {
    const auto bytes = std::min(part_bytes, buffer_.call_bytes);
    if (bytes <= filled_)
      return;
    plan_.before.pieces.push_back({nullptr, buffer_.neutral + filled_, elements_of(bytes - filled_)});
    filled_ = bytes;
  }

  const work& bundle_;
  const device_buffer& buffer_;
  device_plan& plan_;
  std::size_t element_bytes_;
  std::size_t packed_ = 0; ///< bytes of the buffer that are in use
  std::size_t filled_ = 0; ///< bytes of the neutral region that are filled
};

/// Bytes are moved as they are, so elements of any type are moved as bytes.
void plan_broadcast(const work& bundle, std::size_t members, device_plan& plan) {
  plan.dtype = plan.before.from = plan.before.to = dtype::uint8;
  for (const auto& part : bundle.parts) {
    if (part.input_bytes == 0)
      continue;
    if (members > 1)
      plan.calls.push_back(
          {device_call_kind::broadcast, part.input, part.output, part.input_bytes, bundle.root});
    else if (part.input != part.output)
      plan.before.pieces.push_back({part.input, part.output, part.input_bytes});
  }
}

} // namespace

bool has_device_plan(operation id, dtype type, reduce_op op, std::size_t members) {
  if (id == operation::broadcast)
    return true;
  if (id != operation::allreduce || op == reduce_op::adasum)
    return false;
  if (members == 1)
    return type != dtype::boolean;
  return nccl_reduces(type) && !needs_all_inputs(type, op);
}

device_buffer device_buffer::of(std::byte* memory, std::size_t bytes) {
  const auto half = bytes / 2;
  const auto quarter = half / 2;
  return {memory, half, memory + half, memory + half + quarter, quarter};
}

device_plan device_plan_of(const work& bundle, std::size_t members, const device_buffer& buffer) {
  assert(has_device_plan(bundle, members));
  device_plan plan;
  if (bundle.operation == operation::broadcast) {
    plan_broadcast(bundle, members, plan);
    return plan;
  }
  allreduce_planner planner(bundle, members, buffer, plan);
  if (members == 1)
    planner.plan_alone();
  else
    planner.plan_calls();
  return plan;
}

} // namespace farandole
