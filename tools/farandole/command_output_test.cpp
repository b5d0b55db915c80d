#include "tools/farandole/command_output.hpp"

#include <catch2/catch.hpp>

#include <signal.h>

#include <string>

#include "actors/launch/process.hpp"

using namespace farandole;

namespace {

expected<std::string> said_by(const std::string& script,
                              std::chrono::milliseconds timeout = std::chrono::seconds{60}) {
  return output_of({"sh", "-c", script}, own_environment(), timeout);
}

std::string refusal(const expected<std::string>& result) {
  REQUIRE_FALSE(result);
  return result.error().text;
}

} // namespace

TEST_CASE("the standard output of a command is returned, without that of standard error") {
  CHECK(*said_by("echo out; echo err >&2; echo more") == "out\nmore\n");
}

TEST_CASE("a command that fails is named with its code and its last message") {
  CHECK(refusal(said_by("echo first >&2; echo last >&2; exit 3")) ==
        "'sh -c 'echo first >&2; echo last >&2; exit 3'' failed: it exited with code 3: last");
  CHECK(refusal(said_by("exit 4")) == "'sh -c 'exit 4'' failed: it exited with code 4");
}

TEST_CASE("a command that does not exist is named") {
  CHECK_THAT(refusal(output_of({"no-such-program"}, {"PATH=/usr/bin"}, std::chrono::seconds{60})),
             Catch::StartsWith("'no-such-program' failed: ") &&
                 Catch::Contains("no-such-program", Catch::CaseSensitive::Yes));
}

TEST_CASE("a command that does not end is killed") {
  CHECK_THAT(refusal(said_by("exec sleep 1000", std::chrono::milliseconds{10})),
             Catch::EndsWith("it has not ended within 10 ms"));
}

TEST_CASE("a command that closes its streams and does not end is killed") {
  CHECK_THAT(refusal(said_by("exec sleep 1000 >&- 2>&-", std::chrono::milliseconds{300})),
             Catch::EndsWith("it has not ended within 300 ms"));
}

TEST_CASE("a process that a command leaves behind with its streams is not waited for") {
  const auto process = said_by("sleep 1000 & echo $!");
  REQUIRE(process);
  ::kill(std::stoi(*process), SIGKILL);
}

TEST_CASE("a command that prints without end is killed") {
  CHECK_THAT(refusal(said_by("exec cat /dev/zero")),
             Catch::EndsWith("it has printed more than 16777216 bytes"));
}
