// The ranges of operations, as a tool in the place of a profiler counts them.
#include "actors/submission/nvtx_ranges.hpp"

#include <catch2/catch.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "actors/submission/operation_state_testing.hpp"
#include "actors/submission/submission_queue.hpp"

using namespace farandole;

extern const char nvtx_tool_library[]; // CMake defines it

namespace {

// NVTX reads the variable when the first runtime or test of this process opens a domain, so it is set before main().
const int tool_is_named = ::setenv("NVTX_INJECTION64_PATH", nvtx_tool_library, 1);

struct counted {
  std::uint64_t begun = 0, ended = 0, bytes = 0;
  friend bool operator==(const counted&, const counted&) = default;
};

std::ostream& operator<<(std::ostream& stream, const counted& counts) {
  return stream << counts.begun << " begun, " << counts.ended << " ended, " << counts.bytes << " bytes";
}

using counts_by_name = std::map<std::string, counted>; ///< "DOMAIN NAME"

counts_by_name tool_counts() {
  // NVTX has loaded it, so this is the same one.
  auto* library = ::dlopen(nvtx_tool_library, RTLD_NOW);
  REQUIRE(library);
  auto* report = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(::dlsym(library, "nvtx_tool_report"));
  REQUIRE(report);
  std::string text(1 << 14, '\0');
  text.resize(report(text.data(), text.size()));
  counts_by_name counts;
  std::istringstream lines(text);
  std::string domain, name;
  for (counted row; lines >> domain >> name >> row.begun >> row.ended >> row.bytes;)
    counts[domain + " " + name] = row;
  return counts;
}

/// What the tool has counted since this object was made. Other tests of the process have ranges, too.
class new_counts {
public:
  counts_by_name now() const {
    auto counts = tool_counts();
    for (const auto& [name, before] : before_) {
      auto& row = counts[name];
      row = {row.begun - before.begun, row.ended - before.ended, row.bytes - before.bytes};
      if (row == counted{})
        counts.erase(name);
    }
    return counts;
  }

private:
  counts_by_name before_ = tool_counts();
};

/// The submission queue of a set of one member.
struct profiled_queue {
  std::shared_ptr<farandole::submission_queue> queue = std::make_shared<farandole::submission_queue>(
      0, 1, 64, [] {}, std::vector<std::int32_t>{}, set_epoch{}, std::size_t{64} << 10, nullptr,
      nvtx_ranges::open());
  std::vector<float> tensor = {1, 2, 3};

  submission request(std::string_view name, operation requested = operation::allreduce) const {
    submission wanted;
    wanted.name = name;
    wanted.signature.operation = requested;
    if (requested != operation::join && requested != operation::barrier)
      wanted.signature.shape = {3};
    wanted.signature.root = requested == operation::broadcast ? 0 : wanted.signature.root;
    wanted.input = reinterpret_cast<const std::byte*>(tensor.data());
    return wanted;
  }
  operation_state_ptr submit(const submission& wanted) const {
    auto operation = queue->submit(wanted);
    REQUIRE(operation);
    return *operation;
  }
};

} // namespace

TEST_CASE("a call is a range from its submission until it is complete or has failed", "[nvtx]") {
  REQUIRE(tool_is_named == 0);
  REQUIRE(nvtx_domain::is_built_in());
  const profiled_queue member;
  const new_counts counts;
  for (const auto& problem : {error{}, error{error_kind::disconnected, "a rank is lost"}}) {
    const auto operation = member.submit(member.request("t"));
    CHECK(operation->profiled);
    operation->claim_and_settle(phase::queued, problem);
    CHECK_FALSE(operation->profiled);
  }
  CHECK(counts.now() == counts_by_name{{"HorovodTimeline HorovodAllreduce", {2, 2, 24}}});
}

TEST_CASE("each operation has its name, and those that move no tensor have no range", "[nvtx]") {
  const profiled_queue member;
  const new_counts counts;
  std::vector<operation_state_ptr> operations;
  for (const auto& row : operation_table)
    operations.push_back(member.submit(member.request(row.name, row.id)));
  const counted open{1, 0, 12};
  CHECK(counts.now() == counts_by_name{{"HorovodTimeline HorovodAllreduce", open},
                                       {"HorovodTimeline HorovodAllgather", open},
                                       {"HorovodTimeline HorovodBroadcast", open},
                                       {"HorovodTimeline HorovodAlltoall", open},
                                       {"HorovodTimeline HorovodReducescatter", open}});
  for (const auto& operation : operations)
    operation->claim_and_settle(phase::queued, {});
  for (const auto& [name, row] : counts.now())
    CHECK(row == counted{1, 1, 12});
}

TEST_CASE("a group is one range, which ends with its last operation", "[nvtx]") {
  const profiled_queue member;
  const new_counts counts;
  const auto [requested, name] = GENERATE(table<operation, std::string>(
      {{operation::allreduce, "HorovodTimeline HorovodGroupedAllreduce"},
       {operation::allgather, "HorovodTimeline HorovodGroupedAllgather"},
       {operation::reducescatter, "HorovodTimeline HorovodGroupedReducescatter"}}));
  const std::vector<submission> requests{member.request("a", requested), member.request("b", requested)};
  const auto group = member.queue->submit_group(requests);
  REQUIRE(group);
  (*group)[1]->claim_and_settle(phase::queued, {});
  CHECK(counts.now() == counts_by_name{{name, {1, 0, 24}}});
  (*group)[0]->claim_and_settle(phase::queued, {});
  CHECK(counts.now() == counts_by_name{{name, {1, 1, 24}}});
}

TEST_CASE("a round of the fast path has an activity within the range of its call", "[nvtx]") {
  const auto ranges = nvtx_ranges::open();
  REQUIRE(ranges);
  const bool in_cells = GENERATE(true, false);
  testing::pair_shape shape;
  shape.kind = in_cells ? operation::broadcast : operation::alltoall;
  shape.in_cells = in_cells;
  testing::pair_of_members members(shape);
  const new_counts counts;
  for (std::uint32_t rank : {0, 1}) {
    members.begin(rank);
    members.operations[rank]->profiled = ranges->call(shape.kind, false, 8);
    REQUIRE(members.try_publish(rank, 0));
  }
  const auto call = std::string("HorovodTimeline Horovod") + (in_cells ? "Broadcast" : "Alltoall");
  CHECK(counts.now() == counts_by_name{{call, {2, 0, 16}}});
  members.play();
  const auto ended = counts.now();
  CHECK(ended.at(call) == counted{2, 2, 16});
  const auto activity =
      ended.at(std::string("HorovodTimelineActivities FAST_PATH_") + (in_cells ? "BCAST" : "ALLTOALL"));
  CHECK(activity.begun >= 2);
  CHECK(activity.begun == activity.ended);
  CHECK(activity.bytes == 8 * activity.begun);
}

TEST_CASE("the run of a path has the name of the activity in the timeline", "[nvtx]") {
  const auto ranges = nvtx_ranges::open();
  REQUIRE(ranges);
  const new_counts counts;
  {
    const auto first = ranges->activity("tcp", operation::broadcast, reduce_op::sum, 4);
    const auto second = ranges->activity("local", operation::allreduce, reduce_op::adasum, 5);
    const auto none = ranges->activity("local", operation::barrier, reduce_op::sum, 6);
    CHECK(counts.now() == counts_by_name{{"HorovodTimelineActivities TCP_BCAST", {1, 0, 4}},
                                         {"HorovodTimelineActivities LOCAL_ADASUM_ALLREDUCE", {1, 0, 5}}});
  }
  CHECK(counts.now() == counts_by_name{{"HorovodTimelineActivities TCP_BCAST", {1, 1, 4}},
                                       {"HorovodTimelineActivities LOCAL_ADASUM_ALLREDUCE", {1, 1, 5}}});
}
