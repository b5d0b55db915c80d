#include "actors/process_set/bundle_builder.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using numbers = std::vector<std::int64_t>;
using sizes = std::vector<std::size_t>;

namespace {

operation_state_ptr submitted(operation op, shape extents, numbers splits = {}) {
  auto operation = operation_state_ptr::make();
  operation->name = "t";
  operation->signature.operation = op;
  operation->signature.shape = std::move(extents);
  operation->bytes = static_cast<std::size_t>(element_count(operation->signature.shape)) * sizeof(float);
  operation->splits = std::move(splits);
  return operation;
}

bundle scheduled(operation op, std::vector<bundle_entry> entries) {
  bundle result;
  result.sequence = 5;
  result.operation = op;
  result.entries = std::move(entries);
  return result;
}

work built(const bundle_builder& builder, const bundle& bundle, std::vector<operation_state_ptr> operations) {
  auto task = builder.build(bundle, std::move(operations), false);
  REQUIRE(task);
  return (*task)->bundle;
}

std::string refusal_of(const bundle& bundle, std::vector<operation_state_ptr> operations,
                       bool joined = false) {
  auto task = bundle_builder(0, 2).build(bundle, std::move(operations), joined);
  return task ? "" : task.error().text;
}

} // namespace

TEST_CASE("a reducescatter of an uneven number of rows gives one more row to each of the first members") {
  const auto bundle = scheduled(operation::reducescatter, {{1, "", 14, {}, 0}, {2, "", 2, {}, 0}});
  auto seven = submitted(operation::reducescatter, {7, 2}),
       operation = submitted(operation::reducescatter, {1, 2});
  std::vector<std::byte> memory(16);
  operation->output = memory.data();
  const auto bundle_work = built(bundle_builder(1, 3), bundle, {seven, operation});
  CHECK(bundle_work.sequence == 5);
  CHECK(bundle_work.sent == sizes{24, 16, 16, 8, 0, 0});
  CHECK(seven->outcome.first_dims == numbers{2});
  CHECK(operation->outcome.first_dims == numbers{0});
  CHECK(bundle_work.parts[0].output == nullptr);
  CHECK(bundle_work.parts[1].output == memory.data());
  CHECK(bundle_work.parts[0].input_bytes == 56);
}

TEST_CASE("an alltoall sends rows by its caller's splits, and gets its output later") {
  const auto bundle = scheduled(operation::alltoall, {{1, "", 99, {}, 0}});
  auto own = submitted(operation::alltoall, {4, 3}, {3, 0, 1});
  std::vector<std::byte> memory(48);
  own->output = memory.data();
  const auto bundle_work = built(bundle_builder(2, 3), bundle, {own});
  CHECK(bundle_work.sent == sizes{36, 0, 12});
  CHECK(bundle_work.received.empty());
  CHECK(bundle_work.parts[0].input_bytes == 48);
  CHECK(bundle_work.parts[0].output == nullptr);
}

TEST_CASE("an allgather takes its sizes from the schedule") {
  const auto bundle = scheduled(operation::allgather, {{1, "", 9, {1, 2}, 3}, {2, "", 1, {0, 1}, 1}});
  auto rows = submitted(operation::allgather, {1, 3}), none = submitted(operation::allgather, {0});
  CHECK(built(bundle_builder(0, 2), bundle, {rows, none}).gathered == sizes{12, 24, 0, 4});
  CHECK(rows->outcome.first_dims == numbers{1, 2});
}

TEST_CASE("a joined member takes part with null tensors, but only in operations that zeros do not change") {
  const auto sum = scheduled(operation::allreduce, {{1, "", 3, {}, 0}});
  auto task = bundle_builder(0, 2).build(sum, {operation_state_ptr()}, true);
  REQUIRE(task);
  CHECK((*task)->bundle.parts[0].input_bytes == 12);
  CHECK_THAT(refusal_of(sum, {operation_state_ptr()}),
             Catch::Contains("bundle 5") && Catch::Contains("not submitted"));
  const auto dealt = scheduled(operation::alltoall, {{0, "deal", 3, {}, 0}});
  CHECK_THAT(refusal_of(dealt, {operation_state_ptr()}, true), Catch::Contains("deal"));
}

TEST_CASE("a schedule that does not fit the submitted operations is refused") {
  const auto sum = scheduled(operation::allreduce, {{1, "", 3, {}, 0}});
  CHECK_THAT(refusal_of(sum, {submitted(operation::reducescatter, {3})}), Catch::Contains("reducescatter"));
  const auto deal = scheduled(operation::alltoall, {{1, "", 2, {}, 0}, {2, "", 2, {}, 0}});
  CHECK_THAT(refusal_of(deal, {submitted(operation::alltoall, {2}, {1, 1}),
                               submitted(operation::alltoall, {2}, {1, 1})}),
             Catch::Contains("alone"));
  const auto gather = scheduled(operation::allgather, {{1, "", 4, {1, 1}, 2}});
  CHECK_THAT(refusal_of(gather, {submitted(operation::allgather, {1, 3})}), Catch::Contains("[1, 3]"));
  CHECK_THAT(refusal_of(gather, {submitted(operation::allgather, {})}), Catch::Contains("rows"));
}

TEST_CASE("a member that is absent from an allreduce contributes no rows to the allgather of the others") {
  auto bundle = scheduled(operation::allgather, {{0, "t", 14, {7, 0}, 2}});
  bundle.dtype = dtype::int64;
  auto away = submitted(operation::allreduce, {50, 4});
  std::vector<std::byte> memory(800);
  away->input = away->output = memory.data();
  CHECK(refusal_of(bundle, {away}) ==
        "bundle 5 names tensor t, which this rank has submitted as allreduce of float32");
  away->absent = true;
  const auto bundle_work = built(bundle_builder(1, 2), bundle, {away});
  CHECK(bundle_work.parts[0].input_bytes == 0);
  CHECK(bundle_work.parts[0].output == nullptr);
  CHECK(bundle_work.gathered == sizes{112, 0});
  CHECK(away->outcome.kind == result_kind::rows);
  CHECK(away->outcome.first_dims == numbers{7, 0});
  CHECK(away->outcome.row_elements == 2);
  CHECK(away->outcome.dtype == dtype::int64);
}

TEST_CASE(
    "a member that is absent from an allgather contributes its rows, or none if the others gather indices") {
  auto away = submitted(operation::allgather, {3, 2});
  std::vector<std::byte> memory(24);
  away->input = memory.data();
  away->absent = true;
  auto bundle = scheduled(operation::allgather, {{0, "t", 20, {7, 3}, 2}});
  SECTION("values") {
    const auto bundle_work = built(bundle_builder(1, 2), bundle, {away});
    CHECK(bundle_work.parts[0].input == memory.data());
    CHECK(bundle_work.parts[0].input_bytes == 24);
    CHECK(away->outcome.kind == result_kind::requested);
  }
  SECTION("indices") {
    bundle.dtype = dtype::int64;
    bundle.entries = {{0, "t", 7, {7, 0}, 1}};
    const auto bundle_work = built(bundle_builder(1, 2), bundle, {away});
    CHECK(bundle_work.parts[0].input_bytes == 0);
    CHECK(bundle_work.gathered == sizes{56, 0});
    CHECK(away->outcome.kind == result_kind::rows);
    CHECK(away->outcome.row_elements == 1);
  }
}

TEST_CASE("a member that is absent from an allreduce takes part in the allreduce of the others") {
  auto away = submitted(operation::allreduce, {4});
  std::vector<std::byte> memory(16);
  away->input = away->output = memory.data();
  away->absent = true;
  const auto bundle_work =
      built(bundle_builder(1, 2), scheduled(operation::allreduce, {{0, "t", 4, {}, 0}}), {away});
  CHECK(bundle_work.parts[0].input == memory.data());
  CHECK(bundle_work.parts[0].output == memory.data());
  CHECK(away->outcome.kind == result_kind::requested);
}
