#include "actors/launch/job_ending.hpp"

#include <catch2/catch.hpp>

#include <signal.h>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

const job_ending::time_point start{};
job_ending three() {
  return job_ending{3, {.grace = 2s, .kill_after = 5s}};
}
constexpr process_end well{0, 0};
constexpr process_end badly{3, 0};
constexpr process_end killed{128 + SIGKILL, SIGKILL};

} // namespace

TEST_CASE("a job whose processes all succeed ends with 0 and prints nothing", "[ending]") {
  auto job = three();
  for (int process : {2, 0}) {
    const auto step = job.ended(process, well, start, process);
    CHECK_FALSE(step.done);
    CHECK(step.lines.empty());
    CHECK_FALSE(step.call_next);
  }
  CHECK(job.ended(1, well, start, 1).done);
  CHECK(job.code() == 0);
  CHECK_FALSE(job.failed());
}

TEST_CASE("the first failure gives the exit code, and the other processes get time before any signal",
          "[ending]") {
  auto job = three();
  const auto step = job.ended(1, badly, start, 1);
  CHECK(step.signal == 0);
  CHECK(step.call_next == start + 2s);
  CHECK(step.lines == std::vector<std::string>{"Process 1 exit with status code 3.",
                                               "Terminating remaining workers after failure of Process 1."});
  CHECK(job.ended(0, {1, 0}, start + 1s, 0).lines ==
        std::vector<std::string>{"Process 0 exit with status code 1."});
  CHECK(job.ended(2, {1, 0}, start + 1s, 2).done);
  CHECK(job.code() == 3);
  CHECK(job.failed());
}

TEST_CASE("a process that does not end by itself gets SIGTERM, and five seconds later SIGKILL", "[ending]") {
  auto job = three();
  job.ended(1, badly, start, 1);
  CHECK(job.due(start + 1s).signal == 0);
  CHECK(job.due(start + 1s).call_next == start + 2s);
  const auto first = job.due(start + 2s);
  CHECK(first.signal == SIGTERM);
  CHECK(first.call_next == start + 7s);
  CHECK(job.due(start + 7s).signal == SIGKILL);
  CHECK(job.due(start + 8s).signal == 0);
}

TEST_CASE("the termination grace is the time between SIGTERM and SIGKILL", "[ending]") {
  auto values = settings::built_in();
  CHECK(job_ending::times::of(values).kill_after == 5s);
  REQUIRE_FALSE(values.assign(setting::termination_grace, "90", setting_source::flag));
  job_ending job{1, job_ending::times::of(values)};
  CHECK(job.interrupted(SIGINT, start).signal == SIGTERM);
  CHECK(job.due(start + 89s).signal == 0);
  CHECK(job.due(start + 90s).signal == SIGKILL);
}

TEST_CASE("the end of a process after the launcher's signal prints no line", "[ending]") {
  auto job = three();
  job.ended(1, badly, start, 1);
  job.due(start + 2s);
  CHECK(job.ended(0, {128 + SIGTERM, SIGTERM}, start + 2s, 0).lines.empty());
  CHECK(job.ended(2, killed, start + 7s, 2).done);
  CHECK(job.code() == 3);
}

TEST_CASE("a process killed by a signal fails with 128 plus the signal", "[ending]") {
  job_ending job{1, {.grace = 2s}};
  const auto step = job.ended(0, killed, start, 0);
  CHECK(step.done);
  CHECK(step.lines == std::vector<std::string>{"Process 0 exit with status code 137."});
  CHECK(job.code() == 137);
}

TEST_CASE("an interrupt sends SIGTERM at once, a second interrupt SIGKILL", "[ending]") {
  auto job = three();
  const auto step = job.interrupted(SIGINT, start);
  CHECK(step.signal == SIGTERM);
  CHECK(step.call_next == start + 5s);
  CHECK(job.interrupted(SIGINT, start + 1s).signal == SIGKILL);
  for (int process : {0, 1})
    job.ended(process, killed, start + 1s, process);
  CHECK(job.ended(2, killed, start + 1s, 2).done);
  CHECK(job.code() == 128 + SIGINT);
  CHECK_FALSE(job.failed());
}

TEST_CASE("two interrupts within a millisecond count once", "[ending]") {
  auto job = three();
  CHECK(job.interrupted(SIGINT, start).signal == SIGTERM);
  const auto step = job.interrupted(SIGINT, start + 1ms);
  CHECK(step.signal == 0);
  CHECK(step.lines.empty());
  CHECK(job.due(start + 5s).signal == SIGKILL);
}

TEST_CASE("an interrupt after a failure keeps the failure's code", "[ending]") {
  auto job = three();
  job.ended(1, badly, start, 1);
  CHECK(job.interrupted(SIGTERM, start).signal == SIGTERM);
  CHECK(job.code() == 3);
}

TEST_CASE("a process that cannot be started ends the others without delay", "[ending]") {
  auto job = three();
  const auto step = job.could_not_start(0, "x: command not found", 127, start);
  CHECK(step.signal == SIGTERM);
  CHECK(step.lines.front() == "Process 0 could not be started: x: command not found");
  CHECK(job.code() == 127);
  // A second failure for the same reason is not printed again; another reason is printed.
  CHECK(job.could_not_start(1, "x: command not found", 127, start).lines.empty());
  CHECK(job.could_not_start(2, "fork: no memory", 127, start).lines ==
        std::vector<std::string>{"Process 2 could not be started: fork: no memory"});
}

TEST_CASE("a call of due while nothing is due sends no signal", "[ending]") {
  auto job = three();
  CHECK(job.due(start + 100s).signal == 0);
  for (int process : {0, 1, 2})
    job.ended(process, well, start, process);
  CHECK(job.due(start + 100s).signal == 0);
}

TEST_CASE("a job that winds up gives running processes time, then sends SIGTERM, then SIGKILL", "[ending]") {
  job_ending job{0, {.grace = 2s, .kill_after = 5s}};
  for (int process = 0; process < 3; ++process)
    job.started();
  job.left();
  const auto step = job.wind_up(3, start);
  CHECK(step.signal == 0);
  CHECK(step.call_next == start + 2s);
  CHECK(job.wind_up(4, start).call_next == std::nullopt);
  CHECK(job.due(start + 2s).signal == SIGTERM);
  job.left();
  CHECK(job.due(start + 7s).signal == SIGKILL);
  CHECK(job.code() == 3);
}

TEST_CASE("an interrupt while no process runs sends no signal", "[ending]") {
  job_ending job{0, {.grace = 2s}};
  CHECK(job.interrupted(SIGINT, start).signal == 0);
  CHECK(job.code() == 128 + SIGINT);
}

TEST_CASE("if another process is at fault, the line about terminating the workers names that process",
          "[ending]") {
  auto job = three();
  CHECK(job.ended(2, {1, 0}, start, 1).lines ==
        std::vector<std::string>{"Process 2 exit with status code 1.",
                                 "Terminating remaining workers after failure of Process 1."});
}

TEST_CASE("the report of a failure names the cause, its last lines and the place of its full output",
          "[ending]") {
  failure_report cause{"1", 3, "alpha", "exited with code 3", "1", "", {"Traceback", "KeyError"}};
  CHECK(failure_summary(cause, {}) ==
        std::vector<std::string>{"Horovod detected that one or more processes exited with non-zero status. "
                                 "The one that caused it was:",
                                 "Process name: 1", "Exit code: 3",
                                 "Cause: Process 1 on alpha exited with code 3",
                                 "Last lines of its stderr:", "    Traceback", "    KeyError",
                                 "Full output: the lines above that begin with [1]; --output-filename keeps "
                                 "a copy of each process's "
                                 "output"});
  cause.folder = "logs/rank.1";
  cause.last_lines.clear();
  const auto lines = failure_summary(cause, {});
  REQUIRE(lines.size() == 5);
  CHECK(lines.back() == "Full output: logs/rank.1/stdout and logs/rank.1/stderr");
  cause.label.clear(); // a process that never ran
  CHECK(failure_summary(cause, {}).size() == 4);
}

TEST_CASE(
    "processes that end with the same error as the first one are named, and their lines are printed once") {
  const failure_report cause{"2", 1, "alpha", "ended", "2", "", {"Traceback", "step()", "MismatchError: g"}};
  const std::deque<std::string> other_place{"Traceback", "evaluate()", "MismatchError: g"};
  const auto lines = failure_summary(
      cause,
      {{"0", cause.last_lines}, {"1", other_place}, {"3", {"KeyError"}}, {"4", cause.last_lines}, {"5", {}}});
  REQUIRE(lines.size() == 10);
  CHECK(lines[0] == "Horovod detected that one or more processes exited with non-zero status. "
                    "The first of several with the same error was:");
  CHECK(lines[1] == "Process name: 2");
  CHECK(lines[4] ==
        "The same error ended processes 0, 1 and 4, so none of these processes is the cause alone.");
  CHECK(lines[5] == "Last lines of its stderr, the same as of processes 0 and 4:");
  CHECK(lines[6] == "    Traceback");
}

TEST_CASE("processes that wrote nothing have no error in common") {
  const failure_report cause{"2", 1, "alpha", "exited with code 1", "2", "", {}};
  const auto lines = failure_summary(cause, {{"0", {}}});
  CHECK(lines.size() == 5);
  CHECK(lines[0].ends_with("The one that caused it was:"));
}
