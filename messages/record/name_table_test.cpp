#include "messages/record/name_table.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <string>
#include <thread>
#include <vector>

using namespace farandole;

namespace {

template <std::size_t slots, std::size_t bytes>
struct table_memory {
  name_table_header header{};
  std::array<name_slot, slots> slot_array{};
  std::array<char, bytes> text{};

  name_table table() { return {header, slot_array, text}; }
};

} // namespace

TEST_CASE("a name is stored once and found by its index") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  const auto weights = names.intern("weights"), bias = names.intern("bias");
  CHECK(weights != 0);
  CHECK(bias != 0);
  CHECK(weights != bias);
  CHECK(names.intern("weights") == weights);
  CHECK(names.at(weights) == "weights");
  CHECK(names.at(bias) == "bias");
  CHECK(memory.header.used_bytes == 11);
  CHECK(names.refused() == 0);
}

TEST_CASE("an empty name, and an index that no name has, are nothing") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  CHECK(names.intern("") == 0);
  CHECK(names.refused() == 0);
  for (const std::uint32_t index : {0U, 1U, 16U, 17U, 4'000'000'000U})
    CHECK(names.at(index).empty());
}

TEST_CASE("a table takes names for three quarters of its slots, and counts the others") {
  table_memory<16, 1024> memory;
  auto names = memory.table();
  for (int number = 0; number < 12; ++number)
    CHECK(names.intern("name." + std::to_string(number)) != 0);
  CHECK(names.intern("one too many") == 0);
  CHECK(names.refused() == 1);
  CHECK(names.intern("name.3") != 0);
  CHECK(names.refused() == 1);
}

TEST_CASE("names that exceed the bytes are refused, and names that still fit are taken") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  const auto first = names.intern(std::string(40, 'a'));
  CHECK(first != 0);
  CHECK(names.intern(std::string(64 << 10, 'b')) == 0);
  CHECK(names.refused() == 1);
  CHECK(names.at(first) == std::string(40, 'a'));
}

TEST_CASE("names that are refused for their length take no slots") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  for (int number = 0; number < 20; ++number)
    CHECK(names.intern(std::string(64, 'a') + std::to_string(number)) == 0);
  CHECK(names.refused() == 20);
  CHECK(names.at(names.intern("weights")) == "weights");
}

TEST_CASE("when a table is full, reserved names still fit") {
  table_memory<16, 1024> memory;
  auto names = memory.table();
  for (int number = 0; number < 20; ++number)
    names.intern("name." + std::to_string(number));
  CHECK(names.refused() == 8);
  CHECK(names.at(names.intern("rank 1 was lost", true)) == "rank 1 was lost");
  CHECK(names.intern("one too many") == 0);
}

TEST_CASE("a name fills the bytes exactly") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  const auto index = names.intern(std::string(60, 'x'));
  CHECK(names.at(index) == std::string(60, 'x'));
  CHECK(names.intern("y") == 0);
  CHECK(names.at(names.intern("last", true)) == "last");
  CHECK(names.intern("y", true) == 0);
}

TEST_CASE("a slot whose writer stopped halfway is passed over") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  const auto index = names.intern("weights");
  memory.slot_array[index - 1].state = 1;
  const auto other = names.intern("weights");
  CHECK(other != 0);
  CHECK(other != index);
  CHECK(names.at(index).empty());
  CHECK(names.at(other) == "weights");
}

TEST_CASE("a damaged slot is no name") {
  table_memory<16, 64> memory;
  auto names = memory.table();
  const auto index = names.intern("weights");
  memory.slot_array[index - 1].length = 65;
  CHECK(names.at(index).empty());
  memory.slot_array[index - 1].length = 60;
  memory.slot_array[index - 1].offset = 5;
  CHECK(names.at(index).empty());
}

TEST_CASE("threads that add the same names at once all find their names") {
  static table_memory<4096, 65536> memory; // too large for the stack of a test
  constexpr int count = 1000;
  std::array<std::vector<std::uint32_t>, 4> found;
  std::vector<std::thread> threads;
  for (auto& indices : found)
    threads.emplace_back([&indices] {
      auto names = memory.table();
      for (int number = 0; number < count; ++number)
        indices.push_back(names.intern("tensor." + std::to_string(number)));
    });
  for (auto& thread : threads)
    thread.join();
  bool all = true;
  for (const auto& indices : found)
    for (int number = 0; number < count; ++number)
      all = all && memory.table().at(indices[static_cast<std::size_t>(number)]) ==
                       "tensor." + std::to_string(number);
  CHECK(all);
  CHECK(memory.table().refused() == 0);
}
