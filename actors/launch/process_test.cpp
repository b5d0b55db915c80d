#include "actors/launch/process.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "actors/launch/job_watch.hpp"
#include "actors/launch/process_keeper.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using farandole::testing::patience_ms;

namespace {

process_spec shell(const std::string& script) {
  process_spec spec;
  spec.arguments = {"sh", "-c", script};
  spec.environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  return spec;
}

process started(const process_spec& spec) {
  auto result = start_process(spec);
  if (!result)
    FAIL(result.error().text);
  return std::move(*result);
}

bool readable(int fd) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, patience_ms) == 1;
}

std::string all_of(int fd) {
  std::string text;
  char buffer[256];
  while (readable(fd)) {
    const auto count = ::read(fd, buffer, sizeof buffer);
    if (count <= 0)
      break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

process_end finished(process& process) {
  REQUIRE(readable(process.watched.get()));
  const auto exit_status = process.ending();
  process.reap(nullptr);
  return exit_status;
}

} // namespace

TEST_CASE("a process runs in its own group, with its environment and an empty input", "[process]") {
  auto child = started(shell("echo $GREETING $0; cat; ps -o pgid= -p $$ >/dev/null; echo err >&2; exit 3"));
  CHECK(all_of(child.output.get()) == "hello sh\n");
  CHECK(all_of(child.errors.get()) == "err\n");
  CHECK(::getpgid(child.id) == child.id);
  const auto exit_status = finished(child);
  CHECK(exit_status.code == 3);
  CHECK(exit_status.text() == "exited with code 3");
}

TEST_CASE("a process that a signal ends has 128 plus the signal as its exit code", "[process]") {
  auto child = started(shell("sleep 1000"));
  child.signal(SIGKILL);
  const auto exit_status = finished(child);
  CHECK(exit_status.code == 137);
  CHECK(exit_status.signal == SIGKILL);
  CHECK(exit_status.text() == "was killed by signal 9 (Killed)");
}

TEST_CASE("a missing or non-executable program is refused, and the error names it", "[process]") {
  for (const char* name : {"no-such-program-anywhere", "/etc/passwd", "/nonexistent/x"}) {
    auto spec = shell("");
    spec.arguments = {name};
    const auto result = start_process(spec);
    REQUIRE_FALSE(result);
    CHECK(result.error().text.find(name) != std::string::npos);
  }
}

TEST_CASE("a process inherits only the listed descriptors", "[process]") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const descriptor read_end{ends[0]}, write_end{ends[1]};
  const auto look = "for fd in " + std::to_string(ends[0]) + " " + std::to_string(ends[1]) +
                    "; do [ -e /proc/self/fd/$fd ] && echo $fd; done; exit 0";
  auto spec = shell(look);
  spec.inherited = {ends[1]};
  auto child = started(spec);
  CHECK(all_of(child.output.get()) == std::to_string(ends[1]) + "\n");
  CHECK(finished(child).code == 0);
}

TEST_CASE("a program starts with no signal blocked, and ignores those that the launcher was told to ignore",
          "[process]") {
  sigset_t set, before;
  sigfillset(&set);
  ::pthread_sigmask(SIG_SETMASK, &set, &before);
  std::map<int, sighandler_t> actions;
  for (const int number : {SIGPIPE, SIGCHLD, SIGHUP, SIGQUIT})
    actions[number] = ::signal(number, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM})
    actions[number] = ::signal(number, SIG_DFL);
  auto child = started(shell("grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  const auto watched = ending_signals();
  for (const auto& [number, action] : actions)
    ::signal(number, action);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const auto ignored = 1 << (SIGHUP - 1) | 1 << (SIGQUIT - 1);
  static_assert(ignored == 5);
  CHECK(all_of(child.output.get()) == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000005\n");
  CHECK(finished(child).code == 0);
  CHECK(sigismember(&watched, SIGHUP) == 0);
  CHECK(sigismember(&watched, SIGINT) == 1);
  CHECK(sigismember(&watched, SIGTERM) == 1);
}

TEST_CASE(
    "when its pipe closes, the process keeper removes the registered files and folders that still exist",
    "[process]") {
  const temporary_folder folder;
  const auto kept = folder.file("kept"), other = folder.file("other"), records = folder.file("records");
  std::filesystem::create_directory(records);
  for (const auto& path : {kept, other, records + "/rank-0.events"})
    std::ofstream(path) << "content";
  auto keeper = process_keeper::start();
  REQUIRE(keeper);
  keeper->remove_at_end(folder.file("missing"));
  keeper->remove_at_end(kept);
  keeper->remove_at_end(records);
  auto spec = shell("sleep 1000");
  spec.keeper = &*keeper;
  auto child = started(spec);
  CHECK(std::filesystem::exists(kept));
  { const auto gone = std::move(*keeper); }
  CHECK(finished(child).signal == SIGKILL);
  CHECK_FALSE(std::filesystem::exists(kept));
  CHECK_FALSE(std::filesystem::exists(records));
  CHECK(std::filesystem::exists(other));
}

TEST_CASE("when its pipe closes, the process keeper kills the groups still registered, and no others",
          "[process]") {
  auto keeper = process_keeper::start();
  REQUIRE(keeper);
  auto spec = shell("sleep 1000 & wait");
  spec.keeper = &*keeper;
  auto kept = started(spec);
  auto left = started(spec);
  keeper->leave(left.id);
  { const auto gone = std::move(*keeper); }
  CHECK(finished(kept).signal == SIGKILL);
  CHECK(all_of(kept.output.get()).empty()); // its child has ended too, or the pipe would stay open
  pollfd still{left.watched.get(), POLLIN, 0};
  CHECK(::poll(&still, 1, 0) == 0);
  left.signal(SIGKILL);
  finished(left);
}
