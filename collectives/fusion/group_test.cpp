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

TEST_CASE("a group's number depends on its names and not on their order") {
  CHECK(group_number(names{"a", "b"}) == group_number(names{"b", "a"}));
  CHECK(group_number(names{"a", "b"}) != group_number(names{"a", "c"}));
  CHECK(group_number(names{"a"}) != group_number(names{"a", "a"}));
  CHECK(group_number(names{}) != 0);
}

TEST_CASE("no tensor of a group is released before all of its tensors are decided") {
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
  // The next operation of the same group starts with no tensor held.
  ready.clear();
  gate.ready(7, 3, tensor(1), ready);
  CHECK(ready.empty());
}

TEST_CASE("a tensor that will not come is deducted from every group that claimed it") {
  group_gate gate;
  std::vector<ready_tensor> ready;
  gate.ready(7, 2, tensor(1), ready);
  gate.ready(8, 3, tensor(2), ready);
  gate.ready(0, 2, tensor(3), ready);
  gate.gone(std::vector<group_claim>{{0, 2}, {8, 3}, {7, 2}}, ready);
  CHECK(ready == std::vector{tensor(1)});
  CHECK(gate.held() == 2);
}
