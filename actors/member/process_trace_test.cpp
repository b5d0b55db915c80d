#include "actors/member/process_trace.hpp"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <random>
#include <semaphore>

#include "tests/patience.hpp"
#include "tests/small_disk.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::UnorderedEquals;

namespace {

/// A process that records, and writes its trace into a folder.
struct traced_process {
  explicit traced_process(std::int32_t rank) : region(*event_region::anonymous(65'536)), recorder(region) {
    recorder.describe({7, 1, rank, 4, 0, "alpha"});
  }

  std::unique_ptr<process_trace> begin() {
    trace_plan plan;
    plan.folder = folder.path();
    plan.sources = [this] {
      looks.release();
      return std::vector<trace_source>{
          {this, [this] { return expected(region); }, [] { return record_copy{}; }}};
    };
    auto trace = std::make_unique<process_trace>(folder.path(), plan, log, patience);
    // At its second look it has begun to trace the process.
    REQUIRE(looks.try_acquire_for(patience));
    REQUIRE(looks.try_acquire_for(patience));
    return trace;
  }
  std::string name(const std::string& suffix) const {
    return "process-" + std::to_string(::getpid()) + suffix;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }

  const temporary_folder folder;
  std::vector<std::string> warnings;
  logger log{{.level = log_level::warning, .hide_time = true},
             [this](log_level, std::string_view line) { warnings.emplace_back(line); }};
  std::shared_ptr<event_region> region;
  event_recorder recorder;
  std::counting_semaphore<> looks{0};
};

} // namespace

TEST_CASE("the trace of a member has the name of its rank, and that of another process that of its process") {
  const auto rank = GENERATE(3, -1);
  traced_process process(rank);
  process.begin().reset();
  CHECK(process.warnings.empty());
  CHECK(process.files() == std::vector{rank < 0 ? process.name(".trace") : "rank-3.trace"});
  if (rank < 0)
    return;
  process.begin().reset();
  CHECK_THAT(process.files(), UnorderedEquals(std::vector<std::string>{"rank-3.trace", "rank-3-2.trace"}));
}

TEST_CASE("a full disk ends a trace with a warning, and the events until then remain") {
  traced_process process(3);
  on_disk_of(1 << 20, process.folder.path(), [&] {
    auto trace = process.begin();
    std::mt19937_64 numbers;
    for (int i = 0; i < 50'000; ++i) // they cannot be compressed
      process.recorder.record(event_kind::submitted, 0, 0, 0, numbers(), numbers());
    trace.reset();
    REQUIRE(process.warnings.size() == 2);
    CHECK_THAT(process.warnings[0], Contains("the trace of this process is incomplete: ") &&
                                        Contains(process.name(".events") + " could not grow: No space left"));
    CHECK_THAT(process.warnings[1], Contains("the trace is in ") && Contains(process.name(".events")));
    CHECK(process.files() == std::vector{process.name(".events")});
  });
}

TEST_CASE("a process ends although the file system of its trace does not answer") {
  std::promise<void> asked, answer;
  std::vector<std::string> warnings;
  logger log({.level = log_level::warning},
             [&](log_level, std::string_view line) { warnings.emplace_back(line); });
  trace_plan plan;
  plan.sources = [&asked, answered = answer.get_future().share()] {
    asked.set_value();
    answered.wait();
    return std::vector<trace_source>{};
  };
  auto trace = std::make_unique<process_trace>("/tmp", plan, log, 0s);
  REQUIRE(asked.get_future().wait_for(patience) == std::future_status::ready);
  trace.reset();
  answer.set_value();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("the trace of this process was not written within 0 s"));
}
