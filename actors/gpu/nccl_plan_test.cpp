#include "actors/gpu/nccl_plan.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

using namespace farandole;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Addresses that nothing reads.
std::byte* at(std::uintptr_t address) {
  return reinterpret_cast<std::byte*>(address);
}

const auto buffer = device_buffer::of(at(0x1000000), 64 * mebibyte);

/// Part number i has its input at i GiB and its output half a GiB later.
part part_of(std::size_t number, std::size_t bytes) {
  const auto place = (number + 1) << 30U;
  return {at(place), at(place + (1U << 29U)), bytes};
}

work allreduce_of(const std::vector<std::size_t>& sizes) {
  work bundle;
  bundle.memory = memory_kind::device;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    bundle.parts.push_back(part_of(i, sizes[i]));
  return bundle;
}

/// The same bundle on a member that has joined.
work without_tensors(work bundle) {
  for (auto& part : bundle.parts)
    part.input = part.output = nullptr;
  return bundle;
}

std::vector<std::size_t> elements_of(const device_plan& plan) {
  std::vector<std::size_t> elements;
  for (const auto& call : plan.calls)
    elements.push_back(call.elements);
  return elements;
}

/// "8: 1000->2000" for each piece, in hexadecimal addresses.
struct piece {
  const std::byte* input;
  const std::byte* output;
  std::size_t elements;
  friend bool operator==(const piece&, const piece&) = default;
};
std::vector<piece> pieces_of(const tensor_pass& pass) {
  std::vector<piece> pieces;
  for (const auto& each : pass.pieces)
    pieces.push_back({each.input, each.output, each.elements});
  return pieces;
}

} // namespace

TEST_CASE("small tensors are packed, reduced by one call, and unpacked") {
  auto bundle = allreduce_of({8, 20, 0, 4});
  bundle.prescale = 0.5;
  bundle.postscale = 3.0;
  const auto plan = device_plan_of(bundle, 2, buffer);
  const auto& parts = bundle.parts;
  CHECK(pieces_of(plan.before) == std::vector<piece>{{parts[0].input, buffer.packed, 2},
                                                     {parts[1].input, buffer.packed + 16, 5},
                                                     {parts[3].input, buffer.packed + 48, 1}});
  CHECK(plan.before.scale == 0.5);
  CHECK(plan.calls ==
        std::vector<device_call>{{device_call_kind::allreduce, buffer.packed, buffer.packed, 16}});
  CHECK(plan.reduction == reduce_op::sum);
  CHECK(pieces_of(plan.after) == std::vector<piece>{{buffer.packed, parts[0].output, 2},
                                                    {buffer.packed + 16, parts[1].output, 5},
                                                    {buffer.packed + 48, parts[3].output, 1}});
  CHECK(plan.after.scale == 3.0);
}

TEST_CASE(
    "a tensor that is alone, or large, is reduced where it is, in calls of up to a quarter of the buffer") {
  const auto alone = device_plan_of(allreduce_of({400}), 2, buffer);
  CHECK(alone.before.pieces.empty());
  CHECK(alone.after.pieces.empty());
  CHECK(alone.calls == std::vector<device_call>{
                           {device_call_kind::allreduce, part_of(0, 0).input, part_of(0, 0).output, 100}});

  const auto bundle = allreduce_of({40 * mebibyte, 100, 200});
  const auto plan = device_plan_of(bundle, 2, buffer);
  constexpr std::size_t whole = 4 * mebibyte;
  CHECK(elements_of(plan) == std::vector<std::size_t>{whole, whole, 2 * mebibyte, 80});
  CHECK(plan.calls[1].input == bundle.parts[0].input + 16 * mebibyte);
  CHECK(plan.calls[1].output == bundle.parts[0].output + 16 * mebibyte);
  CHECK(plan.before.pieces.size() == 2);
}

TEST_CASE("a large tensor is scaled into its output before the call, and there after it") {
  auto bundle = allreduce_of({8 * mebibyte});
  bundle.reduce_op = reduce_op::average;
  bundle.prescale = 2.0;
  const auto plan = device_plan_of(bundle, 4, buffer);
  const auto& only = bundle.parts[0];
  constexpr std::size_t elements = 2 * mebibyte;
  CHECK(pieces_of(plan.before) == std::vector<piece>{{only.input, only.output, elements}});
  CHECK(plan.calls ==
        std::vector<device_call>{{device_call_kind::allreduce, only.output, only.output, elements}});
  CHECK(pieces_of(plan.after) == std::vector<piece>{{only.output, only.output, elements}});
  CHECK(plan.after.scale == 0.25);
  CHECK(plan.reduction == reduce_op::sum);
}

TEST_CASE("small tensors for which the buffer has no room are reduced where they are") {
  const auto small_buffer = device_buffer::of(at(0x1000000), 1024);
  const auto plan = device_plan_of(allreduce_of({480, 48, 16}), 2, small_buffer);
  // 480 bytes and 16 bytes fit into half of the buffer. A call takes up to a quarter.
  CHECK(elements_of(plan) == std::vector<std::size_t>{12, 124});
}

TEST_CASE("a member that has joined makes the same calls, with neutral elements") {
  for (const auto op : {reduce_op::sum, reduce_op::min, reduce_op::product}) {
    auto bundle = allreduce_of({40 * mebibyte, 100, 200, 17 * mebibyte});
    bundle.reduce_op = op;
    const auto own = device_plan_of(bundle, 3, buffer);
    const auto joined = device_plan_of(without_tensors(bundle), 3, buffer);
    CHECK(elements_of(joined) == elements_of(own));
    CHECK(joined.reduction == own.reduction);
    CHECK(joined.after.pieces.empty());
    for (const auto& call : joined.calls)
      CHECK(
          (call.input == buffer.packed || (call.input == buffer.neutral && call.output == buffer.discarded)));
    // The neutral region is filled once, and each packed tensor in its place.
    CHECK(pieces_of(joined.before) == std::vector<piece>{{nullptr, buffer.neutral, 4 * mebibyte},
                                                         {nullptr, buffer.packed, 25},
                                                         {nullptr, buffer.packed + 112, 50}});
    float neutral = 0;
    std::memcpy(&neutral, joined.before.neutral.data(), sizeof neutral);
    CHECK(neutral == (op == reduce_op::sum   ? 0.0F
                      : op == reduce_op::min ? std::numeric_limits<float>::infinity()
                                             : 1.0F));
  }
}

TEST_CASE("the root of a broadcast sends each tensor as bytes, whatever its type") {
  auto bundle = allreduce_of({10, 0, 6});
  bundle.operation = operation::broadcast;
  bundle.dtype = dtype::int16;
  bundle.root = 2;
  const auto plan = device_plan_of(bundle, 3, buffer);
  CHECK(plan.dtype == dtype::uint8);
  CHECK(plan.calls ==
        std::vector<device_call>{
            {device_call_kind::broadcast, bundle.parts[0].input, bundle.parts[0].output, 10, 2},
            {device_call_kind::broadcast, bundle.parts[2].input, bundle.parts[2].output, 6, 2}});
  CHECK(plan.before.pieces.empty());
}

TEST_CASE("a set of one makes no calls") {
  const auto plan_of = [](double prescale, double postscale, bool in_place,
                          operation id = operation::allreduce) {
    auto bundle = allreduce_of({8});
    bundle.operation = id;
    bundle.reduce_op = reduce_op::average;
    bundle.prescale = prescale;
    bundle.postscale = postscale;
    if (in_place)
      bundle.parts[0].output = const_cast<std::byte*>(bundle.parts[0].input);
    return device_plan_of(bundle, 1, {});
  };
  const auto input = part_of(0, 8).input;
  const auto output = part_of(0, 8).output;
  using pieces = std::vector<piece>;

  for (const auto id : {operation::allreduce, operation::broadcast}) {
    const auto nothing = plan_of(1.0, 1.0, true, id);
    CHECK(nothing.calls.empty());
    CHECK(nothing.before.pieces.empty());
    CHECK(nothing.after.pieces.empty());
    const auto copy = plan_of(1.0, 1.0, false, id);
    CHECK(copy.calls.empty());
    CHECK(copy.before.pieces.size() == 1);
    CHECK(copy.before.pieces[0].input == input);
    CHECK(copy.before.pieces[0].output == output);
    CHECK(copy.after.pieces.empty());
  }
  CHECK(pieces_of(plan_of(2.0, 1.0, false).before) == pieces{{input, output, 2}});
  CHECK(plan_of(2.0, 1.0, false).after.pieces.empty());
  CHECK(pieces_of(plan_of(1.0, 2.0, false).after) == pieces{{input, output, 2}});
  CHECK(plan_of(1.0, 2.0, false).before.pieces.empty());
  CHECK(pieces_of(plan_of(2.0, 2.0, false).before) == pieces{{input, output, 2}});
  CHECK(pieces_of(plan_of(2.0, 2.0, false).after) == pieces{{output, output, 2}});
}

TEST_CASE("there is no plan for what NCCL cannot reduce, and a set of one needs no NCCL") {
  auto bundle = allreduce_of({8});
  CHECK(has_device_plan(bundle, 2));
  for (const auto type : {dtype::int16, dtype::uint16}) {
    bundle.dtype = type;
    CHECK_FALSE(has_device_plan(bundle, 2));
    CHECK(has_device_plan(bundle, 1));
  }
  bundle.dtype = dtype::int64;
  CHECK(has_device_plan(bundle, 2));
  bundle.reduce_op = reduce_op::average; // NCCL would add integers in their own type
  CHECK_FALSE(has_device_plan(bundle, 2));
  CHECK(has_device_plan(bundle, 1));
  bundle.reduce_op = reduce_op::sum;
  bundle.dtype = dtype::boolean; // no path reduces it, and the host's paths say so
  CHECK_FALSE(has_device_plan(bundle, 1));
  bundle.dtype = dtype::float32;
  bundle.reduce_op = reduce_op::adasum;
  CHECK_FALSE(has_device_plan(bundle, 1));
  for (const auto id : {operation::allgather, operation::alltoall, operation::reducescatter}) {
    bundle.operation = id;
    CHECK_FALSE(has_device_plan(bundle, 2));
  }
  bundle.operation = operation::broadcast;
  bundle.dtype = dtype::boolean;
  CHECK(has_device_plan(bundle, 2));
}
