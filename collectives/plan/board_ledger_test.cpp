#include "collectives/plan/board_ledger.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

board_options options() {
  board_options some;
  some.on = some.one_host = true;
  some.limit_bytes = 100;
  some.area_bytes = 400;
  some.footprint = [](std::size_t bytes) { return bytes + 50; };
  return some;
}

} // namespace

TEST_CASE("cells lie one behind the other until the area is used up") {
  board_ledger ledger(options());
  CHECK(ledger.grant({}, 100, 2) == board_grant{0, 100});
  CHECK(ledger.grant({}, 40, 3) == board_grant{150, 40});
  CHECK(ledger.grant({}, 100, 2) == board_grant{240, 100});
  CHECK(!ledger.grant({}, 10, 2));
  CHECK(ledger.used_bytes() == 390);
}

TEST_CASE("the last cell may fill the area") {
  board_ledger ledger(options());
  CHECK(ledger.grant({}, 100, 2));
  CHECK(ledger.grant({}, 100, 2));
  CHECK(ledger.grant({}, 50, 2) == board_grant{300, 50});
  CHECK(ledger.used_bytes() == 400);
}

TEST_CASE(
    "a cell is only for what is small, comes again and can be done on the board, by members on one host") {
  board_ledger ledger(options());
  CHECK(!ledger.grant({}, 101, 2));
  CHECK(!ledger.grant({}, 100, 1));
  signature rows;
  rows.operation = operation::allgather;
  CHECK(!ledger.grant(rows, 100, 2));
  signature adaptive;
  adaptive.reduce_op = reduce_op::adasum;
  CHECK(!ledger.grant(adaptive, 100, 2));
  auto off = options();
  off.on = false;
  CHECK(!board_ledger(off).grant({}, 100, 2));
  auto hosts = options();
  hosts.one_host = false;
  CHECK(!board_ledger(hosts).grant({}, 100, 2));
  CHECK(ledger.used_bytes() == 0);
}

TEST_CASE("a collective that callers run has a cell of one size, whatever the tensor's size") {
  auto running = options();
  running.collective_bytes = 40;
  running.area_bytes = std::size_t{1} << 20;
  board_ledger ledger(running);
  const auto asked = [&](operation what, std::size_t bytes, std::uint64_t uses = 2) {
    signature tensor;
    tensor.operation = what;
    return ledger.grant(tensor, bytes, uses);
  };
  for (const auto what : {operation::allgather, operation::alltoall, operation::reducescatter})
    CHECK(asked(what, 4)->bytes == 40);
  for (const auto what : {operation::allreduce, operation::broadcast}) {
    CHECK(asked(what, running.limit_bytes)->bytes == running.limit_bytes);
    CHECK(asked(what, running.limit_bytes + 1)->bytes == 40);
  }
  CHECK(!asked(operation::allgather, 4, 1));
  signature adaptive;
  adaptive.reduce_op = reduce_op::adasum;
  CHECK(!ledger.grant(adaptive, 1 << 20, 2));
}

TEST_CASE("without staging memory, only small tensors have cells") {
  board_ledger ledger(options());
  signature rows;
  rows.operation = operation::alltoall;
  CHECK(!ledger.grant(rows, 4, 2));
  CHECK(!ledger.grant({}, options().limit_bytes + 1, 2));
}
