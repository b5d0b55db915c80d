// The results of the operations of the stand-in for NCCL.
#include <catch2/catch.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <numeric>
#include <thread>

#include "cuda/fake/stand_in_nccl_testing.hpp"

using namespace farandole;

namespace {

constexpr std::size_t count = 5;

template <class Element>
Element from(double value) {
  if constexpr (std::is_same_v<Element, __half>)
    return __float2half(static_cast<float>(value));
  else if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    return __float2bfloat16(static_cast<float>(value));
  else
    return static_cast<Element>(value);
}

template <class Element>
double as_double(Element value) {
  if constexpr (std::is_same_v<Element, __half>)
    return __half2float(value);
  else if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    return __bfloat162float(value);
  else
    return static_cast<double>(value);
}

/// Small values, which every type has: element i of a rank.
double value(int rank, std::size_t i) {
  return static_cast<double>((static_cast<std::size_t>(rank) + 2 * i) % 3 + 1);
}

double expected(ncclRedOp_t op, int ranks, std::size_t i) {
  double result = value(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = value(rank, i);
    result = op == ncclSum    ? result + next
             : op == ncclProd ? result * next
             : op == ncclMax  ? std::max(result, next)
                              : std::min(result, next);
  }
  return result;
}

template <class Element>
std::vector<Element> input(int rank, std::size_t elements) {
  std::vector<Element> result;
  for (std::size_t i = 0; i < elements; ++i)
    result.push_back(from<Element>(value(rank, i)));
  return result;
}

/// All-reduce and reduce-scatter of one type with one operator.
template <class Element>
std::string check_reductions(nccl_rank& own, ncclDataType_t type, ncclRedOp_t op) {
  const auto ranks = static_cast<std::size_t>(own.size);
  auto* all = own.upload(input<Element>(own.rank, count * ranks));
  auto* part = own.gpu.device_memory(count * sizeof(Element));
  auto text =
      differs(nccl().reduce_scatter(all, part, count, type, op, own.comm, own.stream), "reduce-scatter");
  text += differs(nccl().all_reduce(all, all, count * ranks, type, op, own.comm, own.stream), "all-reduce");
  const auto sums = own.download<Element>(all, count * ranks);
  const auto own_sums = own.download<Element>(part, count);
  const auto place = " of type " + std::to_string(type) + " with operator " + std::to_string(op) + "; ";
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (as_double(sums[i]) != expected(op, own.size, i))
      text += "all-reduce" + place;
  for (std::size_t i = 0; i < count; ++i)
    if (as_double(own_sums[i]) != expected(op, own.size, static_cast<std::size_t>(own.rank) * count + i))
      text += "reduce-scatter" + place;
  return text;
}

std::string check_all_reductions(nccl_rank& own) {
  std::string text;
  for (const auto op : {ncclSum, ncclProd, ncclMax, ncclMin}) {
    text += check_reductions<std::int8_t>(own, ncclInt8, op);
    text += check_reductions<std::uint8_t>(own, ncclUint8, op);
    text += check_reductions<std::int32_t>(own, ncclInt32, op);
    text += check_reductions<std::uint32_t>(own, ncclUint32, op);
    text += check_reductions<std::int64_t>(own, ncclInt64, op);
    text += check_reductions<std::uint64_t>(own, ncclUint64, op);
    text += check_reductions<__half>(own, ncclFloat16, op);
    text += check_reductions<__nv_bfloat16>(own, ncclBfloat16, op);
    text += check_reductions<float>(own, ncclFloat32, op);
    text += check_reductions<double>(own, ncclFloat64, op);
  }
  return text;
}

std::string check_copies(nccl_rank& own) {
  std::string text;
  const auto ranks = static_cast<std::size_t>(own.size);
  auto* memory = own.upload(input<std::int32_t>(own.rank, count));
  auto* all = own.gpu.device_memory(ranks * count * sizeof(std::int32_t));
  text += differs(nccl().all_gather(memory, all, count, ncclInt32, own.comm, own.stream), "all-gather");
  const auto gathered = own.download<std::int32_t>(all, ranks * count);
  for (std::size_t i = 0; i < gathered.size(); ++i)
    if (gathered[i] != static_cast<int>(value(static_cast<int>(i / count), i % count)))
      text += "all-gather: element " + std::to_string(i) + "; ";
  const int root = own.size - 1;
  // Only the root has a send buffer.
  text += differs(nccl().broadcast(own.rank == root ? memory : nullptr, memory, count, ncclInt32, root,
                                   own.comm, own.stream),
                  "broadcast");
  if (own.download<std::int32_t>(memory, count) != input<std::int32_t>(root, count))
    text += "broadcast; ";
  return text;
}

/// Each rank sends to the next one and receives from the one before, in one group.
std::string check_ring(nccl_rank& own) {
  const int next = (own.rank + 1) % own.size, last = (own.rank + own.size - 1) % own.size;
  auto* sent = own.upload(input<float>(own.rank, count));
  auto* received = own.gpu.device_memory(count * sizeof(float));
  auto text = differs(nccl().group_start(), "group start");
  text += differs(nccl().send(sent, count, ncclFloat32, next, own.comm, own.stream), "send");
  text += differs(nccl().receive(received, count, ncclFloat32, last, own.comm, own.stream), "receive");
  text += differs(nccl().group_end(), "group end");
  if (own.download<float>(received, count) != input<float>(last, count))
    text += "ring; ";
  return text;
}

} // namespace

TEST_CASE("every reduction of every type has its result on 1 to 4 ranks") {
  const variable gpus("FARANDOLE_FAKE_GPUS", "4");
  for (int ranks = 1; ranks <= 4; ++ranks)
    CHECK(run_ranks(ranks, check_all_reductions) == "");
}

TEST_CASE("all-gathers, broadcasts and rings of sends arrive on 1 to 4 ranks") {
  const variable gpus("FARANDOLE_FAKE_GPUS", "4");
  for (int ranks = 1; ranks <= 4; ++ranks) {
    CHECK(run_ranks(ranks, check_copies) == "");
    CHECK(run_ranks(ranks, check_ring) == "");
  }
}

TEST_CASE("a reduction adds in the order of the ranks, and rounds after each addition") {
  const variable gpus("FARANDOLE_FAKE_GPUS", "3");
  CHECK(run_ranks(3, [](nccl_rank& own) -> std::string {
          const float values[] = {1e8F, -1e8F, 1.0F};
          auto* memory = own.upload(std::vector{values[own.rank]});
          auto* halves = own.upload(std::vector{__float2half(own.rank == 0 ? 2048.0F : 1.0F)});
          nccl().all_reduce(memory, memory, 1, ncclFloat32, ncclSum, own.comm, own.stream);
          nccl().all_reduce(halves, halves, 1, ncclFloat16, ncclSum, own.comm, own.stream);
          const bool in_order = own.download<float>(memory, 1).front() == 1.0F;
          const bool rounded = __half2float(own.download<__half>(halves, 1).front()) == 2048.0F;
          return in_order && rounded ? "" : "sum; ";
        }) == "");
}

TEST_CASE("an operation begins behind the work of its stream, and later work waits for it") {
  CHECK(run_ranks(2, [](nccl_rank& own) -> std::string {
          auto* memory = own.gpu.device_memory(count);
          auto* copy = own.gpu.device_memory(count);
          own.gpu.fill(memory, own.rank + 1, count, own.stream);
          nccl().all_reduce(memory, memory, count, ncclInt8, ncclSum, own.comm, own.stream);
          stand_in_driver::function<decltype(cuMemcpyAsync)>("cuMemcpyAsync")(
              reinterpret_cast<CUdeviceptr>(copy), reinterpret_cast<CUdeviceptr>(memory), count, own.stream);
          own.gpu.fill(memory, 9, count, own.stream);
          const bool is_sum = own.download<std::int8_t>(copy, count) == std::vector<std::int8_t>(count, 3);
          return is_sum ? "" : "copy; ";
        }) == "");
}

TEST_CASE("the operations of a group are one kernel on all of their streams") {
  const auto before = nccl().kernels_launched();
  CHECK(run_ranks(2, [](nccl_rank& own) -> std::string {
          auto* second = own.gpu.stream();
          auto* memory = own.gpu.device_memory(count);
          auto* other = own.gpu.device_memory(count);
          own.gpu.fill(memory, 1, count, own.stream);
          own.gpu.fill(other, 2, count, second);
          std::string text = differs(nccl().group_start(), "group start");
          nccl().group_start(); // groups may be nested
          nccl().all_reduce(memory, memory, count, ncclInt8, ncclSum, own.comm, own.stream);
          nccl().group_end();
          nccl().all_reduce(other, other, count, ncclInt8, ncclSum, own.comm, second);
          if (nccl().kernels_unfinished(own.rank) != 0)
            text += "a kernel before the end of the group; ";
          text += differs(nccl().group_end(), "group end");
          own.gpu.fill(other, 7, count, second); // behind the kernel
          const auto sums = own.download<std::int8_t>(memory, count);
          return text + (sums == std::vector<std::int8_t>(count, 2) ? "" : "sum; ");
        }) == "");
  CHECK(nccl().kernels_launched() == before + 2);
}

TEST_CASE("kernels of a communicator on different streams run in the order of their launch") {
  CHECK(run_ranks(2, [](nccl_rank& own) -> std::string {
          std::vector<CUstream> streams{own.stream, own.gpu.stream(), own.gpu.stream()};
          auto* memory = own.upload(std::vector<std::int32_t>{1});
          for (int i = 0; i < 12; ++i)
            nccl().all_reduce(memory, memory, 1, ncclInt32, ncclSum, own.comm,
                              streams[static_cast<std::size_t>(i) % streams.size()]);
          for (auto* stream : streams)
            stand_in_driver::function<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(stream);
          return own.download<std::int32_t>(memory, 1).front() == 1 << 12 ? "" : "sum; ";
        }) == "");
}

TEST_CASE("one thread drives several ranks with groups") {
  const auto id = new_unique_id();
  nccl_rank first(0, 2), second(1, 2); // the second has its device current
  const auto on_first = [&](const std::function<void()>& body) {
    const stand_in_driver gpu(0);
    body();
  };
  REQUIRE(nccl().group_start() == ncclSuccess);
  on_first([&] { CHECK(first.init(id) == ncclSuccess); });
  CHECK(second.init(id) == ncclSuccess);
  REQUIRE(nccl().group_end() == ncclSuccess);
  std::byte* memory[2] = {nullptr, nullptr};
  on_first([&] { memory[0] = first.upload(std::vector<std::int32_t>{5}); });
  memory[1] = second.upload(std::vector<std::int32_t>{6});
  REQUIRE(nccl().group_start() == ncclSuccess);
  CHECK(nccl().all_reduce(memory[0], memory[0], 1, ncclInt32, ncclSum, first.comm, first.stream) ==
        ncclSuccess);
  CHECK(nccl().all_reduce(memory[1], memory[1], 1, ncclInt32, ncclSum, second.comm, second.stream) ==
        ncclSuccess);
  REQUIRE(nccl().group_end() == ncclSuccess);
  CHECK(second.download<std::int32_t>(memory[1], 1).front() == 11);
  first.synchronize();
  CHECK(first.download<std::int32_t>(memory[0], 1).front() == 11);
  CHECK(nccl().destroy(first.comm) == ncclSuccess);
  CHECK(nccl().destroy(second.comm) == ncclSuccess);
}

TEST_CASE("megabytes pass in both directions at the same time") {
  CHECK(run_ranks(2, [](nccl_rank& own) -> std::string {
          constexpr std::size_t elements = 1 << 20;
          std::vector<std::int32_t> values(elements);
          std::iota(values.begin(), values.end(), own.rank);
          auto* memory = own.upload(values);
          nccl().all_reduce(memory, memory, elements, ncclInt32, ncclSum, own.comm, own.stream);
          const auto sums = own.download<std::int32_t>(memory, elements);
          for (std::size_t i = 0; i < elements; ++i)
            if (sums[i] != static_cast<std::int32_t>(2 * i + 1))
              return "element " + std::to_string(i);
          return "";
        }) == "");
}

TEST_CASE("no elements need no kernel, and a rank may send to itself in a group") {
  const auto before = nccl().kernels_launched();
  CHECK(run_ranks(1, [](nccl_rank& own) -> std::string {
          auto text = differs(nccl().all_reduce(nullptr, nullptr, 0, ncclInt8, ncclSum, own.comm, own.stream),
                              "empty");
          if (!own.is_idle())
            text += "a kernel; ";
          return text + check_ring(own);
        }) == "");
  CHECK(nccl().kernels_launched() == before + 1);
}
