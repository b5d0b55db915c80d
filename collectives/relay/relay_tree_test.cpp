#include "collectives/relay/relay_tree.hpp"

#include <catch2/catch.hpp>

#include <numeric>
#include <string>

using namespace farandole;

namespace {

// A job of `hosts` hosts with `number` ranks each, one host after the other, or dealt out in turn.
struct job {
  job(std::int32_t hosts, std::int32_t number, bool dealt = false) {
    for (std::int32_t host = 0; host < hosts; ++host)
      names.push_back("host" + std::to_string(host));
    for (std::int32_t rank = 0; rank < hosts * number; ++rank)
      of_rank.push_back(names[static_cast<std::size_t>(dealt ? rank % hosts : rank / number)]);
  }
  std::vector<std::string> names;
  std::vector<std::string_view> of_rank;
};

// Checks that every rank but 0 is below rank 0 exactly once, and that all queries agree on its place.
void check_whole(const relay_tree& tree) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(tree.members()));
  std::iota(all.begin(), all.end(), 0);
  CHECK(tree.subtree(0) == all);
  CHECK(tree.parent(0) == -1);
  CHECK(tree.branch(0, 0) == -1);
  for (std::int32_t rank = 1; rank < tree.members(); ++rank) {
    const auto parent = tree.parent(rank);
    const auto siblings = tree.children(parent);
    REQUIRE(std::count(siblings.begin(), siblings.end(), rank) == 1);
    REQUIRE(tree.branch(parent, rank) == rank);
    REQUIRE(tree.below(parent, rank));
    REQUIRE(!tree.below(rank, parent));
    REQUIRE(tree.below(tree.branch(0, rank), rank));
  }
}

} // namespace

TEST_CASE("small jobs and jobs on one host have no relays") {
  const relay_options always{1, 16};
  for (const auto& tree : {relay_tree(5), relay_tree(job(1, 5).of_rank, always),
                           relay_tree(job(5, 1).of_rank, {6, 16}), relay_tree(job(5, 1).of_rank, {0, 16})}) {
    CHECK(!tree.relays());
    CHECK(tree.children(0).size() == 4);
    check_whole(tree);
  }
  CHECK(relay_tree(1).children(0).empty());
}

TEST_CASE("the first rank of a host relays for it, and the second rank on the leader's host") {
  const relay_tree tree(job(3, 4, true).of_rank, {12, 16});
  CHECK(tree.relays());
  check_whole(tree);
  CHECK(tree.subtree(1) == std::vector<std::int32_t>{1, 4, 7, 10});
  CHECK(tree.parent(1) == 0);
  CHECK(tree.parent(10) == 1);
  CHECK(tree.parent(3) == 0);
  CHECK(tree.parent(9) == 3);
  CHECK(tree.subtree(3) == std::vector<std::int32_t>{3, 6, 9});
  CHECK(tree.children(0).size() == 3);
  CHECK(tree.branch(0, 8) == 2);
  CHECK(tree.branch(1, 8) == -1);
  CHECK(!tree.below(0, 12));
}

TEST_CASE("a leader with one other rank on its host has that rank and the relays as children") {
  const relay_tree tree(job(3, 2).of_rank, {1, 16});
  check_whole(tree);
  const auto below = tree.children(0);
  CHECK(std::vector<std::int32_t>(below.begin(), below.end()) == std::vector<std::int32_t>{1, 2, 4});
  CHECK(tree.children(1).empty());
}

TEST_CASE("no rank has more than 16 hosts besides its own below it, in a job of any size") {
  for (const std::int32_t hosts : {2, 17, 18, 100, 512, 1000}) {
    INFO(hosts << " hosts");
    const relay_tree tree(job(hosts, 8).of_rank, {1, 16});
    check_whole(tree);
    std::int32_t deepest = 0;
    for (std::int32_t rank = 0; rank < tree.members(); ++rank) {
      REQUIRE(tree.children(rank).size() <= 16 + 7);
      std::int32_t depth = 0;
      for (auto above = tree.parent(rank); above >= 0; above = tree.parent(above))
        ++depth;
      deepest = std::max(deepest, depth);
    }
    CHECK(deepest <= 4);
    // The ranks of a subtree are contiguous.
    for (auto child : tree.children(0)) {
      const auto ranks = tree.subtree(child);
      REQUIRE(ranks.back() - ranks.front() + 1 == static_cast<std::int32_t>(ranks.size()));
    }
  }
}
