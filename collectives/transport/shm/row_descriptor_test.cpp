#include "collectives/transport/shm/row_descriptor.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

constexpr auto huge = std::uint64_t{1} << 62;

row_descriptor of(const row_destination& place, const std::vector<std::int64_t>& rows) {
  return row_descriptor(0, place, rows, rows.size());
}

/// Three members with these places, and rows for each other.
std::vector<row_descriptor> dealt(const std::vector<row_destination>& places) {
  return {of(places[0], {1, 2, 3}), of(places[1], {4, 0, 1}), of(places[2], {0, 2, 2})};
}

std::vector<row_descriptor> without_places(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<row_descriptor> all;
  for (const auto& row : rows)
    all.push_back(of({}, row));
  return all;
}

bool is(const row_plan::peer_write& peer_write, std::uint32_t member, std::size_t from, std::uint64_t at,
        std::size_t bytes) {
  return peer_write.member == member && peer_write.from == from && peer_write.at == at &&
         peer_write.bytes == bytes;
}

} // namespace

TEST_CASE("a row descriptor tells what is staged, the place of its member, then the rows for each member") {
  const std::vector<std::int64_t> rows = {3, 0, 5};
  const row_descriptor told(128, {4096, 80}, rows, 3);
  CHECK(std::vector<std::uint64_t>(told.words().begin(), told.words().end()) ==
        std::vector<std::uint64_t>{128, 4096, 80, 3, 0, 5});
  CHECK(told.staged_at() == 128);
  CHECK(told.place().at == 4096);
  CHECK(told.rows_for(2) == 5);
  CHECK(descriptor_words(3) == told.words().size());
  const row_descriptor without_rows(64, {}, {}, 3);
  CHECK(without_rows.rows_for(1) == 0);
}

TEST_CASE("of an alltoall each member gets its rows, and knows the most that anyone sends") {
  const auto plan = plan_rows(operation::alltoall, dealt({{}, {}, {}}), 1, 10);
  REQUIRE(plan);
  CHECK(plan->rows == std::vector<std::int64_t>{2, 0, 2});
  CHECK(plan->received == std::vector<std::size_t>{20, 0, 20});
  CHECK(plan->sent == std::vector<std::size_t>{40, 0, 10});
  CHECK(plan->bytes == 40);
  CHECK(plan->longest == 40);
  CHECK_FALSE(plan->placed);
  CHECK(plan->peer_writes.empty());
}

TEST_CASE("of an allgather everybody gets everything") {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto plan = plan_rows(operation::allgather, without_places({{3, 3}, {1, 1}}), rank, 8);
    REQUIRE(plan);
    CHECK(plan->rows == std::vector<std::int64_t>{3, 1});
    CHECK(plan->received == std::vector<std::size_t>{24, 8});
    CHECK(plan->bytes == 32);
  }
}

TEST_CASE("where every member has a large enough place, each writes there, its own rows last") {
  // To 0 go 1 + 4 + 0 rows, to 1 2 + 0 + 2, to 2 3 + 1 + 2, of ten bytes.
  const auto all = dealt({{100, 50}, {200, 40}, {300, 64}});
  const auto first = plan_rows(operation::alltoall, all, 0, 10);
  REQUIRE(first);
  CHECK(first->placed);
  REQUIRE(first->peer_writes.size() == 3);
  CHECK(is(first->peer_writes[0], 1, 10, 200, 20));
  CHECK(is(first->peer_writes[1], 2, 30, 300, 30));
  CHECK(is(first->peer_writes[2], 0, 0, 100, 10));
  const auto last = plan_rows(operation::alltoall, all, 2, 10);
  REQUIRE(last);
  REQUIRE(last->peer_writes.size() == 2); // nothing for 0
  CHECK(is(last->peer_writes[0], 1, 0, 220, 20));
  CHECK(is(last->peer_writes[1], 2, 20, 340, 20));
}

TEST_CASE("of an allgather everybody writes all of its tensor into every place") {
  const auto plan =
      plan_rows(operation::allgather, std::vector{of({100, 32}, {3, 3}), of({200, 32}, {1, 1})}, 1, 8);
  REQUIRE(plan);
  REQUIRE(plan->peer_writes.size() == 2);
  CHECK(is(plan->peer_writes[0], 0, 0, 124, 8));
  CHECK(is(plan->peer_writes[1], 1, 0, 224, 8));
}

TEST_CASE("all members agree that some place is too small, or ends nowhere") {
  const auto places =
      GENERATE(std::vector<row_destination>{{100, 50}, {200, 39}, {300, 64}},
               std::vector<row_destination>{{100, 50}, {200, 40}, {~std::uint64_t{0} - 10, 64}},
               std::vector<row_destination>{{100, 50}, {200, 40}, {300, 0}});
  const auto all = dealt(places);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto plan = plan_rows(operation::alltoall, all, rank, 10);
    REQUIRE(plan);
    CHECK_FALSE(plan->placed);
    CHECK(plan->peer_writes.empty());
  }
}

TEST_CASE("a member to whom nothing comes needs no place") {
  const auto plan = plan_rows(operation::alltoall, std::vector{of({}, {0, 1}), of({200, 30}, {0, 2})}, 0, 10);
  REQUIRE(plan);
  CHECK(plan->placed);
}

TEST_CASE("where a member can write into no result heap, none is used") {
  const row_destination unable{row_destination::no_heap, 0};
  const auto all = std::vector{of(unable, {0, 2}), of({200, 30}, {0, 1})};
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    CHECK_FALSE(plan_rows(operation::alltoall, all, rank, 10)->placed);
}

TEST_CASE("rows that cannot be are refused, with a member that offers them") {
  const auto told = [](const expected<row_plan>& plan) {
    return !plan && plan.error().text.find("local member ") == 0 &&
           plan.error().text.find("which cannot be") != std::string::npos;
  };
  constexpr auto large = static_cast<std::int64_t>(huge);
  CHECK(told(plan_rows(operation::allgather, without_places({{1, 1}, {large, large}}), 0, 8)));
  CHECK(told(plan_rows(operation::alltoall, without_places({{1, 1}, {large, 1}}), 1, 8)));
  CHECK(told(plan_rows(operation::alltoall, without_places({{large, 1}, {large, 1}}), 0, 1)));
  CHECK(told(plan_rows(operation::alltoall, without_places({{large, large}, {1, 1}}), 1, 1)));
  CHECK(told(plan_rows(operation::allgather, without_places({{1, 1}, {-1, 1}}), 0, 1)));
}

TEST_CASE("rows without bytes are refused too where they cannot be counted") {
  CHECK(plan_rows(operation::allgather, without_places({{3, 3}, {1, 1}}), 0, 0));
  // 2^64 - 1 rows would be -1 of them, and two times 2^62 … more than an extent holds.
  constexpr auto half = static_cast<std::int64_t>(huge);
  CHECK_FALSE(plan_rows(operation::allgather, without_places({{-1, -1}, {1, 1}}), 0, 0));
  CHECK_FALSE(plan_rows(operation::allgather, without_places({{half, half}, {half, half}}), 0, 0));
}
