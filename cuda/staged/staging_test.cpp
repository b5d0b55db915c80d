#include "cuda/staged/staging_testing.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>

using namespace farandole;

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

TEST_CASE("a second GPU has staging of its own") {
  staged_gpu test;
  stand_in_driver second(1);
  auto* memory = second.device_memory(size);
  second.write(memory, filled(7));
  const auto copies = open_staging(test.all, 1);
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

TEST_CASE("a device that has failed says so when it is asked, and one that is busy does not") {
  staged_gpu test;
  auto* memory = test.gpu.device_memory(size);
  CHECK_FALSE(test.copies->failure());
  test.copy_out(memory, test.take());
  CHECK_FALSE(test.copies->failure());
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", "cuStreamQuery");
  CHECK(test.copies->failure().text == "GPU 0: cuStreamQuery failed: CUDA_ERROR_UNKNOWN (unknown error)");
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
    const auto copies = open_staging(all, 0);
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
