#include "collectives/paths/local/notice.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using notice = std::vector<std::uint64_t>;

expected<taking> planned(operation what, const std::vector<notice>& all, std::uint32_t rank,
                         std::size_t row_bytes) {
  const std::vector<notice_view> views(all.begin(), all.end());
  return plan_taking(what, views, rank, row_bytes);
}

} // namespace

TEST_CASE("a notice tells where a tensor stands, then the rows for each member") {
  std::byte tensor;
  const std::vector<std::int64_t> rows = {3, 0, 5};
  const auto words = make_notice(&tensor, rows);
  CHECK(words == notice{reinterpret_cast<std::uintptr_t>(&tensor), 3, 0, 5});
  CHECK(notice_bytes(3) == 16 + words.size() * sizeof words[0]);
}

TEST_CASE(
    "of an alltoall each member takes its rows, behind those for lower ranks, from the next member on") {
  const auto plan = planned(operation::alltoall, {{1000, 1, 2, 3}, {2000, 4, 0, 1}, {3000, 0, 2, 2}}, 1, 10);
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
    const auto plan = planned(operation::allgather, {{1000, 3, 3}, {2000, 1, 1}}, rank, 8);
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
  CHECK(told(planned(operation::allgather, {{0, 1, 1}, {0, huge, huge}}, 0, 8)));
  CHECK(told(planned(operation::alltoall, {{0, 1, 1}, {0, huge, 1}}, 1, 8)));
  CHECK(told(planned(operation::alltoall, {{0, huge, 1}, {0, huge, 1}}, 0, 1)));
  CHECK(told(planned(operation::allgather, {{0, 1, 1}, {0, ~std::uint64_t{0}, 1}}, 0, 1)));
}
