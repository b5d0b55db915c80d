#include "cuda/driver/devices.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

#include "cuda/driver/stand_in_testing.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

/// A process with two GPUs whose streams run when the test says so.
struct two_gpus {
  variable manual{"FARANDOLE_FAKE_CUDA_STREAMS", "manual"};
  stand_in_driver gpu{0};
  std::shared_ptr<devices> all = *devices::open(stand_in_driver::path());

  device_point_ptr ready(CUstream stream) {
    auto point = all->ready_point({0, stream, device_readiness::stream});
    REQUIRE(point);
    return *point;
  }
  error check(const std::byte* memory, std::size_t bytes, std::int32_t device) {
    known_memory known;
    return all->check(memory, bytes, device, known);
  }
};

bool is_filled(const std::vector<std::byte>& bytes, int value) {
  return std::ranges::all_of(bytes, [&](std::byte byte) { return byte == std::byte(value); });
}

constexpr std::size_t size = 256;

} // namespace

TEST_CASE("a process without a driver, or whose driver has no GPU, has no devices, and learns why") {
  const auto nowhere = devices::open("libcuda-of-no-machine.so.1");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().kind == error_kind::unimplemented);
  CHECK_THAT(nowhere.error().text, Contains("there is no NVIDIA driver"));

  const variable none("FARANDOLE_FAKE_GPUS", "0");
  const auto empty = devices::open(stand_in_driver::path());
  REQUIRE_FALSE(empty);
  CHECK_THAT(empty.error().text, Contains("finds no GPU"));
}

TEST_CASE("memory of the device and managed memory are accepted; nothing else is, with the reason") {
  two_gpus test;
  auto* memory = test.gpu.device_memory(size);
  CHECK(test.all->count() == 2);
  CHECK_FALSE(test.check(memory, size, 0));
  CHECK_FALSE(test.check(memory + 8, size - 8, 0));
  CHECK_FALSE(test.check(nullptr, 0, 0));
  auto* managed = test.gpu.managed_memory(size);
  CHECK_FALSE(test.check(managed, size, 0));
  CHECK_FALSE(test.check(managed, size, 1));

  const auto problem = [&](const std::byte* address, std::size_t bytes, std::int32_t device) {
    const auto found = test.check(address, bytes, device);
    CHECK(found.kind == error_kind::invalid_argument);
    return found.text;
  };
  char address[32];
  std::snprintf(address, sizeof address, "%p", static_cast<void*>(memory));
  CHECK(problem(memory, size, 1) ==
        "a tensor of 256 bytes at " + std::string(address) +
            " is not in memory of GPU 1, as it should be: its memory belongs to GPU 0");
  CHECK_THAT(problem(memory + 8, size, 0),
             Contains("exceeds its memory of GPU 0 by 8 bytes: the memory at ") &&
                 Contains("is unknown to the NVIDIA driver"));
  CHECK_THAT(problem(test.gpu.pinned_memory(size), size, 0), Contains("is host memory"));
  std::byte local{};
  CHECK_THAT(problem(&local, 1, 0), Contains("is unknown to the NVIDIA driver"));
  CHECK(problem(memory, size, 7) == "there is no GPU 7: this process may use 2 (CUDA_VISIBLE_DEVICES)");
  CHECK(problem(memory, size, -1) == "there is no GPU -1: this process may use 2 (CUDA_VISIBLE_DEVICES)");
}

TEST_CASE("memory of another context than the primary one is refused") {
  two_gpus test;
  CUcontext other = nullptr;
  REQUIRE(stand_in_driver::function<decltype(cuCtxCreate)>("cuCtxCreate_v4")(&other, nullptr, 0, 0) ==
          CUDA_SUCCESS);
  auto* memory = test.gpu.device_memory(size);
  stand_in_driver::function<decltype(cuCtxPopCurrent)>("cuCtxPopCurrent_v2")(&other);
  const auto problem = test.check(memory, size, 0);
  CHECK(problem.kind == error_kind::invalid_argument);
  CHECK_THAT(problem.text, Contains("belongs to another CUDA context than the primary one"));
}

TEST_CASE("memory that was mapped in parts is accepted as far as the parts reach") {
  two_gpus test;
  CUdeviceptr address = 0;
  using map_parts = CUresult(CUdeviceptr*, std::size_t, std::size_t);
  REQUIRE(stand_in_driver::function<map_parts>("fakeMemAllocParts")(&address, 3 * size, size) ==
          CUDA_SUCCESS);
  const auto* memory = reinterpret_cast<const std::byte*>(address);
  CHECK_FALSE(test.check(memory, 3 * size, 0));
  CHECK(test.check(memory + size, 2 * size + 1, 0).kind == error_kind::invalid_argument);
  stand_in_driver::function<decltype(cuMemFree)>("cuMemFree_v2")(address);
}

TEST_CASE("the driver is asked once for tensors that are in the same memory") {
  two_gpus test;
  auto* memory = test.gpu.device_memory(4 * size);
  known_memory known;
  CHECK_FALSE(test.all->check(memory + size, size, 0, known));
  const auto asked = stand_in_driver::calls("cuPointerGetAttributes");
  CHECK_FALSE(test.all->check(memory, size, 0, known));
  CHECK_FALSE(test.all->check(memory + 3 * size, size, 0, known));
  CHECK_FALSE(test.all->check(memory + 4 * size, 0, 0, known));
  CHECK(stand_in_driver::calls("cuPointerGetAttributes") == asked);
  CHECK(test.all->check(memory + 3 * size, size + 1, 0, known).kind == error_kind::invalid_argument);
  CHECK(test.all->check(memory, size, 1, known).kind == error_kind::invalid_argument);
  CHECK_FALSE(test.all->check(test.gpu.device_memory(size), size, 0, known));
  CHECK(stand_in_driver::calls("cuPointerGetAttributes") > asked + 2);
}

TEST_CASE("a stream waits for the work that another one was given before the point, and for no more") {
  two_gpus test;
  auto* memory = test.gpu.device_memory(size);
  auto* source = test.gpu.stream();
  auto* target = test.gpu.stream();
  test.gpu.fill(memory, 1, size, source);
  const auto point = test.ready(source);
  test.gpu.fill(memory, 2, size, source);
  REQUIRE_FALSE(test.all->wait(0, target, point));
  test.gpu.fill(memory, 3, size, target);

  CHECK(test.gpu.run(target, 9) == 0);
  CHECK(test.gpu.run(source, 1) == 1);
  CHECK(test.gpu.run(target, 9) == 2);
  CHECK(is_filled(test.gpu.read(memory, size), 3));
  CHECK(test.gpu.run(source, 9) == 1);
  CHECK(is_filled(test.gpu.read(memory, size), 2));
}

TEST_CASE("a point may be released before the stream that waits for it runs, and its event records anew") {
  two_gpus test;
  auto* source = test.gpu.stream();
  auto* target = test.gpu.stream();
  auto* memory = test.gpu.device_memory(size);
  test.gpu.fill(memory, 1, size, source);
  REQUIRE_FALSE(test.all->wait(0, target, test.ready(source)));
  const auto created = stand_in_driver::calls("cuEventCreate");
  const auto later = test.ready(target);
  CHECK(stand_in_driver::calls("cuEventCreate") == created);
  CHECK(test.gpu.run(target, 1) == 0);
  CHECK(test.gpu.run_all() == 2);
}

TEST_CASE("a point outlives the devices") {
  device_point_ptr point;
  {
    two_gpus test;
    point = test.ready(test.gpu.stream());
  }
  const auto destroyed = stand_in_driver::calls("cuEventDestroy");
  point.reset();
  CHECK(stand_in_driver::calls("cuEventDestroy") == destroyed + 1);
}

TEST_CASE("a tensor that is complete has no point, and nobody waits for it") {
  two_gpus test;
  const auto point = test.all->ready_point({0, nullptr, device_readiness::complete});
  REQUIRE(point);
  CHECK(*point == nullptr);
  CHECK_FALSE(test.all->wait(0, nullptr, *point));
}

TEST_CASE("the point of a context is behind all its streams") {
  two_gpus test;
  auto* memory = test.gpu.device_memory(size);
  auto* first = test.gpu.stream();
  auto* second = test.gpu.stream();
  auto* target = test.gpu.stream();
  test.gpu.fill(memory, 1, size, first);
  test.gpu.fill(memory, 1, size, second);
  const auto point = test.all->ready_point({0, nullptr, device_readiness::context});
  REQUIRE(point);
  REQUIRE_FALSE(test.all->wait(0, target, *point));
  CHECK(test.gpu.run(first, 1) == 1);
  CHECK(test.gpu.run(target, 1) == 0);
  CHECK(test.gpu.run(second, 1) == 1);
  CHECK(test.gpu.run(target, 1) == 1);
}

TEST_CASE("a driver without cuCtxRecordEvent cannot tell when all streams are ready") {
  const variable lacks("FARANDOLE_FAKE_CUDA_LACKS", "cuCtxRecordEvent");
  const variable version("FARANDOLE_FAKE_CUDA", "12040");
  two_gpus test;
  const auto point = test.all->ready_point({0, nullptr, device_readiness::context});
  REQUIRE_FALSE(point);
  CHECK(point.error().kind == error_kind::unimplemented);
  CHECK(point.error().text ==
        "GPU 0: the NVIDIA driver, of CUDA 12.4, cannot tell when all streams are ready: it has no function "
        "cuCtxRecordEvent; install version 555 or later of the driver");
  CHECK(test.ready(test.gpu.stream()) != nullptr);
}

TEST_CASE("a stream that is being captured is refused, and its capture stays valid") {
  two_gpus test;
  auto* stream = test.gpu.stream(CU_STREAM_DEFAULT);
  auto* other = test.gpu.stream();
  const auto point = test.ready(other);
  const auto begin = stand_in_driver::function<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
  REQUIRE(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const std::string text =
      "GPU 0: its stream is being captured into a graph, which Farandole does not support; "
      "submit it outside of the capture";
  for (auto* captured :
       {stream, CUstream(nullptr)}) { // work of the default stream would join the capture, too
    const auto refused = test.all->ready_point({0, captured, device_readiness::stream});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == error_kind::unimplemented);
    CHECK(refused.error().text == text);
    CHECK(test.all->wait(0, captured, point).text == text);
  }
  CHECK(test.ready(other) != nullptr);
  CUgraph graph = nullptr;
  CHECK(stand_in_driver::function<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph) ==
        CUDA_SUCCESS);
}

TEST_CASE("all streams of a device cannot be awaited while one is being captured") {
  two_gpus test;
  auto* stream = test.gpu.stream();
  const auto begin = stand_in_driver::function<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
  REQUIRE(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const auto refused = test.all->ready_point({0, nullptr, device_readiness::context});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().text, Contains("being captured"));
}

TEST_CASE("a stream of one device waits for a point of another one") {
  two_gpus test;
  stand_in_driver second(1);
  auto* target = second.stream();
  auto* memory = second.device_memory(size);
  second.fill(memory, 1, size, target);
  auto* source = second.stream();
  const auto point = test.all->ready_point({1, target, device_readiness::stream});
  REQUIRE(point);
  auto* first = test.gpu.stream();
  REQUIRE_FALSE(test.all->wait(1, source, *point));
  REQUIRE_FALSE(test.all->wait(0, first, *point));
  CHECK(test.gpu.run(first, 1) == 0);
  CHECK(test.gpu.run(target, 1) == 1);
  CHECK(test.gpu.run(first, 1) == 1);
}

TEST_CASE("points and waits of a device that does not exist are invalid") {
  two_gpus test;
  const auto point = test.all->ready_point({2, nullptr, device_readiness::stream});
  REQUIRE_FALSE(point);
  CHECK(point.error().kind == error_kind::invalid_argument);
  CHECK(point.error().text == "there is no GPU 2: this process may use 2 (CUDA_VISIBLE_DEVICES)");
  CHECK(test.all->wait(2, nullptr, nullptr).kind == error_kind::invalid_argument);
}

TEST_CASE("a failure of the driver names the device and the function") {
  two_gpus test;
  const auto point = test.ready(nullptr);
  const std::string function = GENERATE("cuCtxPushCurrent", "cuStreamIsCapturing", "cuEventCreate",
                                        "cuEventRecord", "cuStreamWaitEvent", "cuPointerGetAttributes");
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", function);
  const auto failed = test.all->ready_point({0, nullptr, device_readiness::stream});
  std::byte local{};
  const error found = !failed                           ? failed.error()
                      : function == "cuStreamWaitEvent" ? test.all->wait(0, nullptr, point)
                                                        : test.check(&local, 1, 0);
  CHECK(found.kind == error_kind::unknown);
  CHECK(found.text == "GPU 0: " + function + " failed: CUDA_ERROR_UNKNOWN (unknown error)");
}
