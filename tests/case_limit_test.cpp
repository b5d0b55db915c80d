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

namespace {

struct outcome {
  int status = 0;
  std::string text; ///< its standard error
};

/// Runs the case above with this limit.
outcome exceed(const std::string& limit_s) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const descriptor read_end{ends[0]};
  descriptor write_end{ends[1]};
  const pid_t runner = ::fork();
  REQUIRE(runner >= 0);
  if (runner == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setenv("FARANDOLE_TEST_CASE_SECONDS", limit_s.c_str(), 1);
    ::dup2(write_end.get(), STDERR_FILENO);
    ::execl("/proc/self/exe", "runner", "this case never ends*", nullptr);
    ::_exit(1);
  }
  write_end.close();
  outcome result;
  char part[4096];
  // The pipe ends once neither the runner nor the process that its case forked can write to it.
  for (ssize_t size; (size = ::read(read_end.get(), part, sizeof part)) > 0;)
    result.text.append(part, static_cast<std::size_t>(size));
  REQUIRE(::waitpid(runner, &result.status, 0) == runner);
  return result;
}

} // namespace

TEST_CASE(
    "a case that exceeds its limit is named with its place, and ends with the processes that it forked") {
  const std::string assertion = "case_limit_test.cpp:20";
  // On a busy machine, a short limit may pass before the case has forked.
  int limit_s = 1;
  outcome result = exceed(std::to_string(limit_s));
  while (result.text.find(assertion) == std::string::npos && limit_s < 32)
    result = exceed(std::to_string(limit_s *= 2));
  CHECK(WIFSIGNALED(result.status));
  CHECK(WTERMSIG(result.status) == SIGABRT);
  CHECK_THAT(result.text,
             Catch::Contains("\"this case never ends, and neither does the process that it forks\"") &&
                 Catch::Contains("exceeds its limit of " + std::to_string(limit_s) + " s") &&
                 Catch::Contains("last section: wait") && Catch::Contains(assertion));
}
