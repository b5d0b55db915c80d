#include "elastic/stall_notices.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using tensors = std::vector<stalled_tensor>;

} // namespace

TEST_CASE("a notice is sent for each change, and repeated after the warning time", "[stalls]") {
  stall_notices leader(stall_source::leader, 60s);
  CHECK_FALSE(leader.update({}, 100s));
  const auto first = leader.update(tensors{{"a", 31s, {2}}}, 100s);
  REQUIRE(first);
  CHECK(*first == stall_notice{stall_source::leader, {{"a", 31s, {2}}}, 1});
  CHECK_FALSE(leader.update(tensors{{"a", 32s, {2}}}, 101s));
  CHECK(leader.update(tensors{{"a", 33s, {1, 2}}}, 102s));
  CHECK(leader.update(tensors{{"a", 34s, {1, 2}}, {"b", 31s, {1}}}, 103s));
  CHECK_FALSE(leader.update(tensors{{"a", 60s, {1, 2}}, {"b", 57s, {1}}}, 129s));
  CHECK(leader.update(tensors{{"a", 61s, {1, 2}}, {"b", 58s, {1}}}, 130s)); // overdue
  CHECK_FALSE(leader.update(tensors{{"a", 120s, {1, 2}}, {"b", 117s, {1}}}, 189s));
  CHECK(leader.update(tensors{{"a", 121s, {1, 2}}, {"b", 118s, {1}}}, 190s)); // repeated
}

TEST_CASE("the end of a stall is told once", "[stalls]") {
  stall_notices board(stall_source::fast_path, 60s);
  REQUIRE(board.update(tensors{{"a", 61s, {0}}}, 100s));
  const auto end = board.update({}, 101s);
  REQUIRE(end);
  CHECK(*end == stall_notice{stall_source::fast_path, {}, 0});
  CHECK_FALSE(board.update({}, 1000s));
}

TEST_CASE("a notice has the tensors that have waited longest, longest first, and counts all", "[stalls]") {
  tensors many;
  for (int number = 1; number <= 100; ++number)
    many.push_back({"t" + std::to_string(number), std::chrono::seconds(number), {0}});
  const auto notice = stall_notices(stall_source::leader, 1s).update(many, 0s);
  REQUIRE(notice);
  CHECK(notice->count == 100);
  REQUIRE(notice->tensors.size() == most_stalled_tensors);
  CHECK(notice->tensors.front().name == "t100");
  CHECK(std::ranges::is_sorted(notice->tensors, std::ranges::greater{}, &stalled_tensor::waited));
}
