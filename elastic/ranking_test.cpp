#include "elastic/ranking.hpp"

#include <catch2/catch.hpp>

#include <deque>

using namespace farandole;

namespace {

/// Candidates with their hellos.
struct candidates {
  std::deque<hello> hellos; ///< a deque keeps the addresses of its elements
  std::vector<candidate> all;

  void add(std::int32_t slot, std::int32_t last_rank, std::uint64_t state_generation = 0,
           const std::string& host = "a") {
    hello value;
    value.slot = slot;
    value.state_generation = state_generation;
    value.host = host;
    value.host_name = "name of " + host;
    value.address = "10.0.0.1:" + std::to_string(slot);
    hellos.push_back(value);
    all.push_back({slot, last_rank, &hellos.back()});
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

TEST_CASE("members of the previous generation keep their order, independent of their slots") {
  candidates members;
  members.add(1, 2);
  members.add(7, 0);
  members.add(4, 1);
  CHECK(members.slots() == slots{7, 4, 1});
}

TEST_CASE("new members rank after all former members, by slot") {
  candidates members;
  members.add(9, -1);
  members.add(0, -1);
  members.add(5, 3);
  members.add(3, -1);
  CHECK(members.slots() == slots{5, 0, 3, 9});
}

TEST_CASE("among new members, those with the training state rank first") {
  candidates members;
  members.add(0, -1);
  members.add(8, -1, 1);
  members.add(6, -1, 1);
  CHECK(members.slots() == slots{6, 8, 0});
}

TEST_CASE("having the state does not move a member before former members") {
  candidates members;
  members.add(2, 1, 1);
  members.add(3, 0, 0);
  CHECK(members.slots() == slots{3, 2});
}

TEST_CASE("members beyond the limit are left out, the newest first") {
  candidates members;
  members.add(1, -1);
  members.add(5, 1);
  members.add(0, -1);
  members.add(8, 0);
  CHECK(members.slots(3) == slots{8, 5, 0});
  CHECK(members.slots(1) == slots{8});
}

TEST_CASE("a ranked member has its rank, its own data, and its local and cross ranks") {
  candidates members;
  members.add(3, 0, 0, "a");
  members.add(1, 1, 0, "b");
  members.add(2, -1, 0, "a");
  const auto all = ranked(members.all, 100);
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
