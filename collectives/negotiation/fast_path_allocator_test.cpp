#include "collectives/negotiation/fast_path_allocator.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

fast_path_options options() {
  fast_path_options values;
  values.on = values.one_host = true;
  values.limit_bytes = 100;
  values.area_bytes = 400;
  values.footprint = [](std::size_t bytes) { return bytes + 50; };
  return values;
}

} // namespace

TEST_CASE("cells are placed one after the other until the area is used up") {
  fast_path_allocator allocator(options());
  CHECK(allocator.grant({}, 100, 2) == fast_path_grant{0, 100});
  CHECK(allocator.grant({}, 40, 3) == fast_path_grant{150, 40});
  CHECK(allocator.grant({}, 100, 2) == fast_path_grant{240, 100});
  CHECK(!allocator.grant({}, 10, 2));
  CHECK(allocator.used_bytes() == 390);
}

TEST_CASE("the last cell may fill the area exactly") {
  fast_path_allocator allocator(options());
  CHECK(allocator.grant({}, 100, 2));
  CHECK(allocator.grant({}, 100, 2));
  CHECK(allocator.grant({}, 50, 2) == fast_path_grant{300, 50});
  CHECK(allocator.used_bytes() == 400);
}

TEST_CASE("only a small tensor of a supported operation that is used twice, on one host, gets a cell") {
  fast_path_allocator allocator(options());
  CHECK(!allocator.grant({}, 101, 2));
  CHECK(!allocator.grant({}, 100, 1));
  signature rows;
  rows.operation = operation::allgather;
  CHECK(!allocator.grant(rows, 100, 2));
  signature adaptive;
  adaptive.reduce_op = reduce_op::adasum;
  CHECK(!allocator.grant(adaptive, 100, 2));
  auto off = options();
  off.on = false;
  CHECK(!fast_path_allocator(off).grant({}, 100, 2));
  auto hosts = options();
  hosts.one_host = false;
  CHECK(!fast_path_allocator(hosts).grant({}, 100, 2));
  CHECK(allocator.used_bytes() == 0);
}

TEST_CASE("an operation that callers run themselves gets a cell of one size for any tensor size") {
  auto running = options();
  running.collective_bytes = 40;
  running.area_bytes = std::size_t{1} << 20;
  fast_path_allocator allocator(running);
  const auto granted = [&](operation op, std::size_t bytes, std::uint64_t uses = 2) {
    signature tensor;
    tensor.operation = op;
    return allocator.grant(tensor, bytes, uses);
  };
  for (const auto op : {operation::allgather, operation::alltoall, operation::reducescatter})
    CHECK(granted(op, 4)->bytes == 40);
  for (const auto op : {operation::allreduce, operation::broadcast}) {
    CHECK(granted(op, running.limit_bytes)->bytes == running.limit_bytes);
    CHECK(granted(op, running.limit_bytes + 1)->bytes == 40);
  }
  CHECK(!granted(operation::allgather, 4, 1));
  signature adaptive;
  adaptive.reduce_op = reduce_op::adasum;
  CHECK(!allocator.grant(adaptive, 1 << 20, 2));
}

TEST_CASE("without staging memory only small tensors get cells") {
  fast_path_allocator allocator(options());
  signature rows;
  rows.operation = operation::alltoall;
  CHECK(!allocator.grant(rows, 4, 2));
  CHECK(!allocator.grant({}, options().limit_bytes + 1, 2));
}
