#include "collectives/relay/relay_branches.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

// Ranks 10 to 14; relay 11 forwards for ranks 11 and 12, relay 14 for itself.
relay_branches two() {
  return {{10, 11, 12, 13, 14}, std::vector<relay_branch>{{11, {11, 12}}, {14, {14}}}};
}

member_mask positions(std::vector<std::size_t> members) {
  member_mask mask(5);
  for (const auto member : members)
    mask.add(member);
  return mask;
}

} // namespace

TEST_CASE("a relay represents all of its branch, or the ranks of it that it names") {
  const auto branches = two();
  CHECK(*branches.find(11) == positions({1, 2}));
  CHECK(branches.named(11, {}) == positions({1, 2}));
  CHECK(branches.named(11, {{12, 1}}) == positions({2}));
  CHECK(branches.named(14, {{14, 1}}) == positions({4}));
  CHECK(branches.relayed() == positions({1, 2, 4}));
  CHECK_FALSE(branches.empty());
}

TEST_CASE("ranks of another branch, ranks outside the set, and senders that are no relay are refused") {
  const auto branches = two();
  CHECK_FALSE(branches.named(11, {{12, 2}}));
  CHECK_FALSE(branches.named(11, {{14, 1}}));
  CHECK_FALSE(branches.named(14, {{14, 2}}));
  CHECK_FALSE(branches.named(12, {}));
  CHECK_FALSE(branches.find(12));
}

TEST_CASE("without relays no member is relayed, in any order of ranks") {
  const relay_branches none({7, 2, 5}, {});
  CHECK(none.empty());
  CHECK(none.relayed().empty());
  CHECK_FALSE(none.named(7, {}));
}
