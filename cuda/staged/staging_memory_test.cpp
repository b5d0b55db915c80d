// The pinned memory and the words of copies: when they are used again, and when they are freed.
#include "cuda/staged/staging_testing.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "cuda/driver/pinned_pool.hpp"

using namespace farandole;

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

  auto next = open_staging(test.all, 0);
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
