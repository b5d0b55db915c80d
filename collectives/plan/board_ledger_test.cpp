#include "collectives/plan/board_ledger.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

board_options options() {
  return {true, true, 100, 400, [](std::size_t bytes) { return bytes + 50; }};
}

} // namespace

TEST_CASE("cells lie one behind the other until the area is used up") {
  board_ledger ledger(options());
  CHECK(ledger.grant({}, 100, 2) == 0);
  CHECK(ledger.grant({}, 40, 3) == 150);
  CHECK(ledger.grant({}, 100, 2) == 240);
  CHECK(!ledger.grant({}, 10, 2));
  CHECK(ledger.used_bytes() == 390);
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
