#include "collectives/fusion/group.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using names = std::vector<std::string_view>;

ready_tensor tensor(std::uint32_t id) {
  ready_tensor ready;
  ready.id = id;
  return ready;
}

} // namespace

TEST_CASE("a group's number comes from its names, not from their order") {
  CHECK(group_number(names{"a", "b"}) == group_number(names{"b", "a"}));
  CHECK(group_number(names{"a", "b"}) != group_number(names{"a", "c"}));
  CHECK(group_number(names{"a"}) != group_number(names{"a", "a"}));
  CHECK(group_number(names{}) != 0);
}

TEST_CASE("nothing of a group goes before all of it is decided") {
  group_gate gate;
  std::vector<ready_tensor> ready;
  gate.ready(7, 3, tensor(1), ready);
  gate.ready(8, 1, tensor(9), ready);
  CHECK(ready == std::vector{tensor(9)});
  ready.clear();
  gate.gone(7, 3, ready);
  CHECK(ready.empty());
  CHECK(gate.held() == 1);
  gate.ready(7, 3, tensor(2), ready);
  CHECK(ready == std::vector{tensor(1), tensor(2)});
  CHECK(gate.held() == 0);
  // The next call of the same group starts anew.
  ready.clear();
  gate.ready(7, 3, tensor(1), ready);
  CHECK(ready.empty());
}

TEST_CASE("a tensor that will not come is missed by every group that somebody named for it") {
  group_gate gate;
  std::vector<ready_tensor> ready;
  gate.ready(7, 2, tensor(1), ready);
  gate.ready(8, 3, tensor(2), ready);
  gate.ready(0, 2, tensor(3), ready);
  gate.gone(std::vector<group_claim>{{0, 2}, {8, 3}, {7, 2}}, ready);
  CHECK(ready == std::vector{tensor(1)});
  CHECK(gate.held() == 2);
}
