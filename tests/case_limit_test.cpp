#include "tests/case_limit.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "messages/values/descriptor.hpp"

using namespace farandole;

TEST_CASE("this case never ends, and neither does the process that it forks", "[.]") {
  SECTION("wait") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    for (;;)
      ::pause();
  }
}

TEST_CASE(
    "a case that exceeds its limit is named with its place, and ends with the processes that it forked") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const descriptor read_end{ends[0]};
  descriptor write_end{ends[1]};
  const pid_t runner = ::fork();
  REQUIRE(runner >= 0);
  if (runner == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setenv("FARANDOLE_TEST_CASE_SECONDS", "1", 1);
    ::dup2(write_end.get(), STDERR_FILENO);
    ::execl("/proc/self/exe", "runner", "this case never ends*", nullptr);
    ::_exit(1);
  }
  write_end.close();
  std::string said;
  char part[4096];
  // The pipe ends once neither the runner nor the process that its case forked can write to it.
  for (ssize_t size; (size = ::read(read_end.get(), part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(size));
  int status = 0;
  REQUIRE(::waitpid(runner, &status, 0) == runner);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK_THAT(said, Catch::Contains("\"this case never ends, and neither does the process that it forks\"") &&
                       Catch::Contains("exceeds its limit of 1 s") && Catch::Contains("last section: wait") &&
                       Catch::Contains("case_limit_test.cpp:20"));
}
