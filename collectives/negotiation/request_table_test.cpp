#include "collectives/negotiation/request_table.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

/// The table of members 0, 1 and 2 of a set whose ranks do not ascend.
request_table three() {
  return request_table({7, 2, 5});
}

request ask(std::vector<std::int64_t> shape, operation op = operation::allreduce) {
  request result;
  result.signature.operation = op;
  result.signature.shape = std::move(shape);
  return result;
}

request gather(std::vector<std::int64_t> shape) {
  return ask(std::move(shape), operation::allgather);
}

member_mask only(std::vector<std::size_t> members) {
  member_mask mask(3);
  for (const auto member : members)
    mask.add(member);
  return mask;
}

/// A row with an id, which `members` have requested by the id.
request_table::row_id known_row(request_table& rows, std::string_view name,
                                std::vector<std::int32_t> members) {
  const auto row = rows.open(name);
  rows.tie(row, 1);
  for (const auto member : members)
    rows.add_known(row, member, 0ns);
  return row;
}

using count = request_table::count;

} // namespace

TEST_CASE("clearing a row drops its requests, and its place is used again") {
  auto rows = three();
  const auto row = rows.open("a");
  CHECK(rows.open("a") == row);
  rows.add(row, 0, gather({2, 3}), 0ns);
  CHECK(rows.written(row)->first_dims() == std::vector<std::int64_t>{2, 0, 0});
  rows.withdraw(row, 7);
  rows.clear(row);
  CHECK_FALSE(rows.find("a"));
  REQUIRE(rows.open("b") == row);
  CHECK(rows.add(row, 0, ask({2}), 0ns) == count::waiting);
  CHECK(rows.written(row)->first_dims().empty());
  CHECK_FALSE(rows.withdrawn(row));
  CHECK(rows.open("c") != row);
}

TEST_CASE("a row with an id stays while no member waits in it, until it loses its id") {
  auto rows = three();
  const auto idle = rows.open("a");
  rows.tie(idle, 1);
  CHECK(rows.find("a") == idle);
  rows.add_known(idle, 0, 0ns);
  rows.clear(idle);
  CHECK(rows.find("a") == idle);
  rows.tie(idle, 0);
  CHECK_FALSE(rows.find("a"));
  CHECK(rows.open("b") == idle);
}

TEST_CASE("a row that loses its id while a member waits in it stays until it is cleared") {
  auto rows = three();
  const auto row = known_row(rows, "a", {0});
  rows.tie(row, 0);
  CHECK(rows.find("a") == row);
  rows.clear(row);
  CHECK_FALSE(rows.find("a"));
}

TEST_CASE("the signature of each member's request is kept, even if only the first dimensions differ") {
  auto rows = three();
  rows.open("another");
  rows.open("one more");
  const auto row = rows.open("a");
  rows.add(row, 0, gather({2, 3}), 0ns);
  rows.add(row, 1, gather({4, 3}), 0ns);
  CHECK(rows.written(row)->signature_of(0) == gather({2, 3}).signature);
  CHECK(rows.written(row)->signature_of(1) == gather({4, 3}).signature);
  CHECK_FALSE(rows.written(row)->signature_of(1) == gather({2, 3}).signature);
  CHECK(rows.add(row, 2, gather({4, 3}), 0ns) == count::complete);
  CHECK_FALSE(rows.disagreement(row));
}

TEST_CASE("only a gather of rows has first dimensions") {
  auto rows = three();
  rows.add(rows.open("sum"), 0, ask({2, 3}), 0ns);
  CHECK(rows.written(*rows.find("sum"))->first_dims().empty());
  rows.add(rows.open("scalar"), 0, gather({}), 0ns);
  CHECK(rows.written(*rows.find("scalar"))->first_dims().empty());
}

TEST_CASE("a scalar among gathered rows disagrees in the number of dimensions") {
  auto rows = three();
  const auto row = rows.open("a");
  rows.add(row, 0, gather({2}), 0ns);
  rows.add(row, 1, gather({}), 0ns);
  rows.add(row, 2, gather({2}), 0ns);
  CHECK(rows.written(row)->first_dims() == std::vector<std::int64_t>{2, 0, 2});
  CHECK_THAT(rows.disagreement(row).text, Catch::Contains("rank 7 has [2], rank 2 has []"));
}

TEST_CASE("the requests of many members added at once are all recorded") {
  auto rows = three();
  const auto row = rows.open("a");
  rows.add(row, 0, ask({1}), 0ns);
  CHECK(rows.add(row, only({1, 2}), ask({2}), 0ns) == count::complete);
  CHECK(rows.written(row)->signature_of(1) == ask({2}).signature);
  CHECK(rows.written(row)->signature_of(2) == ask({2}).signature);
}

TEST_CASE("take_out removes requests by id, and keeps requests in full and withdrawn rows") {
  auto rows = three();
  const auto by_id = known_row(rows, "a", {0, 2});
  CHECK(rows.take_out(by_id) == std::vector<std::int32_t>{7, 5});
  CHECK_FALSE(rows.busy(by_id));
  CHECK_FALSE(rows.asked().has(by_id, 0));
  const auto in_full = rows.open("b");
  rows.add(in_full, 1, ask({1}), 0ns);
  CHECK(rows.take_out(in_full).empty());
  CHECK(rows.asked().has(in_full, 1));
  const auto taken_back = known_row(rows, "c", {0, 1});
  CHECK(rows.withdraw(taken_back, 7) == std::vector<std::int32_t>{7, 2});
  CHECK(rows.take_out(taken_back).empty());
  CHECK(rows.asked().has(taken_back, 1));
}

TEST_CASE("a withdrawn row names the rank that withdrew it until the row is cleared") {
  auto rows = three();
  const auto row = known_row(rows, "a", {0, 1});
  CHECK_FALSE(rows.withdrawn(row));
  rows.withdraw(row, 7);
  REQUIRE(rows.withdrawn(row));
  CHECK(rows.withdrawn(row)->rank() == 7);
  rows.clear(row);
  CHECK_FALSE(rows.withdrawn(row));
}

TEST_CASE("a join completes rows in the order of their first requests") {
  auto rows = three();
  const auto a = known_row(rows, "a", {});
  const auto b = known_row(rows, "b", {});
  const auto c = known_row(rows, "c", {});
  const auto waits = known_row(rows, "waits for another", {1});
  for (const auto row : {c, a, b})
    for (const auto member : {1, 2})
      rows.add_known(row, member, 0ns);
  CHECK(rows.join(0) == std::vector<request_table::row_id>{c, a, b});
  CHECK(rows.join(0).empty());
  CHECK(rows.joined().count() == 1);
  CHECK(rows.join(2) == std::vector<request_table::row_id>{waits});
}

TEST_CASE("a row that was taken out while one member was missing is not completed by a join") {
  auto rows = three();
  const auto row = known_row(rows, "a", {1, 2});
  rows.take_out(row);
  CHECK(rows.join(0).empty());
}

TEST_CASE("a member that has joined counts once, whether or not it requests the tensor") {
  auto rows = three();
  rows.join(0);
  const auto row = known_row(rows, "a", {});
  CHECK(rows.add_known(row, 0, 0ns) == count::waiting);
  CHECK(rows.add_known(row, 0, 0ns) == count::repeated);
  CHECK(rows.add_known(row, 1, 0ns) == count::waiting);
  CHECK(rows.add_known(row, 2, 0ns) == count::complete);
  rows.leave_join();
  rows.clear(row);
  CHECK(rows.add_known(row, only({1, 2}), 0ns) == count::waiting);
  CHECK(rows.add_known(row, 0, 0ns) == count::complete);
}

TEST_CASE("a member that has joined is not named among those that disagree") {
  auto rows = three();
  rows.join(0);
  const auto row = rows.open("a");
  rows.add(row, 1, ask({1}), 0ns);
  CHECK(rows.add(row, 2, ask({2}), 0ns) == count::complete);
  CHECK_THAT(rows.disagreement(row).text, Catch::Contains("rank 2 has [1], rank 5 has [2]"));
}

TEST_CASE("a row without requests in full is checked against the signature of its id") {
  auto rows = three();
  rows.join(0);
  const auto row = known_row(rows, "a", {1, 2});
  const auto summed = ask({2}).signature;
  CHECK_FALSE(rows.disagreement(row, &summed));
  const auto gathered = gather({2}).signature;
  CHECK_THAT(rows.disagreement(row, &gathered).text,
             Catch::Contains("not supported with join: rank 7 joined already"));
}

TEST_CASE("stalled rows are reported oldest first, with their missing ranks") {
  auto rows = three();
  const auto later = rows.open("later");
  rows.add(rows.open("first"), 2, ask({1}), 1s);
  rows.add(later, 0, ask({1}), 2s);
  const auto taken_back = rows.open("taken back");
  rows.add(taken_back, 0, ask({1}), 1s);
  rows.withdraw(taken_back, 7);
  CHECK(rows.stalled(11s, 10s).empty());
  const std::vector<stalled_tensor> both{{"first", 11s, {2, 7}}, {"later", 10s, {2, 5}}};
  CHECK(rows.stalled(12s, 9s) == both);
  rows.join(1);
  CHECK(rows.stalled(12s, 10s) == std::vector<stalled_tensor>{{"first", 11s, {7}}});
}
