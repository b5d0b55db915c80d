#include "collectives/transport/shm/result_memory.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <thread>

using namespace farandole;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::shared_ptr<shared_result_heap> heap_of(std::size_t bytes) {
  const auto shared = std::move(*make_sealed("result heap", bytes));
  return *shared_result_heap::open(shared.get(), 0, bytes);
}

} // namespace

TEST_CASE("a released block is handed out again with its content", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  auto first = memory->take(3 * mib + 5);
  REQUIRE(first);
  std::memset(first.get(), 7, 3 * mib + 5);
  const auto* data = first.get();
  CHECK(memory->kept() == 0);
  first.reset();
  CHECK(memory->kept() >= 3 * mib + 5);
  auto second = memory->take(3 * mib);
  CHECK(second.get() == data);
  CHECK(second[3 * mib - 1] == std::byte{7});
  CHECK(memory->kept() == 0);
}

TEST_CASE("a spare block is reused for a result of half its size, not for a smaller one", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  auto* data = memory->take(4 * mib).get(); // released at once
  const auto small = memory->take(1 * mib);
  CHECK(small.get() != data);
  const auto half = memory->take(2 * mib);
  CHECK(half.get() == data);
}

TEST_CASE("the memory holds no more bytes than were once in use, and no more spare bytes than its limit",
          "[result_memory]") {
  auto memory = std::make_shared<result_memory>(8 * mib);
  auto block = memory->take(6 * mib), two = memory->take(6 * mib);
  block.reset();
  two.reset();
  CHECK(memory->kept() == 6 * mib);
  auto large = memory->take(12 * mib); // 12 MiB in use, the maximum so far: no room for spare blocks
  auto small = memory->take(1 * mib);
  small.reset();
  CHECK(memory->kept() <= 1 * mib);
  large.reset();
  CHECK(memory->kept() <= 8 * mib);
}

TEST_CASE("small results are not kept", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  memory->take(0).reset();
  memory->take(1000).reset();
  CHECK(memory->kept() == 0);
}

TEST_CASE("an allocation that fails returns null", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  CHECK_FALSE(memory->take(SIZE_MAX));
}

TEST_CASE("blocks can be released by any thread, also after all other users are gone", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  auto last = memory->take(2 * mib);
  auto* home = memory.get();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([home] {
      for (std::size_t round = 1; round < 50; ++round) {
        if (auto own = home->take(round * 64 * 1024))
          own[round] = std::byte{1};
      }
    });
  for (auto& thread : threads)
    thread.join();
  memory.reset();
  last.reset();
}

TEST_CASE("a block of a result heap is reused for that result heap only", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  const auto heap = heap_of(64 * mib), other = heap_of(64 * mib);
  const auto* data = memory->take(4 * mib, heap).get(); // released at once
  CHECK(memory->take(4 * mib).get() != data);
  CHECK(memory->take(4 * mib, other).get() != data);
  CHECK(memory->take(4 * mib, heap).get() == data);
}

TEST_CASE("an abandoned block is neither kept nor handed out again", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  const auto whole = heap_of(8 * mib);
  auto block = memory->take(4 * mib, whole);
  REQUIRE(block);
  const auto* data = block.get();
  result_memory::abandon(std::move(block));
  CHECK(memory->kept() == 0);
  const auto next = memory->take(4 * mib, whole);
  REQUIRE(next);
  CHECK(next.get() != data);
  CHECK_FALSE(memory->take(4 * mib, whole));
}

TEST_CASE("a result outlives the other users of its memory and of its result heap", "[result_memory]") {
  auto memory = std::make_shared<result_memory>();
  auto whole = heap_of(8 * mib);
  auto block = memory->take(4 * mib, std::move(whole));
  memory.reset();
  block[4 * mib - 1] = std::byte{3};
  CHECK(block[4 * mib - 1] == std::byte{3});
}
