#include "collectives/paths/local/notice.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

expected<taking> planned(operation what, const std::vector<notice>& all, std::uint32_t rank,
                         std::size_t row_bytes) {
  return plan_taking(what, all, rank, row_bytes);
}

} // namespace

TEST_CASE("a notice tells where a tensor stands, the place of its member, then the rows for each member") {
  std::byte tensor;
  const std::vector<std::int64_t> rows = {3, 0, 5};
  const auto words = make_notice(&tensor, {4096, 80}, rows);
  CHECK(words == notice{reinterpret_cast<std::uintptr_t>(&tensor), 4096, 80, 3, 0, 5});
  CHECK(notice_bytes(3) == 16 + (words.size() + 1) * sizeof words[0]);
}

TEST_CASE(
    "of an alltoall each member takes its rows, behind those for lower ranks, from the next member on") {
  const auto plan = planned(operation::alltoall,
                            {{1000, 0, 0, 1, 2, 3}, {2000, 0, 0, 4, 0, 1}, {3000, 0, 0, 0, 2, 2}}, 1, 10);
  REQUIRE(plan);
  CHECK(plan->rows == std::vector<std::int64_t>{2, 0, 2});
  CHECK(plan->bytes == 40);
  REQUIRE(plan->pieces.size() == 3);
  const auto is = [&](std::size_t i, std::uint32_t member, std::uint64_t from, std::size_t at,
                      std::size_t bytes) {
    const auto& piece = plan->pieces[i];
    return piece.member == member && piece.from == from && piece.at == at && piece.bytes == bytes;
  };
  CHECK(is(0, 2, 3000, 20, 20));
  CHECK(is(1, 0, 1010, 0, 20));
  CHECK(is(2, 1, 2040, 20, 0));
}

TEST_CASE("of an allgather everybody takes everything") {
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto plan = planned(operation::allgather, {{1000, 0, 0, 3, 3}, {2000, 0, 0, 1, 1}}, rank, 8);
    REQUIRE(plan);
    CHECK(plan->rows == std::vector<std::int64_t>{3, 1});
    CHECK(plan->bytes == 32);
    for (const auto& piece : plan->pieces) {
      CHECK(piece.from == (piece.member == 0 ? 1000u : 2000u));
      CHECK(piece.at == (piece.member == 0 ? 0u : 24u));
    }
  }
}

TEST_CASE("rows that cannot be are refused, with the member that offers them") {
  constexpr auto huge = std::uint64_t{1} << 62;
  const auto told = [](const expected<taking>& plan) {
    return !plan && plan.error().text.find("member 1 ") != std::string::npos;
  };
  CHECK(told(planned(operation::allgather, {{0, 0, 0, 1, 1}, {0, 0, 0, huge, huge}}, 0, 8)));
  CHECK(told(planned(operation::alltoall, {{0, 0, 0, 1, 1}, {0, 0, 0, huge, 1}}, 1, 8)));
  CHECK(told(planned(operation::alltoall, {{0, 0, 0, huge, 1}, {0, 0, 0, huge, 1}}, 0, 1)));
  CHECK(told(planned(operation::allgather, {{0, 0, 0, 1, 1}, {0, 0, 0, ~std::uint64_t{0}, 1}}, 0, 1)));
}

namespace {

/// Three members whose tensors stand at 1000, 2000 and 3000, with these places.
std::vector<notice> dealt(const std::vector<notice_place>& places) {
  std::vector<notice> all = {{1000, 0, 0, 1, 2, 3}, {2000, 0, 0, 4, 0, 1}, {3000, 0, 0, 0, 2, 2}};
  for (std::size_t member = 0; member < all.size(); ++member) {
    all[member][1] = places[member].at;
    all[member][2] = places[member].bytes;
  }
  return all;
}

bool is(const taking::gift& gift, std::uint32_t member, std::uint64_t from, std::uint64_t at,
        std::size_t bytes) {
  return gift.member == member && gift.from == from && gift.at == at && gift.bytes == bytes;
}

} // namespace

TEST_CASE("what goes to a member with a place is written there by those who have it") {
  // To 0 go 1 + 4 + 0 rows, to 1 2 + 0 + 2, to 2 3 + 1 + 2, of ten bytes.
  const auto all = dealt({{100, 50}, {200, 40}, {300, 64}});
  const auto first = planned(operation::alltoall, all, 0, 10);
  REQUIRE(first);
  CHECK(first->placed);
  REQUIRE(first->pieces.size() == 1); // its own
  CHECK(first->pieces[0].member == 0);
  CHECK(first->pieces[0].from == 1000);
  CHECK(first->pieces[0].at == 0);
  CHECK(first->pieces[0].bytes == 10);
  REQUIRE(first->gifts.size() == 2);
  CHECK(is(first->gifts[0], 1, 1010, 200, 20));
  CHECK(is(first->gifts[1], 2, 1030, 300, 30));
  const auto last = planned(operation::alltoall, all, 2, 10);
  REQUIRE(last);
  CHECK(last->pieces[0].at == 40);
  REQUIRE(last->gifts.size() == 1); // nothing for 0
  CHECK(is(last->gifts[0], 1, 3000, 220, 20));
}

TEST_CASE("giver and owner agree that a place is too small") {
  const auto all = dealt({{100, 50}, {200, 39}, {300, 0}});
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto plan = planned(operation::alltoall, all, rank, 10);
    REQUIRE(plan);
    CHECK(plan->placed == (rank == 0));
    CHECK(plan->pieces.size() == (rank == 0 ? 1 : 3));
    for (const auto& gift : plan->gifts)
      CHECK(gift.member == 0);
    CHECK(plan->gifts.size() == (rank == 1 ? 1 : 0)); // 2 has nothing for 0
  }
}

TEST_CASE("rows for another that cannot be counted are given to nobody") {
  auto all = dealt({{100, 50}, {200, 40}, {300, 64}});
  all[2][3 + 1] = std::uint64_t{1} << 62;
  const auto plan = planned(operation::alltoall, all, 0, 10);
  REQUIRE(plan);
  REQUIRE(plan->gifts.size() == 1);
  CHECK(plan->gifts[0].member == 2);
  CHECK_FALSE(planned(operation::alltoall, all, 1, 10));
}

TEST_CASE("of an allgather everybody writes all of its tensor into every place") {
  const auto plan = planned(operation::allgather, {{1000, 100, 32, 3, 3}, {2000, 200, 32, 1, 1}}, 1, 8);
  REQUIRE(plan);
  REQUIRE(plan->gifts.size() == 1);
  CHECK(is(plan->gifts[0], 0, 2000, 124, 8));
}

TEST_CASE("rows without bytes are refused too where they cannot be counted") {
  CHECK(planned(operation::allgather, {{1000, 0, 0, 3, 3}, {2000, 0, 0, 1, 1}}, 0, 0));
  // 2^64 - 1 rows would be -1 of them, and two times 2^62 … more than an extent holds.
  const auto minus_one = ~std::uint64_t{0}, half = std::uint64_t{1} << 62;
  for (const auto& rows : {std::pair(minus_one, std::uint64_t{1}), std::pair(half, half)}) {
    const auto plan =
        planned(operation::allgather,
                {{1000, 0, 0, rows.first, rows.first}, {2000, 0, 0, rows.second, rows.second}}, 0, 0);
    REQUIRE_FALSE(plan);
    CHECK(plan.error().text.find("local member") == 0);
  }
}
