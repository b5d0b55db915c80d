#include "actors/timeline/timeline.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/syscall.h>
#include <thread>
#include <vector>

#include "tests/patience.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// A timeline of a recorder that no runtime uses; this test records the events.
struct recorded_job {
  const temporary_folder folder;
  std::vector<std::string> lines;
  logger log{{.level = log_level::warning, .hide_time = true},
             [this](log_level, std::string_view line) { lines.emplace_back(line); }};
  std::shared_ptr<event_recorder> recorder;
  std::unique_ptr<farandole::timeline> timeline;

  explicit recorded_job(std::size_t ring_events = 4096) {
    auto region = event_region::anonymous(ring_events);
    REQUIRE(region);
    recorder = std::make_shared<event_recorder>(*region);
    timeline = std::make_unique<farandole::timeline>(recorder, log, 60s);
  }
  recorded_job(const recorded_job&) = delete;
  recorded_job& operator=(const recorded_job&) = delete;

  std::string path(const std::string& name = "t.json") const { return folder.file(name); }
  std::string content(const std::string& name = "t.json") const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }
  /// An allreduce that the leader has reduced itself.
  void operate(const std::string& name) const {
    const auto tensor = recorder->intern(name);
    recorder->record(event_kind::submitted, tensor, 0);
    if (recorder->detailed())
      recorder->record(event_kind::request, tensor, 0);
    recorder->record(event_kind::ready, tensor, 0);
    recorder->record(event_kind::cut, 0, 0);
    recorder->record(event_kind::settled, tensor, 0);
  }
  /// Waits until the condition is true; false after a minute.
  template <class Condition>
  static bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline)
        return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool shows(const std::string& text, const std::string& name = "t.json") const {
    return content(name).find(text) != std::string::npos;
  }
};

bool is_complete(const std::string& text) {
  return text.starts_with("[\n{") && text.ends_with("}]");
}

/// The number of the system call in which this process's thread of this name is; empty if there is no such thread or
/// if it runs.
std::string system_call_of(const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found, call;
    std::ifstream(entry.path() / "comm") >> found;
    if (found == name && std::ifstream(entry.path() / "syscall") >> call)
      return call;
  }
  return {};
}

} // namespace

TEST_CASE("a timeline that runs writes operations soon, and the file stays complete", "[timeline]") {
  const recorded_job job;
  job.timeline->start(job.path(), true);
  CHECK(is_complete(job.content()));
  CHECK(job.shows("start_time_since_epoch_in_micros"));
  for (const auto* name : {"a", "b"}) {
    job.operate(name);
    REQUIRE(job.eventually([&] { return job.shows("{\"name\": \"" + std::string(name) + "\"}"); }));
    CHECK(is_complete(job.content()));
  }
  CHECK(job.shows("INLINE_ALLREDUCE"));
  CHECK(job.shows("CYCLE_START"));
}

TEST_CASE("when stop() returns, the file has all operations that ended before, and no later ones",
          "[timeline]") {
  const recorded_job job;
  job.timeline->start(job.path(), false);
  job.operate("before");
  CHECK(job.timeline->stop());
  CHECK(job.shows("before"));
  CHECK_FALSE(job.shows("CYCLE_START"));
  CHECK_FALSE(job.recorder->detailed());
  job.operate("after");
  CHECK_FALSE(job.timeline->stop());
  CHECK_FALSE(job.shows("after"));
  CHECK(is_complete(job.content()));
}

TEST_CASE("a start with another file completes the first one, and numbers tensors anew", "[timeline]") {
  const recorded_job job;
  job.timeline->start(job.path("1"), false);
  job.operate("a");
  job.timeline->start(job.path("2"), false);
  CHECK(job.shows(R"("pid": 1, "args": {"name": "a"})", "1"));
  job.operate("b");
  job.timeline->start(job.path("2"), true); // the same file: nothing changes
  job.operate("c");
  job.timeline->stop();
  CHECK(is_complete(job.content("1")));
  CHECK_FALSE(job.shows("\"b\"", "1"));
  CHECK(job.shows(R"("pid": 1, "args": {"name": "b"})", "2"));
  CHECK(job.shows(R"("pid": 2, "args": {"name": "c"})", "2"));
  CHECK_FALSE(job.shows("\"a\"", "2"));
  CHECK_FALSE(job.shows("CYCLE_START", "2"));
  CHECK(job.lines.empty());
}

TEST_CASE("a file that cannot be written ends the timeline with one line in the log", "[timeline]") {
  recorded_job job;
  SECTION("at the start") {
    job.timeline->start(job.folder.path(), false);
    REQUIRE(job.lines.size() == 1);
    CHECK_THAT(job.lines[0], Catch::EndsWith("Is a directory; training continues without the timeline"));
  }
  SECTION("later") {
    job.timeline->start(job.path(), false);
    std::filesystem::remove(job.path());
    job.operate("a"); // more would overrun the ring, which the log reports as well
    REQUIRE(job.eventually([&] { return !job.recorder->detailed(); }));
    job.timeline->stop();
    REQUIRE(job.lines.size() == 1);
    CHECK_THAT(job.lines[0],
               Catch::EndsWith("the file was removed; training continues without the timeline"));
  }
  CHECK_FALSE(job.timeline->stop());
  CHECK_FALSE(job.recorder->detailed());
  job.timeline->start(job.path(), false);
  job.operate("again");
  job.timeline->stop();
  CHECK(job.shows("again"));
}

TEST_CASE("events that are overwritten before they are read are counted in the file and logged once",
          "[timeline]") {
  recorded_job job(16);
  job.timeline->start(job.path(), false);
  REQUIRE(job.eventually([&] {
    for (int i = 0; i < 1000; ++i)
      job.operate("a");
    const auto text = job.content();
    return text.find("DROPPED_EVENTS") != text.rfind("DROPPED_EVENTS");
  }));
  job.timeline->stop();
  CHECK(is_complete(job.content()));
  REQUIRE(job.lines.size() == 1);
  CHECK_THAT(job.lines[0], Catch::Contains("events were overwritten before they could be written"));
}

TEST_CASE("the thread of a timeline sleeps while nothing is recorded, and an event wakes it", "[timeline]") {
  const recorded_job job;
  job.timeline->start(job.path(), false);
  for (const auto* name : {"a", "b"}) {
    REQUIRE(job.eventually([] { return system_call_of("fd-timeline") == std::to_string(SYS_futex); }));
    job.operate(name);
    REQUIRE(job.eventually([&] { return job.shows("{\"name\": \"" + std::string(name) + "\"}"); }));
  }
}

TEST_CASE("without memory for events there is no timeline", "[timeline]") {
  recorded_job job;
  job.timeline = std::make_unique<timeline>(std::make_shared<event_recorder>(nullptr), job.log,
                                            std::chrono::seconds(60));
  job.timeline->start(job.path(), false);
  REQUIRE(job.lines.size() == 1);
  CHECK_THAT(job.lines[0], Catch::Contains("there is no memory for the event record"));
  CHECK_FALSE(job.timeline->stop());
}
