#include "collectives/negotiation/id_registry.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

fast_path_options with_fast_path() {
  fast_path_options result;
  result.on = result.one_host = true;
  result.area_bytes = 1000;
  result.footprint = [](std::size_t bytes) { return bytes; };
  return result;
}

// There are members 0 and 1; a relay forwards for member 1.
struct job {
  explicit job(std::size_t capacity = 10) : ids(capacity, with_fast_path(), {1, below()}) {}

  static member_mask below() {
    member_mask mask(2);
    mask.add(1);
    return mask;
  }
  std::uint32_t assign(const std::string& name) {
    cached_tensor tensor;
    tensor.name = name;
    tensor.row = rows.open(name);
    tensor.uses = 1;
    tensor.signature.operation = operation::allreduce;
    tensor.as_ready.bytes = 100;
    return ids.assign(tensor, rows, 1ms, result);
  }
  // Plans bucket 1 with ids 1 and 2.
  void plan() {
    for (const auto* name : {"a", "b"})
      assign(name);
    for (const std::uint32_t id : {1, 2})
      ids.use(*ids.find(id), 1ms, 2ms);
    ids.plan(result);
    REQUIRE(result.buckets.size() == 1);
    result = {};
  }
  std::uint32_t row(std::uint32_t id) { return ids.find(id)->row; }

  request_table rows{{10, 11}};
  id_registry ids;
  negotiation_result result;
};

} // namespace

TEST_CASE("assigning an id ties it to its row and announces it") {
  job play;
  CHECK(play.assign("a") == 1);
  CHECK(play.assign("b") == 2);
  CHECK(play.rows.id(play.row(2)) == 2);
  REQUIRE(play.result.assignments.size() == 2);
  CHECK(play.result.assignments[1] == assignment{2, "b", -1, 0, {}});
  CHECK(play.ids.size() == 2);
}

TEST_CASE("while a member has joined, no tensor gets an id") {
  job play;
  play.rows.join(1);
  CHECK(play.assign("b") == 0);
  CHECK(play.result.empty());
}

TEST_CASE("a full registry evicts an id, except ids that are pinned or used by the current message") {
  job play(1);
  CHECK(play.assign("a") == 1);
  play.ids.begin_message();
  CHECK(play.assign("b") == 2);
  CHECK(play.result.forget == std::vector<std::uint32_t>{1});
  CHECK_FALSE(play.rows.find("a"));
  CHECK(play.assign("c") == 0);
  play.ids.begin_message();
  play.ids.pin(2);
  CHECK(play.assign("c") == 0);
  play.ids.unpin(2);
  play.ids.unpin(0);
  play.ids.begin_message();
  CHECK(play.assign("c") == 3);
}

TEST_CASE("a member that waits under a forgotten id is asked for the tensor") {
  job play;
  play.assign("a");
  const auto row = play.row(1);
  play.rows.add_known(row, 1, 3ms);
  play.ids.forget(*play.ids.find(1), play.rows, play.result);
  CHECK(play.result.questions == std::vector<question>{{11, 1}});
  CHECK_FALSE(play.ids.find(1));
  CHECK_FALSE(play.rows.find("a"));
}

TEST_CASE("an id gets a cell when it is used again, and the first report that its cell was left forgets it") {
  job play;
  play.assign("a");
  play.result = {};
  play.ids.retract({1, 7}, play.rows, play.result);
  CHECK(play.result.empty());
  play.ids.use(*play.ids.find(1), 1ms, 2ms);
  play.ids.grant(*play.ids.find(1), play.rows, play.result);
  CHECK(play.result.assignments == std::vector<assignment>{{1, "a", 0, 100, {}}});
  play.ids.retract({1, 7}, play.rows, play.result);
  play.ids.retract({1, 8}, play.rows, play.result);
  CHECK(play.result.retract == std::vector<fast_path_round>{{1, 7}});
  CHECK_FALSE(play.ids.find(1));
  play.ids.retract_all(play.rows, play.result);
  CHECK(play.result.retract.size() == 1);
}

TEST_CASE("retract_all takes all cells back and keeps the other ids") {
  job play;
  for (const auto* name : {"a", "b", "c"})
    play.assign(name);
  for (const std::uint32_t id : {3, 1}) {
    play.ids.use(*play.ids.find(id), 1ms, 2ms);
    play.ids.grant(*play.ids.find(id), play.rows, play.result);
  }
  play.ids.retract_all(play.rows, play.result);
  CHECK(play.result.retract == std::vector<fast_path_round>{{3, 0}, {1, 0}});
  CHECK(play.ids.size() == 1);
  CHECK(play.ids.find(2));
}

TEST_CASE("a bucket is dissolved if any of its ids is missed, granted a cell or forgotten") {
  const auto dissolved_by = [](auto disturb) {
    job play;
    play.plan();
    CHECK(play.ids.find(1)->bucket == 1);
    disturb(play);
    CHECK(play.ids.find(2)->bucket == 0);
    CHECK_FALSE(play.ids.buckets().is_open(1));
    return play.result.dissolved;
  };
  const std::vector<std::uint32_t> bucket{1};
  CHECK(dissolved_by([](job& play) { play.ids.miss(*play.ids.find(1), play.rows, play.result); }) == bucket);
  CHECK(dissolved_by([](job& play) { play.ids.grant(*play.ids.find(1), play.rows, play.result); }) == bucket);
  CHECK(dissolved_by([](job& play) { play.ids.forget(*play.ids.find(1), play.rows, play.result); }) ==
        bucket);
}

TEST_CASE("a member that requested a forgotten id in a bucket is asked for the tensor") {
  job play;
  play.plan();
  member_mask others(2);
  others.add(0);
  CHECK(play.ids.buckets().add(1, others, play.rows, 3ms) == bucket_coordinator::count::waiting);
  const auto other = play.row(2);
  play.ids.forget(*play.ids.find(1), play.rows, play.result);
  CHECK(play.result.questions == std::vector<question>{{10, 1}});
  CHECK(play.rows.asked().has(other, 0));
}

TEST_CASE("an id that is missed while a member has joined stays in its bucket") {
  job play;
  play.plan();
  play.rows.join(0);
  play.ids.miss(*play.ids.find(1), play.rows, play.result);
  CHECK(play.result.dissolved.empty());
}

TEST_CASE("an id in a bucket is not watched, so that no other bucket is planned with it") {
  job play;
  play.plan();
  for (int step = 0; step < 4; ++step)
    for (const std::uint32_t id : {1, 2})
      play.ids.use(*play.ids.find(id), 1ms, 2ms);
  play.ids.plan(play.result);
  CHECK(play.result.buckets.empty());
  CHECK(play.ids.find(1)->uses == 6);
}
