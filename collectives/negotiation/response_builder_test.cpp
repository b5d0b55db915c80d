#include "collectives/negotiation/response_builder.hpp"

#include <catch2/catch.hpp>

#include <limits>

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

request ask(std::string name, std::int64_t elements, std::uint32_t group = 0, std::uint32_t size = 0) {
  request result;
  result.name = std::move(name);
  result.signature.shape = {elements};
  result.group = group;
  result.group_size = size;
  return result;
}

// A leader's tables for members 0 and 1.
struct job {
  // Both members request in full; returns the result.
  negotiation_result write(const request& first, const request& second) {
    const auto row = rows.open(first.name);
    rows.add(row, 0, first, 1ms);
    REQUIRE(rows.add(row, 1, second, 1ms) == request_table::count::complete);
    return take([&](auto& step) { responses.complete_written(row, rows, ids, step); });
  }
  negotiation_result write(const request& both) { return write(both, both); }
  // All members that have not joined request by the id.
  negotiation_result use(std::uint32_t id, bool joins = false) {
    auto& tensor = *ids.find(id);
    for (const std::int32_t member : {0, 1})
      if (!rows.joined().has(member))
        rows.add_known(tensor.row, member, 1ms);
    return take([&](auto& step) { responses.complete_known(tensor, rows, ids, step); }, joins);
  }
  template <class Take>
  negotiation_result take(Take take, bool joins = false) {
    negotiation_step step{0, 2ms, 1, joins, {}};
    ids.begin_message();
    take(step);
    return std::move(step.result);
  }

  request_table rows{{0, 1}};
  id_registry ids{10, with_fast_path(), {0, member_mask(2)}};
  response_builder responses;
};

} // namespace

TEST_CASE("a tensor is ready at once and gets an id, and gets a cell when it comes again by its id") {
  job play;
  const auto first = play.write(ask("a", 3));
  REQUIRE(first.ready.size() == 1);
  CHECK(first.ready[0].id == 1);
  CHECK(first.ready[0].bytes == 12);
  CHECK(first.assignments.size() == 1);
  const auto again = play.use(1);
  CHECK(again.ready == first.ready);
  REQUIRE(again.assignments.size() == 1);
  CHECK(again.assignments[0].cell == 0);
}

TEST_CASE("a tensor on which members differ fails, and its row is cleared") {
  job play;
  const auto failed = play.write(ask("a", 3), ask("a", 4));
  REQUIRE(failed.failures.size() == 1);
  CHECK(failed.failures[0].name == "a");
  CHECK(failed.ready.empty());
  CHECK_FALSE(play.rows.find("a"));
}

TEST_CASE("a tensor whose number of rows overflows fails") {
  job play;
  auto large = ask("a", std::numeric_limits<std::int64_t>::max());
  large.signature.operation = operation::allgather;
  const auto failed = play.write(large);
  REQUIRE(failed.failures.size() == 1);
  CHECK(failed.failures[0].reason.kind == error_kind::precondition);
}

TEST_CASE("no cell is granted while a member has joined, or joins with the current message") {
  job play;
  play.write(ask("a", 3));
  CHECK(play.use(1, true).assignments.empty());
  play.rows.join(1);
  CHECK(play.use(1).assignments.empty());
  play.rows.leave_join();
  CHECK(play.use(1).assignments.size() == 1);
}

TEST_CASE("a tensor of a group waits for the others, also by its id, and is not evicted meanwhile") {
  job play;
  CHECK(play.write(ask("a", 3, 7, 2)).ready.empty());
  CHECK(play.write(ask("b", 3, 7, 2)).ready.size() == 2);
  CHECK(play.use(2).ready.empty());
  for (int count = 0; count < 10; ++count)
    CHECK(play.write(ask("other " + std::to_string(count), 3)).ready.size() == 1);
  CHECK(play.ids.find(2));
  CHECK_FALSE(play.ids.find(1));
  const auto last = play.write(ask("a", 3, 7, 2));
  REQUIRE(last.ready.size() == 2);
  CHECK(last.ready[0].id == 2);
  // Once released, the id can be evicted.
  for (int count = 0; count < 11; ++count)
    play.write(ask("another " + std::to_string(count), 3));
  CHECK_FALSE(play.ids.find(2));
}

TEST_CASE("a group does not wait for a tensor that fails, is withdrawn, or has conflicting groups") {
  const auto released_by = [](auto disturb) {
    job play;
    CHECK(play.write(ask("a", 3, 7, 2)).ready.empty());
    return disturb(play).ready;
  };
  CHECK(released_by([](job& play) { return play.write(ask("b", 3, 7, 2), ask("b", 4, 7, 2)); }).size() == 1);
  CHECK(released_by([](job& play) { return play.write(ask("b", 3, 7, 2), ask("b", 3)); }).size() == 2);
  CHECK(released_by([](job& play) {
          const auto row = play.rows.open("b");
          play.rows.add(row, 0, ask("b", 3, 7, 2), 1ms);
          return play.take([&](auto& step) { play.responses.withdrawn(row, play.rows, play.ids, step); });
        }).size() == 1);
}

TEST_CASE("a group does not wait for a tensor that is withdrawn after a request by its id") {
  job play;
  play.write(ask("a", 3, 7, 2));
  play.write(ask("b", 3, 7, 2));
  CHECK(play.use(1).ready.empty());
  const auto row = play.ids.find(2)->row;
  play.rows.add_known(row, 0, 1ms);
  const auto left = play.take([&](auto& step) { play.responses.withdrawn(row, play.rows, play.ids, step); });
  REQUIRE(left.ready.size() == 1);
  CHECK(left.ready[0].id == 1);
}

TEST_CASE(
    "the device of a member that is absent from a gather is left out, because its rows are in host memory") {
  auto away = ask("a", 3);
  away.signature.memory = memory_kind::device;
  away.device = 1;
  away.absent = true;
  auto rows = ask("a", 5);
  rows.signature.operation = operation::allgather;
  job play;
  const auto decision = play.write(away, rows);
  REQUIRE(decision.ready.size() == 1);
  CHECK(decision.ready[0].memory == memory_kind::host);
  REQUIRE(decision.ready[0].details);
  CHECK(decision.ready[0].details->devices.empty());
  CHECK(decision.ready[0].details->first_dims == std::vector<std::int64_t>{0, 5});
}
