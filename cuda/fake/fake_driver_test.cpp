// What other tests rely on in the stand-in driver.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <numeric>

#include "cuda/driver/stand_in_testing.hpp"

using namespace farandole;

namespace {

constexpr std::size_t size = 64;

CUevent new_event() {
  CUevent event = nullptr;
  REQUIRE(stand_in_driver::function<decltype(cuEventCreate)>("cuEventCreate")(&event, 0) == CUDA_SUCCESS);
  return event;
}

CUresult record(CUevent event, CUstream stream) {
  return stand_in_driver::function<decltype(cuEventRecord)>("cuEventRecord")(event, stream);
}

CUresult wait(CUstream stream, CUevent event) {
  return stand_in_driver::function<decltype(cuStreamWaitEvent)>("cuStreamWaitEvent")(stream, event, 0);
}

void destroy(CUevent event) {
  stand_in_driver::function<decltype(cuEventDestroy)>("cuEventDestroy_v2")(event);
}

/// Whether the host may read an address. The kernel reads it, so the process does not crash.
bool is_readable(const std::byte* memory) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const bool readable = ::write(ends[1], memory, 1) == 1;
  CHECK((readable || errno == EFAULT));
  ::close(ends[0]);
  ::close(ends[1]);
  return readable;
}

} // namespace

TEST_CASE("the host can read pinned and managed memory of the stand-in, and no device memory") {
  stand_in_driver gpu;
  CHECK(is_readable(gpu.managed_memory(size)));
  CHECK(is_readable(gpu.pinned_memory(size)));
  CHECK_FALSE(is_readable(gpu.device_memory(size)));
}

TEST_CASE("the default stream waits for blocking streams, and these for it; others do not") {
  const variable manual("FARANDOLE_FAKE_CUDA_STREAMS", "manual");
  stand_in_driver gpu;
  auto* memory = gpu.device_memory(size);
  auto* blocking = gpu.stream(CU_STREAM_DEFAULT);
  auto* other = gpu.stream();
  gpu.fill(memory, 1, size, blocking);
  gpu.fill(memory, 2, size, nullptr);
  gpu.fill(memory, 3, size, blocking);
  gpu.fill(memory, 4, size, other);
  CHECK(gpu.run(CU_STREAM_LEGACY, 1) == 0);
  CHECK(gpu.run(other, 1) == 1);
  CHECK(gpu.run(blocking, 9) == 1);
  CHECK(gpu.run(blocking, 9) == 0);
  CHECK(gpu.run(CU_STREAM_LEGACY, 9) == 1);
  CHECK(gpu.run(blocking, 9) == 1);
  CHECK(gpu.read(memory, size) == std::vector<std::byte>(size, std::byte(3)));
}

TEST_CASE("a wait for an event takes its last record before the wait, and none if there is none") {
  const variable manual("FARANDOLE_FAKE_CUDA_STREAMS", "manual");
  stand_in_driver gpu;
  auto* memory = gpu.device_memory(size);
  auto* source = gpu.stream();
  auto* target = gpu.stream();
  auto* event = new_event();
  gpu.fill(memory, 1, size, source);
  REQUIRE(wait(target, event) == CUDA_SUCCESS);
  CHECK(gpu.run(target, 1) == 1);

  REQUIRE(record(event, source) == CUDA_SUCCESS);
  REQUIRE(wait(target, event) == CUDA_SUCCESS);
  gpu.fill(memory, 2, size, source);
  REQUIRE(record(event, source) == CUDA_SUCCESS);
  CHECK(gpu.run(target, 1) == 0);
  CHECK(gpu.run(source, 1) == 1);
  CHECK(gpu.run(target, 1) == 1);
  REQUIRE(wait(target, event) == CUDA_SUCCESS);
  CHECK(gpu.run(target, 1) == 0);
  gpu.run_all();
  destroy(event);
}

TEST_CASE("streams with threads run their work in order, and calls wait for it") {
  stand_in_driver gpu;
  constexpr std::size_t count = 100;
  auto* stream = gpu.stream();
  std::vector<std::size_t> order;
  struct step {
    std::vector<std::size_t>& order;
    std::size_t number;
  };
  std::vector<step> steps;
  for (std::size_t i = 0; i < count; ++i)
    steps.push_back({order, i});
  for (auto& each : steps)
    stand_in_driver::function<decltype(cuLaunchHostFunc)>("cuLaunchHostFunc")(
        stream,
        [](void* argument) {
          const auto& done = *static_cast<step*>(argument);
          done.order.push_back(done.number);
        },
        &each);
  REQUIRE(stand_in_driver::function<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(stream) ==
          CUDA_SUCCESS);
  std::vector<std::size_t> expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(order == expected);
  CHECK(gpu.is_idle(stream));
}

TEST_CASE("a fault with a number begins at that call after the variable changed") {
  stand_in_driver gpu;
  const auto allocate = [] {
    CUdeviceptr address = 0;
    const auto result = stand_in_driver::function<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&address, size);
    stand_in_driver::function<decltype(cuMemFree)>("cuMemFree_v2")(address);
    return result;
  };
  const auto calls = stand_in_driver::calls("cuMemAlloc");
  for (int round = 0; round < 2; ++round) {
    const variable fails("FARANDOLE_FAKE_CUDA_FAILS", "cuEventQuery,cuMemAlloc:2");
    CHECK(allocate() == CUDA_SUCCESS);
    CHECK(allocate() == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(allocate() == CUDA_ERROR_OUT_OF_MEMORY);
    ::unsetenv("FARANDOLE_FAKE_CUDA_FAILS");
    CHECK(allocate() == CUDA_SUCCESS);
  }
  CHECK(stand_in_driver::calls("cuMemAlloc") == calls + 8);
}
