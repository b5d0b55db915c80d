#include "elastic/stall_text.hpp"

#include <catch2/catch.hpp>

#include <numeric>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using tensors = std::vector<stalled_tensor>;
using lines = std::vector<std::string>;

std::vector<std::int32_t> first_ranks(std::int32_t count) {
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

} // namespace

TEST_CASE("stalls are listed by missing rank, with at most six names, and overdue ones are marked",
          "[stalls]") {
  tensors stalls;
  for (int i = 0; i < 7; ++i)
    stalls.push_back({"t" + std::to_string(i), i < 2 ? 90s : 70s, {3}});
  stalls.push_back({"other", 61s, {1, 3}});
  CHECK(describe(stalls, 80s) == "1: [other]\n3: [t0!, t1!, t2, t3, t4, t5, …]");
  CHECK(describe(std::span(stalls).last(1), 0s) == "1: [other]\n3: [other]");
  CHECK(describe({}, 0s).empty());
  CHECK(describe(tensors(6, {"t", 80s, {3}}), 80s) == "3: [t, t, t, t, t, t]");
}

TEST_CASE("control characters in a stalled tensor's name are escaped", "[stalls]") {
  const tensors stalls{{"a\n4: [forged]\x1b[2J", 61s, {3}}};
  CHECK(describe(stalls, 0s) == "3: [a\\n4: [forged]\\x1b[2J]");
}

TEST_CASE("the missing ranks of a very large job are counted after the first lines", "[stalls]") {
  const auto text = describe(tensors{{"t", 61s, first_ranks(4096)}}, 0s);
  CHECK_THAT(text, Catch::StartsWith("0: [t]\n") && Catch::EndsWith("127: [t]\n… and 3968 more ranks"));
}

TEST_CASE("ranks that wait for each other's tensors call in different orders", "[stalls]") {
  CHECK(causes_of(tensors{{"b", 61s, {0}}, {"a", 60s, {1}}}) ==
        lines{"rank 0 waits for a, rank 1 for b: they call in different orders"});
  // Rank 4 is behind the others, and no cause of its own. Ranks 0 and 1 have called `first`, too.
  CHECK(causes_of(tensors{{"first", 70s, {4}}, {"a", 61s, {2, 3, 4}}, {"b", 60s, {0, 1, 4}}}) ==
        lines{"ranks 0 and 1 wait for a, ranks 2 and 3 for b: they call in different orders",
              "rank 4 has called none of these 3 tensors"});
}

TEST_CASE("ranks that are only behind do not call in different orders", "[stalls]") {
  CHECK(causes_of(tensors{{"a", 61s, {2}}, {"b", 60s, {1, 2}}, {"c", 60s, {1, 2}}}) ==
        lines{"rank 2 has called none of these 3 tensors"});
  CHECK(causes_of(tensors{{"a", 61s, {2}}}).empty());
  CHECK(causes_of({}).empty());
}

TEST_CASE("the causes of many stalled tensors are found among the oldest", "[stalls]") {
  tensors many(100, {"t", 61s, {0, 1}});
  CHECK(causes_of(many) == lines{"ranks 0 and 1 have called none of these 64 tensors"});
  many.assign(64, {"t", 61s, first_ranks(4096)});
  CHECK(causes_of(many) ==
        lines{"ranks 0, 1, 2, 3, 4, 5 and 4090 more have called none of these 64 tensors"});
}

TEST_CASE("one more than six ranks are all named", "[stalls]") {
  CHECK(causes_of(tensors(2, {"t", 61s, first_ranks(7)})) ==
        lines{"ranks 0, 1, 2, 3, 4, 5 and 6 have called none of these 2 tensors"});
  CHECK(causes_of(tensors(2, {"t", 61s, first_ranks(8)})) ==
        lines{"ranks 0, 1, 2, 3, 4, 5 and 2 more have called none of these 2 tensors"});
}

TEST_CASE("the report of a stall names the tensors with their times, the missing ranks and the cause",
          "[stalls]") {
  const std::vector<stalled_set> global{{0, {{"a", 61200ms, {1}}, {"b", 60040ms, {0}}}}};
  CHECK(stall_warning(global, 2, "stall warning time = 60 s", 0s) ==
        "Some ranks have submitted tensors that others have not, for longer than stall warning time = 60 s: "
        "a for "
        "61.2 s, b for 60.0 s. Either ranks do not submit the same tensors, or one is stuck in something "
        "else. Missing "
        "ranks:\n0: [b]\n1: [a]\nrank 0 waits for a, rank 1 for b: they call in different orders");
}

TEST_CASE("the report of a stall counts the tensors that it does not list", "[stalls]") {
  const std::vector<stalled_set> part{{3, tensors(8, {"t", 61s, {1}})}};
  const auto text = stall_warning(part, 70, "stall warning time = 60 s", 61s);
  CHECK_THAT(text,
             Catch::StartsWith("Some ranks have submitted tensors of process set 3 that others have not"));
  CHECK_THAT(text, Catch::Contains("t for 61.0 s and 64 more. Either") &&
                       Catch::Contains("Missing ranks:\n1: [t, t, t, t, t, t, …]"));
}

TEST_CASE("the report of a stall in several process sets has a list for each", "[stalls]") {
  const std::vector<stalled_set> sets{{0, {{"a", 61s, {1}}}}, {2, {{"b", 65s, {0}}}}};
  const auto text = stall_warning(sets, 2, "stall warning time = 60 s", 60s);
  CHECK_THAT(text,
             Catch::Contains("tensors that others") && Catch::Contains(": b for 65.0 s, a for 61.0 s. "));
  CHECK_THAT(text, Catch::EndsWith(" Missing ranks:\n1: [a!]\nMissing ranks of process set 2:\n0: [b!]"));
}

TEST_CASE("the end of a stall is reported with its duration", "[stalls]") {
  CHECK(stall_end_notice(73440ms, "stall warning time = 60 s") ==
        "The stall is over: it lasted 73.4 s, and no tensor waits for longer than stall warning time = 60 s "
        "any more");
}
