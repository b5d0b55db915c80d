#include "actors/gpu/staged_plan.hpp"

#include <catch2/catch.hpp>

#include <array>

using namespace farandole;

namespace {

/// A bundle with parts of these sizes, in place. Parts of `bytes` alone: the addresses are never read.
work bundle_of(operation kind, std::vector<std::size_t> sizes) {
  static std::array<std::byte, 1> tensors[8];
  work bundle;
  bundle.operation = kind;
  bundle.memory = memory_kind::device;
  bundle.root = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    bundle.parts.push_back({tensors[i].data(), tensors[i].data(), sizes[i]});
  return bundle;
}

using pieces = std::vector<chunk_piece>;

} // namespace

TEST_CASE("small tensors share a chunk, at offsets that are multiples of 64 bytes") {
  const auto chunks = chunks_of(bundle_of(operation::allreduce, {8, 100, 4}), 1000, 0);
  REQUIRE(chunks.size() == 1);
  CHECK(chunks[0].inputs == pieces{{0, 0, 8, 0}, {1, 0, 100, 64}, {2, 0, 4, 192}});
  CHECK(chunks[0].outputs.empty());
  CHECK(chunks[0].host_bytes == 256);
}

TEST_CASE("a large tensor is cut at whole elements, and the rest of a chunk is filled with the next tensor") {
  const auto chunks = chunks_of(bundle_of(operation::allreduce, {40, 12}), 19, 0);
  REQUIRE(chunks.size() == 4);
  CHECK(chunks[0].inputs == pieces{{0, 0, 16, 0}});
  CHECK(chunks[1].inputs == pieces{{0, 16, 16, 0}});
  CHECK(chunks[2].inputs == pieces{{0, 32, 8, 0}, {1, 0, 8, 64}});
  CHECK(chunks[3].inputs == pieces{{1, 8, 4, 0}});
}

TEST_CASE("an empty tensor keeps its place among the parts") {
  const auto chunks = chunks_of(bundle_of(operation::allreduce, {0, 4, 0}), 1000, 0);
  REQUIRE(chunks.size() == 1);
  CHECK(chunks[0].inputs == pieces{{0, 0, 0, 0}, {1, 0, 4, 0}, {2, 0, 0, 64}});
}

TEST_CASE("Adasum and operations on rows get their tensors whole") {
  auto adasum = bundle_of(operation::allreduce, {4000, 8});
  adasum.reduce_op = reduce_op::adasum;
  CHECK(chunks_of(adasum, 100, 0).size() == 1);
  CHECK(chunks_of(bundle_of(operation::allgather, {4000}), 100, 0).size() == 1);
  CHECK(chunks_of(bundle_of(operation::broadcast, {4000}), 100, 0).size() == 40);
}

TEST_CASE("a reducescatter has its own segments behind the inputs") {
  auto bundle = bundle_of(operation::reducescatter, {24, 8});
  bundle.sent = {16, 8, 4, 4};
  const auto chunks = chunks_of(bundle, 1000, 1);
  REQUIRE(chunks.size() == 1);
  CHECK(chunks[0].inputs == pieces{{0, 0, 24, 0}, {1, 0, 8, 64}});
  CHECK(chunks[0].outputs == pieces{{0, 0, 8, 128}, {1, 0, 4, 192}});
  std::array<std::byte, 256> memory;
  const auto host = host_work_of(bundle, chunks[0], memory.data());
  CHECK(host.memory == memory_kind::host);
  CHECK(host.sent == bundle.sent);
  CHECK(host.parts[1].input == memory.data() + 64);
  CHECK(host.parts[1].output == memory.data() + 192);
  const auto back = copied_in(bundle, chunks[0], memory.data(), 1);
  REQUIRE(back.size() == 2);
  CHECK(back[0].device == bundle.parts[0].output);
  CHECK(back[0].host == memory.data() + 128);
  CHECK(back[0].bytes == 8);
}

TEST_CASE("the path writes into outputs that the core allocated, and they are not copied") {
  auto bundle = bundle_of(operation::allgather, {24});
  std::array<std::byte, 48> rows;
  bundle.parts[0].output = rows.data();
  bundle.parts[0].owns_output = true;
  bundle.gathered = {24, 24};
  const auto chunks = chunks_of(bundle, 1000, 0);
  std::array<std::byte, 64> memory;
  CHECK(host_work_of(bundle, chunks[0], memory.data()).parts[0].output == rows.data());
  CHECK(copied_out(bundle, chunks[0], memory.data(), 0).size() == 1);
  CHECK(copied_in(bundle, chunks[0], memory.data(), 0).empty());
}

TEST_CASE("only the root of a broadcast copies out, and only it needs no copy back in place") {
  auto bundle = bundle_of(operation::broadcast, {16});
  const auto chunk = chunks_of(bundle, 1000, 0)[0];
  std::array<std::byte, 64> memory;
  CHECK(copied_out(bundle, chunk, memory.data(), 0).size() == 1);
  CHECK(copied_out(bundle, chunk, memory.data(), 1).empty());
  CHECK(copied_in(bundle, chunk, memory.data(), 0).empty());
  CHECK(copied_in(bundle, chunk, memory.data(), 1).size() == 1);
  std::array<std::byte, 16> apart;
  bundle.parts[0].output = apart.data();
  CHECK(copied_in(bundle, chunk, memory.data(), 0).size() == 1);
}

TEST_CASE("a member that has joined runs the same parts without tensors") {
  auto bundle = bundle_of(operation::allreduce, {16, 16});
  bundle.parts[0].input = bundle.parts[0].output = nullptr;
  const auto chunk = chunks_of(bundle, 1000, 0)[0];
  std::array<std::byte, 128> memory;
  const auto host = host_work_of(bundle, chunk, memory.data());
  REQUIRE(host.parts.size() == 2);
  CHECK(host.parts[0].input == nullptr);
  CHECK(host.parts[0].output == nullptr);
  CHECK(host.parts[0].input_bytes == 16);
  CHECK(host.parts[1].input == memory.data() + 64);
  CHECK(copied_out(bundle, chunk, memory.data(), 0).size() == 1);
  CHECK(copied_in(bundle, chunk, memory.data(), 0).size() == 1);
}
