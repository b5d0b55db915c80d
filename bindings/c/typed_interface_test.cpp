// The C++ interface against the shared library alone. Runs as a job of one, and on each rank of a launched job.
#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <numeric>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <farandole/farandole.hpp>

using namespace farandole;

namespace {

/// One member for all test cases, since a launched process joins its job once.
runtime& job() {
  static const auto started = runtime::start({.settings = {{"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}}});
  if (!started)
    FAIL(started.error().text);
  return **started;
}

double rank_sum() {
  return job().size() * (job().size() + 1) / 2.0; // of rank + 1
}

} // namespace

TEST_CASE("typed operations take spans of any extent and give vectors") {
  const auto rank = job().rank();
  std::vector<double> values = {rank + 1.0, 1.0};
  REQUIRE_FALSE(job().allreduce("sum", std::span(values)));
  CHECK(values == std::vector<double>{rank_sum(), double(job().size())});

  std::array<float, 1> scaled = {1.0F};
  REQUIRE_FALSE(
      job().allreduce("scaled", std::span(scaled), {.reduce_op = reduce_op::average, .postscale = 3}));
  CHECK(scaled[0] == 3.0F);

  std::vector<std::int64_t> root = {rank == 0 ? 7 : 0};
  REQUIRE_FALSE(job().broadcast("root", std::span(root), 0));
  CHECK(root[0] == 7);

  const std::vector<int> own(static_cast<std::size_t>(rank + 1), rank); // rank + 1 values of each rank
  const auto all = job().allgather("all", std::span(own));
  REQUIRE(all);
  CHECK(all->size() == static_cast<std::size_t>(rank_sum()));
  CHECK(all->back() == job().size() - 1);

  const std::vector<int> rows(static_cast<std::size_t>(job().size()), rank); // one row for each rank
  const auto received = job().alltoall("rows", std::span(rows));
  REQUIRE(received);
  std::vector<int> ranks(rows.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  CHECK(*received == ranks);

  const auto segment = job().reducescatter("segment", std::span(rows));
  REQUIRE(segment);
  CHECK(*segment == std::vector<int>{job().size() * (job().size() - 1) / 2});

  CHECK_FALSE(job().barrier("end"));
}

TEST_CASE("an asynchronous operation settles once, and its callback runs") {
  std::vector<float> values = {1, 2};
  submission request;
  request.name = "asynchronous";
  request.signature.shape = {2};
  request.input = reinterpret_cast<const std::byte*>(values.data());
  request.output = reinterpret_cast<std::byte*>(values.data());
  request.completion = completion_mode::callback;
  auto submitted = job().submit(request);
  REQUIRE(submitted);
  std::promise<void> settled;
  REQUIRE_FALSE(submitted->on_settled([&] { settled.set_value(); }));
  CHECK(submitted->on_settled([] {}).kind == error_kind::invalid_argument);
  settled.get_future().wait();
  CHECK(submitted->settled());
  CHECK_FALSE(submitted->wait());
  REQUIRE(submitted->result());
  CHECK(values == std::vector<float>{1.0F * job().size(), 2.0F * job().size()});
}

TEST_CASE("a group is submitted whole, or not at all") {
  std::vector<float> values = {1, 2};
  std::vector<submission> requests(2);
  for (std::size_t i = 0; i < 2; ++i) {
    requests[i].name = i == 0 ? "first" : "second";
    requests[i].signature.shape = {1};
    requests[i].input = reinterpret_cast<const std::byte*>(&values[i]);
    requests[i].output = reinterpret_cast<std::byte*>(&values[i]);
  }
  auto group = job().submit_group(requests);
  REQUIRE(group);
  for (auto& handle : *group)
    REQUIRE_FALSE(handle.wait());
  CHECK(values[1] == 2.0F * job().size());
  requests[1].input = nullptr;
  const auto refused = job().submit_group(requests);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == error_kind::invalid_argument);
  CHECK(refused.error().text == "second: input is NULL");
}

TEST_CASE("errors have a kind and a text, and the job goes on") {
  std::vector<float> values = {1};
  const auto problem = job().broadcast("no such root", std::span(values), job().size());
  CHECK(problem.kind == error_kind::invalid_argument);
  CHECK(problem.text.find("no such root") != std::string::npos);
  CHECK(to_string(problem.kind) == "invalid_argument");
  CHECK_FALSE(job().barrier("after the error"));
}

TEST_CASE("process sets can be added, listed, used and removed") {
  const std::vector<std::int32_t> alone = {0};
  const auto set = job().add_process_set(alone);
  if (job().size() == 1) { // the global set has the same ranks
    REQUIRE_FALSE(set);
    CHECK(set.error().kind == error_kind::invalid_argument);
    return;
  }
  REQUIRE(set);
  const auto sets = job().process_sets();
  REQUIRE(sets);
  CHECK(sets->at(*set) == alone);
  CHECK(sets->at(0).size() == static_cast<std::size_t>(job().size()));
  if (job().rank() == 0) {
    std::vector<float> values = {5};
    CHECK_FALSE(job().allreduce("in the set", std::span(values), {.set = *set}));
    CHECK(values[0] == 5.0F);
  }
  CHECK_FALSE(job().remove_process_set(*set));
}

TEST_CASE("a wait with a timeout ends, and the operation goes on") {
  if (job().size() == 1)
    return;
  static std::vector<float> values = {1}; // outlives the operation that rank 0 no longer waits for
  if (job().rank() == 0) {
    const auto problem =
        job().allreduce("late", std::span(values), {.timeout = std::chrono::milliseconds{1}});
    CHECK(problem.kind == error_kind::timed_out);
    CHECK_FALSE(job().barrier("waited"));
    CHECK_FALSE(job().barrier("complete"));
  } else {
    CHECK_FALSE(job().barrier("waited"));
    CHECK_FALSE(job().allreduce("late", std::span(values)));
    CHECK_FALSE(job().barrier("complete"));
    CHECK(values[0] == job().size());
  }
}

TEST_CASE("a job that is not elastic has one generation") {
  CHECK(job().generation() == 1);
  CHECK(job().membership_change().first == 0);
}

TEST_CASE("a program marks its steps") {
  CHECK_FALSE(job().mark_step());
  CHECK_FALSE(job().mark_step());
}

TEST_CASE("a program starts and stops the timeline of a job that allows it") {
  CHECK(job().start_timeline("unused.json").kind == error_kind::invalid_argument);
  CHECK_FALSE(job().stop_timeline()); // only logs that there is none

  const auto observed =
      runtime::start({.settings = {{"HOROVOD_TIMELINE", "DYNAMIC"}}, .read_environment = false});
  REQUIRE(observed);
  auto path = (std::filesystem::temp_directory_path() / "timeline-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  REQUIRE(file >= 0);
  ::close(file);
  REQUIRE_FALSE((*observed)->start_timeline(path, true));
  std::vector<double> values = {2};
  CHECK_FALSE((*observed)->allreduce("quote \" and byte \xff", std::span(values)));
  CHECK_FALSE((*observed)->stop_timeline());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  CHECK(text.str().find(R"("name": "quote \" and byte \\xff")") != std::string::npos);
  CHECK(text.str().find(R"("name": "SOLO_ALLREDUCE")") != std::string::npos);
  CHECK(text.str().find(R"("name": "CYCLE_START")") != std::string::npos);
  CHECK(text.str().ends_with("}]"));
}

TEST_CASE("a program waits for reports of stalls until a deadline, or until it has left") {
  CHECK(job().next_stall(std::chrono::steady_clock::now()).error().kind == error_kind::timed_out);
  const auto second = runtime::start({.read_environment = false});
  REQUIRE(second);
  auto last = std::async(std::launch::async, [&] { return (*second)->next_stall(); });
  (*second)->shutdown();
  CHECK(last.get().error().kind == error_kind::shut_down);
}

TEST_CASE("two jobs live in one process") {
  const auto second = runtime::start({.read_environment = false});
  REQUIRE(second);
  CHECK((*second)->size() == 1);
  std::vector<double> values = {2};
  CHECK_FALSE((*second)->allreduce("own", std::span(values)));
  (*second)->shutdown();
  CHECK_FALSE((*second)->alive());
  CHECK_FALSE(job().barrier("the first job goes on"));
}
