#include "collectives/transport/shm/row_descriptor.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

constexpr auto huge = std::uint64_t{1} << 62;

row_descriptor descriptor_of(const row_destination& destination, const std::vector<std::int64_t>& rows) {
  return row_descriptor(0, destination, rows, rows.size());
}

/// The descriptors of three members with these destinations and with rows for each other.
std::vector<row_descriptor> descriptors_of_three(const std::vector<row_destination>& places) {
  return {descriptor_of(places[0], {1, 2, 3}), descriptor_of(places[1], {4, 0, 1}),
          descriptor_of(places[2], {0, 2, 2})};
}

std::vector<row_descriptor> without_places(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<row_descriptor> all;
  for (const auto& row : rows)
    all.push_back(descriptor_of({}, row));
  return all;
}

bool equals(const row_plan::peer_write& peer_write, std::uint32_t member, std::size_t from, std::uint64_t at,
            std::size_t bytes) {
  return peer_write.member == member && peer_write.from == from && peer_write.at == at &&
         peer_write.bytes == bytes;
}

} // namespace

TEST_CASE("a row descriptor holds the staging offset, the destination and the rows for each member") {
  const std::vector<std::int64_t> rows = {3, 0, 5};
  const row_descriptor descriptor(128, {4096, 80}, rows, 3);
  CHECK(std::vector<std::uint64_t>(descriptor.words().begin(), descriptor.words().end()) ==
        std::vector<std::uint64_t>{128, 4096, 80, 3, 0, 5});
  CHECK(descriptor.staged_at() == 128);
  CHECK(descriptor.destination().at == 4096);
  CHECK(descriptor.rows_for(2) == 5);
  CHECK(descriptor_words(3) == descriptor.words().size());
  const row_descriptor without_rows(64, {}, {}, 3);
  CHECK(without_rows.rows_for(1) == 0);
}

TEST_CASE("an alltoall plan holds the member's rows and the largest number of bytes of any member") {
  const auto plan = plan_rows(operation::alltoall, descriptors_of_three({{}, {}, {}}), 1, 10);
  REQUIRE(plan);
  CHECK(plan->rows == std::vector<std::int64_t>{2, 0, 2});
  CHECK(plan->received == std::vector<std::size_t>{20, 0, 20});
  CHECK(plan->sent == std::vector<std::size_t>{40, 0, 10});
  CHECK(plan->bytes == 40);
  CHECK(plan->longest == 40);
  CHECK_FALSE(plan->placed);
  CHECK(plan->peer_writes.empty());
}

TEST_CASE("an allgather plan gives every member the rows of all members") {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto plan = plan_rows(operation::allgather, without_places({{3, 3}, {1, 1}}), rank, 8);
    REQUIRE(plan);
    CHECK(plan->rows == std::vector<std::int64_t>{3, 1});
    CHECK(plan->received == std::vector<std::size_t>{24, 8});
    CHECK(plan->bytes == 32);
  }
}

TEST_CASE("if every member has a large enough destination, each member writes there, its own rows last") {
  // Of rows of ten bytes, member 0 gets 1 + 4 + 0, member 1 gets 2 + 0 + 2 and member 2 gets 3 + 1 + 2.
  const auto all = descriptors_of_three({{100, 50}, {200, 40}, {300, 64}});
  const auto first = plan_rows(operation::alltoall, all, 0, 10);
  REQUIRE(first);
  CHECK(first->placed);
  REQUIRE(first->peer_writes.size() == 3);
  CHECK(equals(first->peer_writes[0], 1, 10, 200, 20));
  CHECK(equals(first->peer_writes[1], 2, 30, 300, 30));
  CHECK(equals(first->peer_writes[2], 0, 0, 100, 10));
  const auto last = plan_rows(operation::alltoall, all, 2, 10);
  REQUIRE(last);
  REQUIRE(last->peer_writes.size() == 2); // no rows for member 0
  CHECK(equals(last->peer_writes[0], 1, 0, 220, 20));
  CHECK(equals(last->peer_writes[1], 2, 20, 340, 20));
}

TEST_CASE("in an allgather every member writes its whole tensor to every destination") {
  const auto plan =
      plan_rows(operation::allgather,
                std::vector{descriptor_of({100, 32}, {3, 3}), descriptor_of({200, 32}, {1, 1})}, 1, 8);
  REQUIRE(plan);
  REQUIRE(plan->peer_writes.size() == 2);
  CHECK(equals(plan->peer_writes[0], 0, 0, 124, 8));
  CHECK(equals(plan->peer_writes[1], 1, 0, 224, 8));
}

TEST_CASE("all members agree not to write directly if a destination is too small or invalid") {
  const auto places =
      GENERATE(std::vector<row_destination>{{100, 50}, {200, 39}, {300, 64}},
               std::vector<row_destination>{{100, 50}, {200, 40}, {~std::uint64_t{0} - 10, 64}},
               std::vector<row_destination>{{100, 50}, {200, 40}, {300, 0}});
  const auto all = descriptors_of_three(places);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto plan = plan_rows(operation::alltoall, all, rank, 10);
    REQUIRE(plan);
    CHECK_FALSE(plan->placed);
    CHECK(plan->peer_writes.empty());
  }
}

TEST_CASE("a member that receives no rows needs no destination") {
  const auto plan = plan_rows(
      operation::alltoall, std::vector{descriptor_of({}, {0, 1}), descriptor_of({200, 30}, {0, 2})}, 0, 10);
  REQUIRE(plan);
  CHECK(plan->placed);
}

TEST_CASE("no result heap is used if a member cannot write to result heaps") {
  const row_destination unable{row_destination::no_heap, 0};
  const auto all = std::vector{descriptor_of(unable, {0, 2}), descriptor_of({200, 30}, {0, 1})};
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    CHECK_FALSE(plan_rows(operation::alltoall, all, rank, 10)->placed);
}

TEST_CASE("impossible numbers of rows are refused, and the error names a member that announces them") {
  const auto is_refused = [](const expected<row_plan>& plan) {
    return !plan && plan.error().text.find("local member ") == 0 &&
           plan.error().text.find("which cannot be") != std::string::npos;
  };
  constexpr auto large = static_cast<std::int64_t>(huge);
  CHECK(is_refused(plan_rows(operation::allgather, without_places({{1, 1}, {large, large}}), 0, 8)));
  CHECK(is_refused(plan_rows(operation::alltoall, without_places({{1, 1}, {large, 1}}), 1, 8)));
  CHECK(is_refused(plan_rows(operation::alltoall, without_places({{large, 1}, {large, 1}}), 0, 1)));
  CHECK(is_refused(plan_rows(operation::alltoall, without_places({{large, large}, {1, 1}}), 1, 1)));
  CHECK(is_refused(plan_rows(operation::allgather, without_places({{1, 1}, {-1, 1}}), 0, 1)));
}

TEST_CASE("rows of zero bytes are refused if their number overflows") {
  CHECK(plan_rows(operation::allgather, without_places({{3, 3}, {1, 1}}), 0, 0));
  // -1 would count as 2^64 - 1 rows, and twice 2^62 rows are more than an extent can hold.
  constexpr auto half = static_cast<std::int64_t>(huge);
  CHECK_FALSE(plan_rows(operation::allgather, without_places({{-1, -1}, {1, 1}}), 0, 0));
  CHECK_FALSE(plan_rows(operation::allgather, without_places({{half, half}, {half, half}}), 0, 0));
}
