#include "tools/farandole/cli/app_arguments.hpp"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>

using namespace farandole;
using words = std::vector<std::string>;

namespace {

/// An application like `farandole rendezvous`.
struct example {
  CLI::App app{"An example.", "example"};
  int processes = 0;
  unsigned short port = 0;
  bool fast = false;
  example() {
    app.add_option("--size,--num-proc", processes)->check(CLI::Range(1, 100));
    app.add_option("--port", port);
    app.add_flag("--no-wait", fast);
  }
};

std::string refusal(const words& given) {
  example example;
  const auto got = parse_with(example.app, given);
  REQUIRE_FALSE(got);
  return got.error().text;
}

} // namespace

TEST_CASE("smaller commands understand -np, prefixes and help", "[app arguments]") {
  example local;
  const auto got = parse_with(local.app, words{"-np", "3", "--po=7", "--no-wait", "train.py", "--port", "9"});
  REQUIRE(got);
  CHECK(local.processes == 3);
  CHECK(local.port == 7);
  CHECK(local.fast);
  CHECK(got->command == words{"train.py", "--port", "9"});
  CHECK(got->help.empty());
  example other;
  const auto help = parse_with(other.app, words{"--help"});
  REQUIRE(help);
  CHECK(help->help.find("An example.") != std::string::npos);
}

TEST_CASE("smaller commands refuse arguments with the launcher's messages", "[app arguments]") {
  CHECK(refusal({"-np", "abc"}) == "argument -np: 'abc' is not a whole number; write it as in -np 4");
  CHECK(refusal({"--prot", "1"}) == "unrecognized arguments: --prot; did you mean '--port'?");
  CHECK(refusal({"--port", "abc"}) == "argument --port: 'abc' is not a number in its range");
  CHECK(refusal({"-np", "101"}).find("1 to 100") != std::string::npos);
}

TEST_CASE("CLI11's own refusals get the launcher's messages", "[app arguments]") {
  example example;
  const words given{"3", "--no-wiat"};
  try {
    example.app.parse(std::vector<std::string>{given.rbegin(), given.rend()});
    FAIL("it must be refused");
  } catch (const CLI::ParseError& problem) {
    CHECK(refusal_of(example.app, problem, given) ==
          "unrecognized arguments: --no-wiat; did you mean '--no-wait'?");
  }
}
