#include "actors/timeline/timeline_records.hpp"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <regex>

#include "actors/submission/recorded_operation.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/values/error.hpp"

using namespace farandole;

namespace {

constexpr std::uint32_t allreduce_a = 1;
constexpr std::uint32_t barrier_b = 2;
constexpr std::uint32_t local_path = 3;
constexpr std::uint32_t same_as_a = 4;
constexpr std::uint32_t foreign_path = 5;
constexpr std::uint32_t join_j = 6;

std::string_view name_of(std::uint32_t index) {
  constexpr std::string_view names[] = {"",    "allreduce.a", "b", "local", "allreduce.a", "my-path \"1\"",
                                        "join"};
  return index < std::size(names) ? names[index] : "";
}

/// A record in the notation of these tests, with the number of the tensor: "1 B ALLREDUCE 5".
std::string short_form(const std::string& record) {
  static const std::regex begin(R"re(\{"ph": "B", "name": "(\w+)", "ts": (\d+), "pid": (\d+)\})re");
  static const std::regex tick(R"re(\{"ph": "X", "name": "(\d+)", "ts": (\d+), "pid": (\d+), "dur": 0\})re");
  static const std::regex end(R"re(\{"ph": "E", "ts": (\d+), "pid": (\d+)\})re");
  static const std::regex instant(R"re(\{"ph": "i", "name": "(\w+)", "ts": (\d+), .*)re");
  std::smatch found;
  if (std::regex_match(record, found, begin))
    return found.format("$3 B $1 $2");
  if (std::regex_match(record, found, tick))
    return found.format("$3 X $1 $2");
  if (std::regex_match(record, found, end))
    return found.format("$2 E $1");
  if (std::regex_match(record, found, instant))
    return found.format("$1 $2");
  return record;
}

using lines = std::vector<std::string>;

/// Feeds events whose ticks are nanoseconds since the start of the timeline, which is at 1,000,000 ns.
struct fed_timeline {
  static constexpr std::uint64_t start_ns = 1'000'000;
  const tick_scale scale{{}, 1.0};
  timeline_records records;

  explicit fed_timeline(bool mark_cycles = false)
      : records(name_of, mark_cycles,
                {start_ns, std::chrono::nanoseconds(start_ns),
                 std::chrono::nanoseconds(1'700'000'000'123'456'789)}) {
    records.take();
  }

  void add(event_kind kind, std::uint32_t name, std::uint64_t time_us, std::uint8_t detail = 0,
           std::uint64_t first = 0, std::uint64_t second = 0, std::uint16_t set = 0) {
    records.add({start_ns + 1000 * time_us, name, set, kind, detail, first, second}, scale);
  }
  /// The leader has received the requests of ranks 1 and 0, at this time and later.
  void negotiate(std::uint32_t name, std::uint64_t time_us, std::uint8_t detail = 0) {
    add(event_kind::submitted, name, time_us, detail);
    add(event_kind::request, name, time_us, detail, 1);
    add(event_kind::request, name, time_us + 2, detail, 0);
    add(event_kind::ready, name, time_us + 2, detail, 2000);
  }
  void run(std::uint32_t name, std::uint64_t sequence, std::uint64_t time_us, std::uint8_t detail = 0,
           std::uint32_t path = local_path) {
    add(event_kind::scheduled, name, time_us, detail, sequence);
    add(event_kind::path_begin, path, time_us + 1, detail, sequence);
    add(event_kind::path_end, path, time_us + 5, 0, sequence);
    add(event_kind::settled, name, time_us + 6);
  }
  /// A round of two members; member 1 publishes first.
  void round_on_fast_path(std::uint32_t name, std::uint64_t round, std::uint64_t time_us,
                          std::uint8_t detail = 0) {
    add(event_kind::published, name, time_us + 3, detail, 4, round);
    add(event_kind::cell_published, name, time_us + 5, 0, start_ns + 1000 * (time_us + 3), 0);
    add(event_kind::cell_published, name, time_us + 5, 0, start_ns + 1000 * time_us, 1);
    add(event_kind::settled, name, time_us + 5, 0, round + 1);
  }
  /// The records since the last call, without those that name a tensor.
  lines taken() {
    lines found;
    const auto text = records.take();
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find(",\n", begin), text.size());
      const auto record = text.substr(begin, end - begin);
      if (record.find(R"("ph": "M")") == std::string::npos)
        found.push_back(short_form(record));
      begin = end + 2;
    }
    return found;
  }
};

} // namespace

TEST_CASE("a timeline begins with its start time, in microseconds since 1970", "[timeline]") {
  timeline_records records(
      name_of, false, {1, std::chrono::nanoseconds(1), std::chrono::nanoseconds(1'700'000'000'123'456'789)});
  CHECK(records.take().starts_with(
      R"({"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 1700000000123456}})"));
}

TEST_CASE("an operation through the leader shows its negotiation, its execution and its path", "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(allreduce_a, 10);
  timeline.run(allreduce_a, 7, 20);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 10", "1 X 1 10", "1 X 0 12", "1 E 12",
                                  "1 B ALLREDUCE 21", "1 B LOCAL_ALLREDUCE 21", "1 E 25", "1 E 26"});
}

TEST_CASE("a tensor is named before its first record, and tensors are numbered in the order of their use",
          "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(barrier_b, 1, static_cast<std::uint8_t>(operation::barrier));
  timeline.negotiate(allreduce_a, 5);
  const auto text = timeline.records.take();
  const auto first = text.find(R"("pid": 1, "args": {"name": "b"}})");
  const auto second = text.find(R"("pid": 2, "args": {"name": "allreduce.a"}})");
  REQUIRE(first != std::string::npos);
  REQUIRE(second != std::string::npos);
  CHECK(first < text.find("NEGOTIATE_BARRIER"));
  CHECK(text.find("NEGOTIATE_BARRIER") < second);
  CHECK(second < text.find("NEGOTIATE_ALLREDUCE"));
  timeline.negotiate(allreduce_a, 20);
  CHECK(timeline.records.take().find("process_name") == std::string::npos);
}

TEST_CASE("a tensor is the same under two indices, and another one in another process set", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::request, allreduce_a, 1, 0, 0);
  timeline.add(event_kind::request, same_as_a, 2, 0, 1);
  timeline.add(event_kind::request, allreduce_a, 3, 0, 0, 0, 1);
  CHECK(timeline.taken() ==
        lines{"1 B NEGOTIATE_ALLREDUCE 1", "1 X 0 1", "1 X 1 2", "2 B NEGOTIATE_ALLREDUCE 3", "2 X 0 3"});
}

TEST_CASE("each operation has its names", "[timeline]") {
  const auto names_of = [](operation requested, reduce_op reduction = reduce_op::sum) {
    fed_timeline timeline;
    const auto detail = recorded_operation(requested, reduction);
    timeline.negotiate(allreduce_a, 1, detail);
    timeline.run(allreduce_a, 1, 5, detail);
    std::string names;
    for (const auto& line : timeline.taken())
      if (line.starts_with("1 B "))
        names += line.substr(4, line.rfind(' ') - 3);
    return names;
  };
  CHECK(names_of(operation::allreduce) == "NEGOTIATE_ALLREDUCE ALLREDUCE LOCAL_ALLREDUCE ");
  CHECK(names_of(operation::allreduce, reduce_op::adasum) ==
        "NEGOTIATE_ADASUM ADASUM LOCAL_ADASUM_ALLREDUCE ");
  CHECK(names_of(operation::allgather) == "NEGOTIATE_ALLGATHER ALLGATHER LOCAL_ALLGATHER ");
  CHECK(names_of(operation::broadcast) == "NEGOTIATE_BROADCAST BROADCAST LOCAL_BCAST ");
  CHECK(names_of(operation::alltoall) == "NEGOTIATE_ALLTOALL ALLTOALL LOCAL_ALLTOALL ");
  CHECK(names_of(operation::reducescatter) == "NEGOTIATE_REDUCESCATTER REDUCESCATTER LOCAL_REDUCESCATTER ");
  CHECK(names_of(operation::barrier) == "NEGOTIATE_BARRIER ");
  CHECK(names_of(operation::join).empty());
}

TEST_CASE("all tensors of a bundle show the run of its path", "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(allreduce_a, 1);
  timeline.negotiate(barrier_b, 2);
  timeline.taken();
  timeline.add(event_kind::scheduled, allreduce_a, 10, 0, 4);
  timeline.add(event_kind::scheduled, barrier_b, 10, 0, 4);
  timeline.add(event_kind::path_begin, local_path, 11, 0, 4);
  timeline.add(event_kind::path_end, local_path, 12, 0, 4);
  timeline.add(event_kind::settled, allreduce_a, 13);
  timeline.add(event_kind::settled, barrier_b, 14);
  CHECK(timeline.taken() == lines{"1 B ALLREDUCE 11", "1 B LOCAL_ALLREDUCE 11", "2 B ALLREDUCE 11",
                                  "2 B LOCAL_ALLREDUCE 11", "1 E 12", "2 E 12", "1 E 13", "2 E 14"});
}

TEST_CASE("bundles of different sets may have the same number", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::scheduled, allreduce_a, 1, 0, 4, 0, 0);
  timeline.add(event_kind::scheduled, allreduce_a, 2, 0, 4, 0, 1);
  timeline.add(event_kind::path_begin, local_path, 3, 0, 4, 0, 1);
  CHECK(timeline.taken() == lines{"1 B ALLREDUCE 3", "1 B LOCAL_ALLREDUCE 3"});
}

TEST_CASE("an operation that takes two runs of a path shows both", "[timeline]") {
  fed_timeline timeline;
  const auto detail = static_cast<std::uint8_t>(operation::alltoall);
  timeline.negotiate(allreduce_a, 1, detail);
  timeline.taken();
  timeline.add(event_kind::scheduled, allreduce_a, 5, detail, 1);
  timeline.add(event_kind::path_begin, local_path, 6, static_cast<std::uint8_t>(operation::allgather), 1);
  timeline.add(event_kind::path_end, local_path, 7, 0, 1);
  timeline.add(event_kind::path_begin, local_path, 8, detail, 1);
  timeline.add(event_kind::path_end, local_path, 9, 0, 1);
  timeline.add(event_kind::settled, allreduce_a, 10);
  CHECK(timeline.taken() ==
        lines{"1 B ALLTOALL 6", "1 B LOCAL_ALLGATHER 6", "1 E 7", "1 B LOCAL_ALLTOALL 8", "1 E 9", "1 E 10"});
}

TEST_CASE("the name of a path becomes letters, digits and underscores", "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(allreduce_a, 1);
  timeline.run(allreduce_a, 1, 5, 0, foreign_path);
  CHECK(timeline.taken().at(5) == "1 B MY_PATH__1__ALLREDUCE 6");
}

TEST_CASE("a round on the fast path shows the times at which cells were published as ticks", "[timeline]") {
  fed_timeline timeline(true);
  timeline.round_on_fast_path(allreduce_a, 3, 10);
  CHECK(timeline.taken() == lines{"CYCLE_START 10", "1 B NEGOTIATE_ALLREDUCE 10", "1 X 1 10", "1 X 0 13",
                                  "1 E 13", "1 B ALLREDUCE 13", "1 B FAST_PATH_ALLREDUCE 13", "1 E 15",
                                  "1 E 15"});
  timeline.round_on_fast_path(barrier_b, 3, 20, static_cast<std::uint8_t>(operation::barrier));
  CHECK(timeline.taken() ==
        lines{"CYCLE_START 20", "2 B NEGOTIATE_BARRIER 20", "2 X 1 20", "2 X 0 23", "2 E 23"});
}

TEST_CASE("a round on the fast path that fails shows an error", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::published, allreduce_a, 3, 0, 4, 1);
  timeline.add(event_kind::settled, allreduce_a, 9, 5, 2);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 3", "1 E 9", "1 B ERROR 9", "1 E 9"});
}

TEST_CASE("a tensor that leaves the fast path shows its negotiation with the leader", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::published, allreduce_a, 3, 0, 4, 1);
  timeline.add(event_kind::request, allreduce_a, 5, 0, 0);
  timeline.add(event_kind::request, allreduce_a, 6, 0, 1);
  timeline.add(event_kind::ready, allreduce_a, 6, 0, 1000);
  timeline.run(allreduce_a, 1, 7);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 5", "1 X 0 5", "1 X 1 6", "1 E 6",
                                  "1 B ALLREDUCE 8", "1 B LOCAL_ALLREDUCE 8", "1 E 12", "1 E 13"});
}

TEST_CASE("a tensor that the leader has reduced itself shows that, as a cycle of its own", "[timeline]") {
  fed_timeline timeline(true);
  timeline.negotiate(allreduce_a, 1);
  timeline.add(event_kind::settled, allreduce_a, 5);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 1", "1 X 1 1", "1 X 0 3", "1 E 3", "CYCLE_START 3",
                                  "1 B ALLREDUCE 3", "1 B INLINE_ALLREDUCE 3", "1 E 5", "1 E 5"});
}

TEST_CASE("a negotiation that fails shows an error", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::submitted, allreduce_a, 1);
  timeline.add(event_kind::request, allreduce_a, 1, 0, 0);
  timeline.add(event_kind::request, allreduce_a, 2, 0, 1);
  timeline.add(event_kind::settled, allreduce_a, 3, static_cast<std::uint8_t>(error_kind::mismatch));
  CHECK(timeline.taken() ==
        lines{"1 B NEGOTIATE_ALLREDUCE 1", "1 X 0 1", "1 X 1 2", "1 E 3", "1 B ERROR 3", "1 E 3"});
}

TEST_CASE("a negotiation in which no member contributes ends without an error and without an execution",
          "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::submitted, allreduce_a, 1);
  timeline.add(event_kind::request, allreduce_a, 1, 0, 0);
  timeline.add(event_kind::settled, allreduce_a, 3);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 1", "1 X 0 1", "1 E 3"});
}

TEST_CASE("an operation that fails while it is executed ends", "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(allreduce_a, 1);
  timeline.taken();
  timeline.add(event_kind::scheduled, allreduce_a, 4, 0, 1);
  timeline.add(event_kind::path_begin, local_path, 5, 0, 1);
  timeline.add(event_kind::settled, allreduce_a, 9, static_cast<std::uint8_t>(error_kind::timed_out));
  CHECK(timeline.taken() == lines{"1 B ALLREDUCE 5", "1 B LOCAL_ALLREDUCE 5", "1 E 9", "1 E 9"});
}

TEST_CASE("cycles are marked only where this is wanted", "[timeline]") {
  for (const bool wanted : {false, true}) {
    fed_timeline timeline(wanted);
    timeline.add(event_kind::cut, 0, 5, 1, 0, 2);
    CHECK(timeline.taken() == (wanted ? lines{"CYCLE_START 5"} : lines{}));
  }
}

TEST_CASE("a request that comes before the last operation of its name has ended here belongs to the next one",
          "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(allreduce_a, 1);
  timeline.add(event_kind::scheduled, allreduce_a, 4, 0, 1);
  timeline.add(event_kind::path_begin, local_path, 5, 0, 1);
  timeline.add(event_kind::path_end, local_path, 6, 0, 1);
  timeline.taken();
  timeline.add(event_kind::request, allreduce_a, 7, 0, 1);
  CHECK(timeline.taken().empty());
  timeline.add(event_kind::settled, allreduce_a, 8);
  CHECK(timeline.taken() == lines{"1 E 8", "1 B NEGOTIATE_ALLREDUCE 8", "1 X 1 8"});
}

TEST_CASE("a negotiation in which this rank has no part ends with it", "[timeline]") {
  fed_timeline timeline;
  for (const std::uint64_t time_us : {1, 11}) { // this rank has joined
    timeline.add(event_kind::request, allreduce_a, time_us, 0, 1);
    timeline.add(event_kind::ready, allreduce_a, time_us + 1, 0, 1000);
  }
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 1", "1 X 1 1", "1 E 2",
                                  "1 B NEGOTIATE_ALLREDUCE 11", "1 X 1 11", "1 E 12"});
}

TEST_CASE("a negotiation in which this rank has no part fails with its set or generation", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::request, allreduce_a, 1, 0, 1, 0, 3);
  timeline.add(event_kind::set_end, 0, 2, 0, 0, 0, 2);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 1", "1 X 1 1"});
  timeline.add(event_kind::set_end, 0, 3, 0, 0, 0, 3);
  CHECK(timeline.taken() == lines{"1 E 3", "1 B ERROR 3", "1 E 3"});
  timeline.add(event_kind::request, allreduce_a, 4, 0, 1, 0, 3);
  timeline.add(event_kind::generation_end, 0, 5);
  CHECK(timeline.taken() == lines{"1 B NEGOTIATE_ALLREDUCE 4", "1 X 1 4", "1 E 5", "1 B ERROR 5", "1 E 5"});
}

TEST_CASE("a negotiation whose requests were not recorded begins at the first of them", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::submitted, allreduce_a, 10);
  timeline.add(event_kind::ready, allreduce_a, 20, 0, 15'000);
  timeline.add(event_kind::ready, barrier_b, 21, static_cast<std::uint8_t>(operation::barrier), 50'000);
  CHECK(timeline.taken() ==
        lines{"1 B NEGOTIATE_ALLREDUCE 5", "1 E 20", "2 B NEGOTIATE_BARRIER 0", "2 E 21"});
}

TEST_CASE("an operation that was scheduled before the timeline began shows its execution", "[timeline]") {
  fed_timeline timeline;
  timeline.run(allreduce_a, 1, 1);
  CHECK(timeline.taken() == lines{"1 B ALLREDUCE 2", "1 B LOCAL_ALLREDUCE 2", "1 E 6", "1 E 7"});
  timeline.add(event_kind::settled, allreduce_a, 9);
  timeline.add(event_kind::path_end, local_path, 9, 0, 1);
  timeline.add(event_kind::settled, allreduce_a, 9, 0, 4);
  CHECK(timeline.taken().empty());
}

TEST_CASE("events that were overwritten are counted, and end what is in progress", "[timeline]") {
  fed_timeline timeline;
  timeline.negotiate(allreduce_a, 1);
  timeline.add(event_kind::scheduled, allreduce_a, 4, 0, 1);
  timeline.add(event_kind::path_begin, local_path, 5, 0, 1);
  timeline.add(event_kind::request, barrier_b, 6, static_cast<std::uint8_t>(operation::barrier), 0);
  timeline.taken();
  timeline.records.lost(17, fed_timeline::start_ns + 9000, timeline.scale);
  CHECK(timeline.taken() == lines{"1 E 9", "1 E 9", "2 E 9", "DROPPED_EVENTS 9"});
  timeline.add(event_kind::path_end, local_path, 10, 0, 1);
  timeline.add(event_kind::settled, allreduce_a, 10);
  CHECK(timeline.taken().empty());
  timeline.negotiate(allreduce_a, 11);
  CHECK(timeline.taken().size() == 4);
}

TEST_CASE("the end of a timeline ends what is in progress", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::request, allreduce_a, 1, 0, 0);
  timeline.taken();
  timeline.records.finish(fed_timeline::start_ns + 5000, timeline.scale);
  CHECK(timeline.taken() == lines{"1 E 5"});
}

TEST_CASE("a tensor whose name did not fit into the record says so", "[timeline]") {
  fed_timeline timeline;
  timeline.add(event_kind::request, 0, 1, 0, 0);
  CHECK(timeline.records.take().find(R"x("name": "(name not recorded)")x") != std::string::npos);
}

TEST_CASE("for any events, begins and ends match and times of a tensor never decrease", "[timeline]") {
  std::minstd_rand draw(20261126);
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(draw));
  };
  for (int job = 0; job < 100; ++job) {
    fed_timeline timeline(true);
    std::uint64_t time_us = 0;
    for (int i = 0; i < 300; ++i) {
      time_us += below(3);
      const auto kind = static_cast<event_kind>(1 + below(static_cast<std::uint32_t>(event_kind::path_end)));
      const auto name =
          kind == event_kind::path_begin || kind == event_kind::path_end ? local_path : below(3);
      const auto detail =
          kind == event_kind::settled ? below(2) : below(8) | (below(8) == 0 ? adasum_detail : 0U);
      timeline.add(kind, name, time_us, static_cast<std::uint8_t>(detail), below(4), below(4),
                   static_cast<std::uint16_t>(below(2)));
      if (below(100) == 0)
        timeline.records.lost(1, fed_timeline::start_ns + 1000 * time_us, timeline.scale);
    }
    timeline.records.finish(fed_timeline::start_ns + 1000 * time_us, timeline.scale);
    std::map<std::string, int> open;
    std::map<std::string, std::uint64_t> last;
    for (const auto& line : timeline.taken()) {
      const auto process = line.substr(0, line.find(' '));
      const std::uint64_t time = std::stoull(line.substr(line.rfind(' ')));
      if (process.find_first_not_of("0123456789") != std::string::npos)
        continue; // a mark of the whole timeline
      open[process] += line.find(" B ") != std::string::npos   ? 1
                       : line.find(" E ") != std::string::npos ? -1
                                                               : 0;
      REQUIRE(open[process] >= 0);
      REQUIRE(time >= last[process]);
      last[process] = time;
    }
    for (const auto& [process, count] : open)
      REQUIRE(count == 0);
  }
}
