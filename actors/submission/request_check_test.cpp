#include "actors/submission/request_check.hpp"

#include <catch2/catch.hpp>

#include <limits>

using namespace farandole;
using numbers = std::vector<std::int64_t>;

namespace {

submission ask(operation op, shape extents) {
  submission asked;
  asked.name = "grad";
  asked.signature.operation = op;
  asked.signature.shape = std::move(extents);
  return asked;
}

error dealt(shape extents, const numbers& splits, std::int32_t members = 3) {
  auto asked = ask(operation::alltoall, std::move(extents));
  asked.splits = splits;
  return wrong_request(asked, members);
}

void says(const error& problem, error_kind kind, std::initializer_list<const char*> parts) {
  CHECK(problem.kind == kind);
  for (auto* part : parts)
    CHECK_THAT(problem.text, Catch::Contains(part));
}

} // namespace

TEST_CASE("splits are one number for each rank, none negative, and sum to the first extent") {
  CHECK_FALSE(dealt({7, 2}, {4, 0, 3}));
  CHECK_FALSE(dealt({0, 2}, {0, 0, 0}));
  CHECK_FALSE(dealt({5}, {5}, 1));
  says(dealt({7}, {4, 3}), error_kind::invalid_argument, {"grad", "2 splits", "3 ranks"});
  says(dealt({7}, {4, 3, 0, 0}), error_kind::invalid_argument, {"grad", "4 splits", "3 ranks"});
  says(dealt({7}, {9, -2, 0}), error_kind::invalid_argument, {"grad", "-2"});
  says(dealt({7}, {1, 2, 3}), error_kind::invalid_argument, {"grad", "sum to 6", "7"});
  says(dealt({7}, {1, 2, 5}), error_kind::invalid_argument, {"grad", "sum to 8", "7"});
  constexpr auto limit = std::numeric_limits<std::int64_t>::max();
  says(dealt({7}, {limit, limit, 9}), error_kind::invalid_argument, {"grad", "counted"});
  says(dealt({}, {1, 0, 0}), error_kind::invalid_argument, {"grad", "scalar"});
}

TEST_CASE("an alltoall without splits divides the first extent evenly, or is refused") {
  CHECK_FALSE(dealt({6, 5}, {}));
  CHECK_FALSE(dealt({0}, {}));
  says(dealt({7, 3}, {}), error_kind::invalid_argument, {"grad", "7", "3 ranks"});
  // The leader reports a scalar, as for an allgather, so that all ranks get the same error.
  CHECK_FALSE(dealt({}, {}));
}

TEST_CASE("splits_of returns the rows for each rank of an alltoall, also without given splits") {
  auto asked = ask(operation::alltoall, {6, 5});
  CHECK(splits_of(asked, 3) == numbers{2, 2, 2});
  const numbers given{1, 0, 5};
  asked.splits = given;
  CHECK(splits_of(asked, 3) == given);
  CHECK(splits_of(ask(operation::alltoall, {}), 3).empty());
  CHECK(splits_of(ask(operation::allgather, {6}), 3).empty());
}

TEST_CASE("only an alltoall takes splits") {
  const numbers splits{3, 3};
  auto asked = ask(operation::allgather, {6});
  asked.splits = splits;
  says(wrong_request(asked, 2), error_kind::invalid_argument, {"grad", "alltoall"});
}

TEST_CASE("Adasum needs a power of two of members and a floating-point data type") {
  auto asked = ask(operation::allreduce, {4});
  asked.signature.reduce_op = reduce_op::adasum;
  CHECK(!wrong_request(asked, 1));
  CHECK(!wrong_request(asked, 8));
  says(wrong_request(asked, 6), error_kind::unimplemented, {"grad", "not 6", "4 or 8"});
  asked.signature.dtype = dtype::int32;
  says(wrong_request(asked, 8), error_kind::invalid_argument, {"grad", "int32", "float16"});
}

TEST_CASE("reducescatter accepts every reduction but Adasum, which fails as aborted") {
  auto asked = ask(operation::reducescatter, {4, 3});
  for (auto op : {reduce_op::average, reduce_op::sum, reduce_op::min, reduce_op::max, reduce_op::product}) {
    asked.signature.reduce_op = op;
    CHECK_FALSE(wrong_request(asked, 3));
  }
  asked.signature.reduce_op = reduce_op::adasum;
  says(wrong_request(asked, 3), error_kind::aborted, {"grad", "Adasum"});
  asked.signature.dtype = dtype::boolean;
  says(wrong_request(asked, 3), error_kind::aborted, {"grad", "Adasum"});
  asked.signature.reduce_op = reduce_op::sum;
  says(wrong_request(asked, 3), error_kind::invalid_argument, {"grad", "bool"});
  says(wrong_request(ask(operation::reducescatter, {}), 3), error_kind::invalid_argument, {"grad", "scalar"});
}

TEST_CASE("a reducescatter whose output overlaps its input is refused") {
  std::vector<std::byte> memory(200);
  auto asked = ask(operation::reducescatter, {5, 2}); // 40 bytes, of which a member of three gets 8 or 16
  asked.input = memory.data() + 80;
  // 72: an earlier check assumed two rows on every member. It refused a member with one row whose output lay just
  // before its input, and the other members waited for that member for ever.
  for (auto far : {0, 64, 72, 120, 160}) {
    asked.output = memory.data() + far;
    CHECK_FALSE(wrong_request(asked, 3));
  }
  for (auto near : {76, 80, 116}) {
    asked.output = memory.data() + near;
    says(wrong_request(asked, 3), error_kind::invalid_argument, {"grad", "overlaps"});
  }
  asked.signature.shape = {0, 2};
  asked.output = memory.data() + 80;
  CHECK_FALSE(wrong_request(asked, 3));
}

TEST_CASE("no member of a group may write memory of another") {
  std::vector<std::byte> memory(200);
  const auto refused = [&](std::initializer_list<std::pair<int, int>> places, shape extents = {10},
                           operation op = operation::allreduce) { // of inputs and outputs; -1: no memory
    std::vector<submission> group;
    for (auto [input, output] : places) {
      group.push_back(ask(op, extents)); // 40 bytes
      group.back().name = group.size() == 1 ? "first" : "later";
      group.back().input = memory.data() + input;
      group.back().output = output < 0 ? nullptr : memory.data() + output;
    }
    const auto problem = wrong_group(group, 2);
    if (problem)
      says(problem, error_kind::invalid_argument, {"first", "later", "overlap"});
    return static_cast<bool>(problem);
  };
  CHECK_FALSE(refused({{0, 0}, {40, 40}, {80, 80}}));
  CHECK_FALSE(refused({{0, 80}, {0, 120}})); // the same input
  CHECK_FALSE(refused({{4, 0}, {44, 80}}));  // a member that overlaps itself
  CHECK_FALSE(refused({{0, -1}, {0, -1}}));
  CHECK_FALSE(refused({{0, 0}, {0, 0}}, {0}));
  CHECK(refused({{0, 0}, {0, 0}}));
  CHECK(refused({{0, 40}, {80, 40}}));
  CHECK(refused({{0, 0}, {76, 39}}));
  CHECK(refused({{0, 40}, {44, 120}}));
  CHECK(refused({{44, 120}, {0, 40}}));
  CHECK(refused({{36, 44}, {0, 80}}));
  CHECK(refused({{160, 0}, {19, 120}}, {10}, operation::reducescatter)); // writes 20 bytes
  CHECK_FALSE(refused({{160, 0}, {20, 120}}, {10}, operation::reducescatter));
}

TEST_CASE("a rank may contribute nothing to sums of whole tensors and to an allgather") {
  const auto absent_from = [](operation op, reduce_op reduction) {
    auto asked = ask(op, {3});
    asked.signature.reduce_op = reduction;
    asked.absent = true;
    return wrong_request(asked, 3);
  };
  CHECK_FALSE(absent_from(operation::allreduce, reduce_op::sum));
  CHECK_FALSE(absent_from(operation::allreduce, reduce_op::average));
  CHECK_FALSE(absent_from(operation::allgather, reduce_op::sum));
  for (const auto op : {reduce_op::min, reduce_op::max, reduce_op::product})
    says(absent_from(operation::allreduce, op), error_kind::invalid_argument, {"grad", "contribute nothing"});
  for (const auto op : {operation::broadcast, operation::alltoall, operation::reducescatter})
    CHECK(absent_from(op, reduce_op::sum));
}
