#include "cuda/staged/staging.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <thread>

#include "cuda/driver/pinned_pool.hpp"
#include "cuda/driver/stand_in_testing.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

constexpr std::size_t size = 4096;

std::vector<std::byte> filled(int value, std::size_t bytes = size) {
  return std::vector<std::byte>(bytes, std::byte(value));
}

bool holds(const pinned_memory_ptr& memory, int value, std::size_t begin = 0, std::size_t bytes = size) {
  return std::ranges::all_of(memory->bytes().subspan(begin, bytes),
                             [&](std::byte byte) { return byte == std::byte(value); });
}

std::unique_ptr<staging> open(const std::shared_ptr<devices>& all, std::int32_t device) {
  return std::move(*staging::open(all, device));
}

/// The staging of one GPU, whose streams run when the test says so.
struct staged_gpu {
  variable manual{"FARANDOLE_FAKE_CUDA_STREAMS", "manual"};
  stand_in_driver gpu{0};
  std::shared_ptr<devices> all = *devices::open(stand_in_driver::path());
  std::unique_ptr<staging> copies = open(all, 0);
  CUstream out_stream = stand_in_driver::created_stream(1);
  CUstream in_stream = stand_in_driver::created_stream(0);

  pinned_memory_ptr take(std::size_t bytes = size) {
    auto memory = copies->take(bytes);
    REQUIRE(memory);
    return *memory;
  }
  device_work copy_out(std::byte* device, const pinned_memory_ptr& host, const device_point_ptr& after = {},
                       std::size_t bytes = size) {
    const staged_piece piece{device, host->bytes().data(), bytes};
    auto work = copies->copy_out({&piece, 1}, {&after, 1}, host);
    REQUIRE(work);
    return *work;
  }
  device_work copy_in(std::byte* device, const pinned_memory_ptr& host, const device_point_ptr& after = {},
                      std::size_t bytes = size) {
    const staged_piece piece{device, host->bytes().data(), bytes};
    auto work = copies->copy_in({&piece, 1}, {&after, 1}, host);
    REQUIRE(work);
    return *work;
  }
  device_point_ptr ready(CUstream stream) {
    auto point = all->ready_point({0, stream, device_readiness::stream});
    REQUIRE(point);
    return *point;
  }
  /// The error of a copy to host memory.
  error copy_error(std::byte* device, const pinned_memory_ptr& host) {
    const staged_piece piece{device, host->bytes().data(), size};
    const auto work = copies->copy_out({&piece, 1}, {}, host);
    return work ? error{} : work.error();
  }
};

} // namespace

TEST_CASE("the bytes arrive on the host, are changed there, and arrive on the device") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  test.gpu.write(memory, filled(1));
  const auto host = test.take();
  const auto out = test.copy_out(memory, host);
  test.gpu.run_all();
  CHECK(out.progress.ended());
  CHECK(holds(host, 1));

  std::ranges::fill(host->bytes(), std::byte(2));
  const auto in = test.copy_in(memory, host);
  test.gpu.run_all();
  CHECK(in.progress.ended());
  CHECK(test.gpu.read(memory, size) == filled(2));
}

TEST_CASE("managed memory is copied like memory of the device") {
  staged_gpu test;
  auto* memory = test.gpu.managed_memory(size);
  std::fill_n(memory, size, std::byte(3));
  const auto host = test.take();
  test.copy_out(memory, host);
  test.gpu.run_all();
  CHECK(holds(host, 3));
}

TEST_CASE("a copy begins behind its points, and later work of the tensor's stream waits for it") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  auto* stream = test.gpu.stream();
  test.gpu.fill(memory, 1, size, stream);
  const auto host = test.take();
  const auto out = test.copy_out(memory, host, test.ready(stream));
  REQUIRE_FALSE(test.all->wait(0, stream, out.done));
  test.gpu.fill(memory, 2, size, stream);

  CHECK(test.gpu.run(stream, 1) == 1); // fills; what follows waits for the copy
  CHECK(test.gpu.run(stream, 1) == 0);
  CHECK_FALSE(out.progress.begun());
  test.gpu.run_all();
  CHECK(out.progress.ended());
  CHECK(holds(host, 1));
  CHECK(test.gpu.read(memory, size) == filled(2));
}

TEST_CASE("a copy whose points are not reached does not begin, in either direction") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  auto* stream = test.gpu.stream();
  test.gpu.fill(memory, 1, size, stream);
  const auto point = test.ready(stream);
  const auto out = test.copy_out(memory, test.take(), point);
  const auto in = test.copy_in(memory, test.take(), point);
  CHECK(test.gpu.run(test.out_stream, 9) == 0);
  CHECK(test.gpu.run(test.in_stream, 9) == 0);
  CHECK_FALSE(out.progress.begun());
  CHECK_FALSE(in.progress.begun());
  test.gpu.run(stream, 1);
  CHECK(test.gpu.run(test.out_stream, 9) == 4);
  CHECK(test.gpu.run(test.in_stream, 9) == 4);
  CHECK(in.progress.ended());
}

TEST_CASE("progress goes from none to begun to ended, and the end is the last that the device writes") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  test.gpu.write(memory, filled(2));
  const auto host = test.take();
  std::ranges::fill(host->bytes(), std::byte(0));
  const auto out = test.copy_out(memory, host);
  CHECK_FALSE(out.progress.begun());
  test.gpu.run(test.out_stream, 1);
  CHECK(out.progress.begun());
  CHECK_FALSE(out.progress.ended());
  CHECK(holds(host, 0));
  test.gpu.run(test.out_stream, 1);
  CHECK(holds(host, 2));
  CHECK_FALSE(out.progress.ended());
  test.gpu.run(test.out_stream, 1);
  CHECK(out.progress.ended());
}

TEST_CASE("both directions make progress without each other") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(2 * size);
  const auto out = test.copy_out(memory, test.take());
  const auto in = test.copy_in(memory + size, test.take());
  test.gpu.run(test.in_stream, 9);
  CHECK(in.progress.ended());
  CHECK_FALSE(out.progress.begun());
}

TEST_CASE("pieces that are adjacent on both sides are copied at once, and empty ones not at all") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(8 * size);
  test.gpu.write(memory, filled(1, 8 * size));
  const auto host = test.take(8 * size);
  auto* to = host->bytes().data();
  std::ranges::fill(host->bytes(), std::byte(0));
  const std::vector<staged_piece> pieces{{memory, to, size},
                                         {memory + size, to + size, size},
                                         {nullptr, nullptr, 0},
                                         {memory + 3 * size, to + 2 * size, size},
                                         {memory + 4 * size, to + 4 * size, size}};
  const auto before = stand_in_driver::calls("cuMemcpyAsync");
  REQUIRE(test.copies->copy_out(pieces, {}, host));
  CHECK(stand_in_driver::calls("cuMemcpyAsync") == before + 3);
  test.gpu.run_all();
  CHECK(holds(host, 1, 0, 3 * size));
  CHECK(holds(host, 0, 3 * size, size));
  CHECK(holds(host, 1, 4 * size, size));
  CHECK(holds(host, 0, 5 * size, 3 * size));
}

TEST_CASE("pieces of two allocations are copied even if they are adjacent on both sides") {
  staged_gpu test;
  constexpr std::size_t half = 2 * size;
  auto* memory = test.gpu.device_memory(2 * half);
  test.gpu.write(memory, filled(1, 2 * half));
  CUdeviceptr second = 0;
  using divide = CUresult(CUdeviceptr, CUdeviceptr*);
  REQUIRE(stand_in_driver::function<divide>("fakeMemDivide")(reinterpret_cast<CUdeviceptr>(memory),
                                                             &second) == CUDA_SUCCESS);
  const auto host = test.take(2 * half);
  const std::vector<staged_piece> pieces{{memory, host->bytes().data(), half},
                                         {memory + half, host->bytes().data() + half, half}};
  REQUIRE(test.copies->copy_out(pieces, {}, host));
  test.gpu.run_all();
  CHECK(holds(host, 1, 0, 2 * half));
  stand_in_driver::function<decltype(cuMemFree)>("cuMemFree_v2")(second);
}

TEST_CASE("a copy of nothing is ordered and ends like any other") {
  staged_gpu test;
  const auto out = test.copies->copy_out({}, {}, nullptr);
  REQUIRE(out);
  CHECK_FALSE(out->progress.begun());
  test.gpu.run_all();
  CHECK(out->progress.ended());
}

TEST_CASE("pinned memory is aligned, never empty, and used again at its size") {
  staged_gpu test;
  const auto allocated = stand_in_driver::calls("cuMemHostAlloc");
  auto first = test.take(0);
  auto second = test.take(100'000);
  CHECK(first->bytes().size() == pinned_pool::least_bytes);
  CHECK(second->bytes().size() == 2 * pinned_pool::least_bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(first->bytes().data()) % 64 == 0);
  auto* memory = first->bytes().data();
  first.reset();
  CHECK(test.take(2 * pinned_pool::least_bytes)->bytes().data() != memory);
  CHECK(test.take(pinned_pool::least_bytes)->bytes().data() == memory);
  CHECK(stand_in_driver::calls("cuMemHostAlloc") == allocated + 3);
}

TEST_CASE("pinned memory is not used again before its copy has ended") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  const bool is_out = GENERATE(true, false);
  auto host = test.take();
  auto* address = host->bytes().data();
  const auto work = is_out ? test.copy_out(memory, host) : test.copy_in(memory, host);
  auto* stream = is_out ? test.out_stream : test.in_stream;
  host.reset();
  for (unsigned ran = 0; ran < 3; ++ran) {
    CHECK(test.take()->bytes().data() != address);
    CHECK(test.gpu.run(stream, 1) == 1);
  }
  const auto again = test.take();
  const auto also = test.take();
  CHECK((again->bytes().data() == address || also->bytes().data() == address));
}

TEST_CASE("the word of a copy in progress is not used by the next, even if nobody looks at the first") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  test.copy_out(memory, test.take());
  const auto in = test.copy_in(memory, test.take());
  test.gpu.run(test.out_stream, 9);
  CHECK_FALSE(in.progress.begun());
}

TEST_CASE("a word that is used again begins as none, and an old progress stays ended") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  auto first = test.copy_out(memory, test.take());
  test.gpu.run_all();
  const auto second = test.copy_out(memory, test.take());
  CHECK(first.progress.ended());
  CHECK_FALSE(second.progress.begun());
  first = {};
  test.take();
  const auto third = test.copy_out(memory, test.take());
  CHECK_FALSE(third.progress.begun());
}

TEST_CASE("unused pinned memory beyond the limit is freed, the least recently used first") {
  staged_gpu test;
  constexpr auto quarter = pinned_pool::most_unused_bytes / 4;
  std::vector<pinned_memory_ptr> blocks;
  for (int i = 0; i < 6; ++i)
    blocks.push_back(test.take(quarter));
  const auto* oldest = blocks.front()->bytes().data();
  const auto* newest = blocks.back()->bytes().data();
  const auto freed = stand_in_driver::calls("cuMemFreeHost");
  for (auto& block : blocks)
    block.reset();
  CHECK(stand_in_driver::calls("cuMemFreeHost") == freed);
  const auto taken = test.take(quarter);
  CHECK(taken->bytes().data() == newest);
  CHECK(stand_in_driver::calls("cuMemFreeHost") == freed + 1);
  unsigned type = 1;
  auto attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  stand_in_driver::function<decltype(cuPointerGetAttributes)>("cuPointerGetAttributes")(
      1, &attribute, &value, reinterpret_cast<CUdeviceptr>(oldest));
  CHECK(type == 0);
}

TEST_CASE("staging that ends in the middle of a copy leaves the copy its memory") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  test.gpu.write(memory, filled(1));
  auto host = test.take();
  auto* address = host->bytes().data();
  auto work = test.copy_out(memory, host);
  test.gpu.run(test.out_stream, 1);
  test.copies.reset();
  host.reset();
  CHECK_FALSE(work.progress.ended());

  auto next = open(test.all, 0);
  CHECK((*next->take(size))->bytes().data() != address);
  test.gpu.run_all();
  CHECK(work.progress.ended());
  const auto first = *next->take(size);
  const auto second = *next->take(size);
  const auto* again = first->bytes().data() == address ? first.get() : second.get();
  REQUIRE(again->bytes().data() == address);
  CHECK(again->bytes()[0] == std::byte(1));
}

TEST_CASE("devices that end before a copy has ended never free its memory") {
  std::byte* address = nullptr;
  const auto freed = stand_in_driver::calls("cuMemFreeHost");
  {
    staged_gpu test;
    auto* stream = test.gpu.stream();
    auto* memory = test.gpu.device_memory(size);
    test.gpu.fill(memory, 5, size, stream);
    const auto host = test.take();
    address = host->bytes().data();
    test.copy_out(memory, host, test.ready(stream));
  }
  CHECK(stand_in_driver::calls("cuMemFreeHost") == freed);
  const variable manual("FARANDOLE_FAKE_CUDA_STREAMS", "manual");
  stand_in_driver gpu;
  CHECK(gpu.run_all() == 5); // the tensor's fill, and four pieces of the copy
  CHECK(*address == std::byte(5));
}

TEST_CASE("work of a device that makes no progress is kept, and no call waits for it") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  const variable stuck("FARANDOLE_FAKE_CUDA_STUCK", "1");
  std::set<const std::byte*> addresses;
  for (int i = 0; i < 8; ++i) {
    const auto host = test.take();
    addresses.insert(host->bytes().data());
    CHECK_FALSE(test.copy_out(memory, host).progress.begun());
    CHECK(test.gpu.run_all() == 0);
  }
  CHECK(addresses.size() == 8);
}

TEST_CASE("staging never waits for the device, and does not ask it") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  auto* stream = test.gpu.stream();
  const auto before = stand_in_driver::synchronising_calls();
  for (int i = 0; i < 3; ++i) {
    const auto host = test.take();
    const auto out = test.copy_out(memory, host, test.ready(stream));
    const auto in = test.copy_in(memory, host, out.done);
    REQUIRE_FALSE(test.all->wait(0, stream, in.done));
    test.gpu.run_all();
    CHECK(in.progress.ended());
  }
  test.copies.reset();
  CHECK(stand_in_driver::synchronising_calls() == before);
}

TEST_CASE("memory is pinned even while another stream is captured, and the capture stays valid") {
  staged_gpu test;
  auto* stream = test.gpu.stream(CU_STREAM_DEFAULT);
  const auto begin = stand_in_driver::function<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2");
  REQUIRE(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(test.copies->take(size));
  CUgraph graph = nullptr;
  CHECK(stand_in_driver::function<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(stream, &graph) ==
        CUDA_SUCCESS);
}

TEST_CASE("a second GPU has staging of its own") {
  staged_gpu test;
  stand_in_driver second(1);
  auto* memory = second.device_memory(size);
  second.write(memory, filled(7));
  const auto copies = open(test.all, 1);
  const auto host = *copies->take(size);
  const staged_piece piece{memory, host->bytes().data(), size};
  const auto work = copies->copy_out({&piece, 1}, {}, host);
  REQUIRE(work);
  REQUIRE_FALSE(test.all->wait(0, test.gpu.stream(), work->done));
  second.run_all();
  CHECK(holds(host, 7));
}

TEST_CASE("staging of a device that does not exist, or without a stream, is an error") {
  staged_gpu test;
  const auto none = staging::open(test.all, 2);
  REQUIRE_FALSE(none);
  CHECK(none.error().text == "there is no GPU 2: this process may use 2 (CUDA_VISIBLE_DEVICES)");
  const std::string fault =
      GENERATE("cuCtxPushCurrent", "cuStreamCreateWithPriority", "cuStreamCreateWithPriority:2");
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", fault);
  const auto failed = staging::open(test.all, 0);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text ==
        "GPU 0: " + fault.substr(0, fault.find(':')) + " failed: CUDA_ERROR_UNKNOWN (unknown error)");
}

TEST_CASE("memory that cannot be pinned is an overload, after unused memory was freed") {
  staged_gpu test;
  test.take(4 * pinned_pool::least_bytes);
  const auto freed = stand_in_driver::calls("cuMemFreeHost");
  const std::string fault = GENERATE("cuMemHostAlloc:2", "cuMemHostAlloc");
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", fault);
  const auto first = test.copies->take(size);
  const auto second = test.copies->take(size);
  CHECK(bool(first) == (fault == "cuMemHostAlloc:2"));
  REQUIRE_FALSE(second);
  CHECK(second.error().kind == error_kind::overloaded);
  CHECK(second.error().text == "GPU 0: cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
  CHECK(stand_in_driver::calls("cuMemFreeHost") == freed + 1);
}

TEST_CASE("a device that has failed says so when it is asked, and one that is busy does not") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  CHECK_FALSE(test.copies->failure());
  test.copy_out(memory, test.take());
  CHECK_FALSE(test.copies->failure());
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", "cuStreamQuery");
  CHECK(test.copies->failure().text == "GPU 0: cuStreamQuery failed: CUDA_ERROR_UNKNOWN (unknown error)");
}

TEST_CASE("a call that fails in the middle of a copy fails it, and what was launched keeps its memory") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  test.gpu.write(memory, filled(1));
  test.copy_out(memory, test.take()); // so that there are words and an event
  test.gpu.run_all();
  auto host = test.take();
  auto* address = host->bytes().data();
  const auto is_used_again = [&] {
    const pinned_memory_ptr blocks[] = {test.take(), test.take(), test.take()};
    return std::ranges::any_of(blocks, [&](const auto& block) { return block->bytes().data() == address; });
  };

  SECTION("then the end is written, and the memory is used again behind it") {
    const std::string function = GENERATE("cuMemcpyAsync", "cuEventRecord");
    {
      const variable fails("FARANDOLE_FAKE_CUDA_FAILS", function);
      const auto problem = test.copy_error(memory, host);
      CHECK(problem.kind == error_kind::unknown);
      CHECK(problem.text == "GPU 0: " + function + " failed: CUDA_ERROR_UNKNOWN (unknown error)");
    }
    host.reset();
    CHECK_FALSE(is_used_again());
    CHECK_FALSE(test.copies->progress().ended());
    test.gpu.run_all();
    CHECK(is_used_again());
    CHECK(test.copies->progress().ended());
  }
  SECTION("and if the end cannot be written, the memory is never used again") {
    const std::string faults =
        GENERATE("cuMemcpyAsync,cuStreamWriteValue32:2", "cuStreamWriteValue32:2", "cuStreamWriteValue32");
    {
      const variable fails("FARANDOLE_FAKE_CUDA_FAILS", faults);
      const auto problem = test.copy_error(memory, host);
      const std::string function = faults[2] == 'M' ? "cuMemcpyAsync" : "cuStreamWriteValue32";
      CHECK(problem.text == "GPU 0: " + function + " failed: CUDA_ERROR_UNKNOWN (unknown error)");
    }
    host.reset();
    test.gpu.run_all();
    CHECK_FALSE(is_used_again());
  }
  SECTION("but if it did not begin, the memory is free") {
    const std::string function = GENERATE("cuCtxPushCurrent", "cuStreamWaitEvent");
    {
      const auto point = test.ready(test.out_stream);
      const variable fails("FARANDOLE_FAKE_CUDA_FAILS", function);
      const staged_piece piece{memory, address, size};
      const auto failed = test.copies->copy_in({&piece, 1}, {&point, 1}, host);
      REQUIRE_FALSE(failed);
      CHECK(failed.error().text == "GPU 0: " + function + " failed: CUDA_ERROR_UNKNOWN (unknown error)");
    }
    host.reset();
    CHECK(is_used_again());
  }
}

TEST_CASE("threads with staging of their own copy at the same time on running streams") {
  constexpr int threads = 4, rounds = 50;
  stand_in_driver gpu;
  const auto all = *devices::open(stand_in_driver::path());
  std::byte* memory[threads];
  for (auto& tensor : memory)
    tensor = gpu.device_memory(size);
  bool is_right[threads] = {};
  const auto work = [&](int thread) {
    const stand_in_driver own;
    const auto copies = open(all, 0);
    device_point_ptr before;
    bool right = true;
    for (int round = 0; round < rounds; ++round) {
      const auto host = *copies->take(size);
      std::ranges::fill(host->bytes(), std::byte(16 * thread + round % 16));
      const staged_piece piece{memory[thread], host->bytes().data(), size};
      const auto in = *copies->copy_in({&piece, 1}, {&before, 1}, host);
      const auto back = *copies->take(size);
      const staged_piece returned{memory[thread], back->bytes().data(), size};
      const auto out = *copies->copy_out({&returned, 1}, {&in.done, 1}, back);
      before = out.done;
      if (round % 2 == 0) // the other copies are abandoned in the middle
        continue;
      while (!out.progress.ended())
        std::this_thread::yield();
      right = right && holds(back, 16 * thread + round % 16);
    }
    is_right[thread] = right;
  };
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread)
    running.emplace_back(work, thread);
  for (auto& thread : running)
    thread.join();
  CHECK(std::ranges::all_of(is_right, [](bool right) { return right; }));
}
