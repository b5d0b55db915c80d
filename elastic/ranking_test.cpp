#include "elastic/ranking.hpp"

#include <catch2/catch.hpp>

#include <deque>

using namespace farandole;

namespace {

/// Candidates, and what they have said.
struct field {
  std::deque<hello> said; ///< addresses stay
  std::vector<candidate> all;

  void add(std::int32_t slot, std::int32_t last_rank, std::uint64_t state_generation = 0,
           const std::string& host = "a") {
    hello value;
    value.slot = slot;
    value.state_generation = state_generation;
    value.host = host;
    value.host_name = "name of " + host;
    value.address = "10.0.0.1:" + std::to_string(slot);
    said.push_back(value);
    all.push_back({slot, last_rank, &said.back()});
  }
  std::vector<std::int32_t> slots(std::size_t limit = 100) const {
    std::vector<std::int32_t> found;
    for (const auto& member_info : ranked(all, limit))
      found.push_back(member_info.slot);
    return found;
  }
};

using slots = std::vector<std::int32_t>;

} // namespace

TEST_CASE("members of the generation before keep their order, whatever their slots") {
  field of;
  of.add(1, 2);
  of.add(7, 0);
  of.add(4, 1);
  CHECK(of.slots() == slots{7, 4, 1});
}

TEST_CASE("who is new comes behind all who were in, by slot, whatever came first") {
  field of;
  of.add(9, -1);
  of.add(0, -1);
  of.add(5, 3);
  of.add(3, -1);
  CHECK(of.slots() == slots{5, 0, 3, 9});
}

TEST_CASE("of those who are new, whoever has the training state comes first") {
  field of;
  of.add(0, -1);
  of.add(8, -1, 1);
  of.add(6, -1, 1);
  CHECK(of.slots() == slots{6, 8, 0});
}

TEST_CASE("that a member has the state moves it before nobody that was in") {
  field of;
  of.add(2, 1, 1);
  of.add(3, 0, 0);
  CHECK(of.slots() == slots{3, 2});
}

TEST_CASE("whoever is beyond the most is left out, the youngest first") {
  field of;
  of.add(1, -1);
  of.add(5, 1);
  of.add(0, -1);
  of.add(8, 0);
  CHECK(of.slots(3) == slots{8, 5, 0});
  CHECK(of.slots(1) == slots{8});
}

TEST_CASE("a member is told with its rank, what it said of itself, and its places") {
  field of;
  of.add(3, 0, 0, "a");
  of.add(1, 1, 0, "b");
  of.add(2, -1, 0, "a");
  const auto all = ranked(of.all, 100);
  REQUIRE(all.size() == 3);
  for (std::int32_t rank = 0; rank < 3; ++rank)
    CHECK(all[static_cast<std::size_t>(rank)].rank == rank);
  CHECK(all[1].host == "b");
  CHECK(all[1].host_name == "name of b");
  CHECK(all[1].address == "10.0.0.1:1");
  CHECK(all[2].local_rank == 1);
  CHECK(all[2].local_size == 2);
  CHECK(all[1].local_rank == 0);
  CHECK(all[1].local_size == 1);
  CHECK(all[1].cross_rank == 1);
  CHECK(all[1].cross_size == 2);
}
