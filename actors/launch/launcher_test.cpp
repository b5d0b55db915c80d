#include "actors/launch/launcher.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// Redirects standard output and standard error to files during its lifetime.
class captured {
public:
  captured() {
    for (int number : {0, 1}) {
      files_[number] = descriptor{::memfd_create("output", MFD_CLOEXEC)};
      before_[number] = descriptor{::fcntl(number + 1, F_DUPFD_CLOEXEC, 3)};
      ::dup2(files_[number].get(), number + 1);
    }
  }
  ~captured() {
    for (int number : {0, 1})
      ::dup2(before_[number].get(), number + 1);
  }
  std::string text(int number) const {
    std::string result(1 << 20, '\0');
    const auto count = ::pread(files_[number].get(), result.data(), result.size(), 0);
    result.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return result;
  }

private:
  descriptor files_[2], before_[2];
};

struct result {
  int code;
  std::string text, err;
};

std::vector<slot_spec> shells(const std::vector<std::string>& scripts) {
  std::vector<slot_spec> slots;
  for (const auto& script : scripts) {
    slot_spec slot;
    slot.slot = static_cast<std::int32_t>(slots.size());
    slot.label = std::to_string(slot.slot);
    slot.process.arguments = {"sh", "-c", script};
    slot.process.environment = {"PATH=/usr/bin:/bin"};
    slot.linger = std::chrono::nanoseconds(0);
    slots.push_back(slot);
  }
  return slots;
}

result run(std::vector<slot_spec> slots, const char* grace_s = "0") {
  launcher_options options;
  options.members.size = static_cast<std::int32_t>(slots.size());
  options.secret = "a secret of a test";
  REQUIRE_FALSE(options.values.assign(setting::exit_grace, grace_s, setting_source::flag));
  REQUIRE_FALSE(options.values.assign(setting::termination_grace, "120", setting_source::flag));
  const captured output;
  int code = -1;
  {
    auto job = launcher::open(options);
    REQUIRE(job);
    CHECK((*job)->port() != 0);
    code = (*job)->run(std::move(slots));
  } // all output has been written
  return {code, output.text(0), output.text(1)};
}

/// Waits until a process has ended; the process need not be a child of this one.
bool ends(pid_t id) {
  const descriptor watched{static_cast<int>(::syscall(SYS_pidfd_open, id, 0))};
  if (!watched)
    return true;
  pollfd ended{watched.get(), POLLIN, 0};
  return ::poll(&ended, 1, 60000) == 1;
}

} // namespace

TEST_CASE("a job whose processes succeed ends with 0, and every line has its rank", "[launcher]") {
  const auto got = run(shells({"echo a; echo b >&2", "printf c"}));
  CHECK(got.code == 0);
  CHECK((got.text == "[0]<stdout>:a\n[1]<stdout>:c\n" || got.text == "[1]<stdout>:c\n[0]<stdout>:a\n"));
  CHECK(got.err == "[0]<stderr>:b\n");
}

TEST_CASE("the launcher names the first failure and exits with its code", "[launcher]") {
  const auto got = run(shells({"sleep 1000", "exit 3"}));
  CHECK(got.code == 3);
  CHECK(
      got.err ==
      "Process 1 exit with status code 3.\n"
      "Terminating remaining workers after failure of Process 1.\n"
      "Horovod detected that one or more processes exited with non-zero status. The one that caused it was:\n"
      "Process name: 1\nExit code: 3\nCause: Process 1 exited with code 3\n"
      "Full output: the lines above that begin with [1]; --output-filename keeps a copy of each process's "
      "output\n");
}

TEST_CASE("a killed process gives exit code 128 plus the signal", "[launcher]") {
  CHECK(run(shells({"kill -KILL $$"})).code == 137);
}

TEST_CASE("a command that cannot be found ends the job with 127 and its name", "[launcher]") {
  auto slots = shells({"", ""});
  for (auto& slot : slots)
    slot.process.arguments = {"no-such-program-anywhere"};
  const auto got = run(slots);
  CHECK(got.code == 127);
  CHECK(got.err.find("no-such-program-anywhere: command not found") != std::string::npos);
}

TEST_CASE("after a failure, the other processes get SIGTERM and may still print", "[launcher]") {
  // The second fails only once the first has set its trap: it reads a line that the first then writes to a pipe.
  int ends_of_pipe[2];
  REQUIRE(::pipe2(ends_of_pipe, O_CLOEXEC) == 0);
  const descriptor told{ends_of_pipe[0]}, tell{ends_of_pipe[1]};
  const auto file = [](const descriptor& end) { return "/dev/fd/" + std::to_string(end.get()); };
  auto slots = shells(
      {"trap 'echo bye; exit 0' TERM; echo ready; echo >" + file(tell) + "; while :; do sleep 0.01; done",
       "read line <" + file(told) + "; kill -USR1 $$"});
  slots[0].process.inherited = {tell.get()};
  slots[1].process.inherited = {told.get()};
  const auto got = run(std::move(slots));
  CHECK(got.code == 128 + SIGUSR1);
  CHECK(got.text == "[0]<stdout>:ready\n[0]<stdout>:bye\n");
}

TEST_CASE("SIGTERM to the launcher ends the job in order", "[launcher]") {
  const auto got = run(shells({"kill -TERM $PPID; sleep 1000", "sleep 1000"}));
  CHECK(got.code == 128 + SIGTERM);
  CHECK(got.err == "farandole: Terminated; ending the workers\n");
}

TEST_CASE("processes that a worker leaves behind in its group end with the worker", "[launcher]") {
  const auto got = run(shells({"sleep 1000 & echo $!"}));
  CHECK(got.code == 0);
  REQUIRE(got.text.starts_with("[0]<stdout>:"));
  CHECK(ends(std::stoi(got.text.substr(12))));
}

TEST_CASE("large output arrives whole", "[launcher]") {
  const auto got = run(shells({"seq 1 20000", "seq 1 20000 >&2"}));
  std::string wanted;
  for (int number = 1; number <= 20000; ++number)
    wanted += "[0]<stdout>:" + std::to_string(number) + "\n";
  CHECK(got.text == wanted);
  CHECK(got.err.ends_with("[1]<stderr>:20000\n"));
}

TEST_CASE("copies of the output hold the same lines", "[launcher]") {
  const temporary_folder made;
  const auto& folder = made.path();
  {
    const captured output;
    auto job = launcher::open({.members = {}, .secret = "a secret of a test"});
    REQUIRE(job);
    auto slots = shells({"echo a; echo b >&2"});
    REQUIRE_FALSE((*job)->copy_output(slots[0], folder + "/rank.0"));
    CHECK((*job)->run(slots) == 0);
  }
  const auto content = [&](const char* file) {
    std::ifstream in(folder + "/rank.0/" + file);
    return (std::ostringstream() << in.rdbuf()).str();
  };
  CHECK(content("stdout") == "[0]<stdout>:a\n");
  CHECK(content("stderr") == "[0]<stderr>:b\n");
}

TEST_CASE("a launcher that cannot listen for agents returns the error, also with a caller", "[launcher]") {
  int ends_of_pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_of_pair) == 0);
  const descriptor own{ends_of_pair[0]}, of_caller{ends_of_pair[1]};
  launcher_options options;
  options.secret = "a secret of a test";
  options.call_descriptor = own.get();
  options.agents.bind_ips = {"192.0.2.1"}; // reserved for documentation: no host has it
  CHECK_FALSE(launcher::open(options));
}

TEST_CASE("no worker, and no child of a worker, outlives a killed launcher", "[launcher]") {
  int ends_of_pipe[2];
  REQUIRE(::pipe2(ends_of_pipe, O_CLOEXEC) == 0);
  descriptor told{ends_of_pipe[0]}, tell{ends_of_pipe[1]};
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    launcher_options options;
    options.secret = "a secret of a test";
    auto job = launcher::open(options);
    auto slots =
        shells({"sleep 1000 & echo $$ $! >&" + std::to_string(tell.get()) + "; kill -KILL $PPID; wait"});
    slots[0].process.inherited = {tell.get()};
    ::_exit(job ? (*job)->run(slots) : 1);
  }
  tell.close();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  char text[64] = {};
  REQUIRE(::read(told.get(), text, sizeof text - 1) > 0);
  pid_t worker = 0, its_child = 0;
  REQUIRE(static_cast<bool>(std::istringstream(text) >> worker >> its_child));
  CHECK(ends(worker));
  CHECK(ends(its_child));
}
