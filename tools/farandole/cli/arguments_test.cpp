#include "tools/farandole/cli/arguments.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using words = std::vector<std::string>;
using options = std::vector<given_option>;

namespace {

const std::vector<option_shape> shapes = {
    {"--num-proc", {"-np"}, 1, true},
    {"--ssh-port", {"-p"}, 1},
    {"--verbose", {}, 0},
    {"--hosts", {"-H"}, 1},
    {"--hostfile", {"-hostfile"}, 1},
    {"--log-level", {}, 1},
    {"--log-without-timestamp", {}, 0},
    {"--cooldown-range", {}, 2, true},
    {"--prefix-output-with-timestamp", {"-prefix-timestamp"}, 0},
    {"--min-num-proc", {"--min-np"}, 1},
    {"--mpi-args", {}, 1},
    {"--mpi", {}, 0},
};

arguments parsed(const words& given) {
  auto result = parse_arguments(shapes, given);
  if (!result)
    FAIL(result.error().text);
  return *result;
}

std::string refusal(const words& given) {
  auto result = parse_arguments(shapes, given);
  REQUIRE_FALSE(result);
  return result.error().text;
}

} // namespace

TEST_CASE("all arguments from the first word on belong to the command, its own options included",
          "[arguments]") {
  const auto got = parsed({"-np", "2", "python", "-np", "x.py", "--verbose", "--", "-x"});
  CHECK(got.options == options{{"--num-proc", {"2"}}});
  CHECK(got.command == words{"python", "-np", "x.py", "--verbose", "--", "-x"});
}

TEST_CASE("two dashes end the options and are dropped", "[arguments]") {
  CHECK(parsed({"--verbose", "--", "-x", "--"}).command == words{"-x", "--"});
}

TEST_CASE("a value may follow a space, an equals sign or a single letter", "[arguments]") {
  CHECK(parsed({"--num-proc=2"}).options == options{{"--num-proc", {"2"}}});
  CHECK(parsed({"-np=2"}).options == options{{"--num-proc", {"2"}}});
  CHECK(parsed({"-p22"}).options == options{{"--ssh-port", {"22"}}});
  CHECK(parsed({"-Hlocalhost:2"}).options == options{{"--hosts", {"localhost:2"}}});
  CHECK(parsed({"--mpi-args=--x=1 -y"}).options == options{{"--mpi-args", {"--x=1 -y"}}});
  CHECK(parsed({"--mpi-args="}).options == options{{"--mpi-args", {""}}});
}

TEST_CASE("an unambiguous prefix is enough, and an exact name wins over a longer one", "[arguments]") {
  CHECK(parsed({"--num", "2"}).options == options{{"--num-proc", {"2"}}});
  CHECK(parsed({"--min", "2"}).options == options{{"--min-num-proc", {"2"}}});
  CHECK(parsed({"-prefix"}).options == options{{"--prefix-output-with-timestamp", {}}});
  CHECK(parsed({"--mpi"}).options == options{{"--mpi", {}}});
  CHECK(parsed({"--log-l=INFO"}).options == options{{"--log-level", {"INFO"}}});
}

TEST_CASE("an ambiguous prefix is refused with the possible options", "[arguments]") {
  CHECK(refusal({"--log"}) == "ambiguous option: --log could match --log-level, --log-without-timestamp");
}

TEST_CASE("missing values, superfluous values and unknown options are refused", "[arguments]") {
  CHECK(refusal({"-np"}) == "argument -np: expected one argument");
  CHECK(refusal({"-np", "--verbose"}) == "argument -np: expected one argument");
  CHECK(refusal({"--cooldown-range", "1"}) == "argument --cooldown-range: expected 2 arguments");
  CHECK(refusal({"--verbose=1"}) == "argument --verbose: ignored explicit argument '1'");
  CHECK(refusal({"--nonsense"}) == "unrecognized arguments: --nonsense");
}

TEST_CASE("a mistyped option is refused with the nearest one", "[arguments]") {
  CHECK(refusal({"--vrebose"}) == "unrecognized arguments: --vrebose; did you mean '--verbose'?");
  CHECK(refusal({"--num-porc=2"}) == "unrecognized arguments: --num-porc=2; did you mean '--num-proc'?");
}

TEST_CASE("a value that is not a whole number is refused with its option's name", "[arguments]") {
  CHECK(refusal({"-np", "abc"}) == "argument -np: 'abc' is not a whole number; write it as in -np 4");
  CHECK(refusal({"--num-proc=2.5"}) ==
        "argument --num-proc: '2.5' is not a whole number; write it as in --num-proc 4");
  CHECK(refusal({"-np", "4x"}).find("'4x' is not a whole number") != std::string::npos);
  CHECK(refusal({"-np="}).find("'' is not a whole number") != std::string::npos);
  CHECK(refusal({"-np", "99999999999"}) == "argument -np: '99999999999' is out of range");
  CHECK(refusal({"--cooldown-range", "1", "x"}).find("'x'") != std::string::npos);
}

TEST_CASE("negative numbers and texts with spaces are values", "[arguments]") {
  CHECK(parsed({"-np", "-1", "x"}).options == options{{"--num-proc", {"-1"}}});
  CHECK(parsed({"--mpi-args", "-a b", "x"}).options == options{{"--mpi-args", {"-a b"}}});
  CHECK(parsed({"--cooldown-range", "1", "2", "x"}).options == options{{"--cooldown-range", {"1", "2"}}});
}
