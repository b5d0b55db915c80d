#include "tools/farandole/jsrun_command.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using words = std::vector<std::string>;

words made(const jsrun_request& request) {
  const auto command = make_jsrun_command(request);
  INFO((command ? "" : command.error().text));
  REQUIRE(command);
  return *command;
}

} // namespace

TEST_CASE("the whole command line of jsrun") {
  jsrun_request request;
  request.rank_file = "/tmp/ranks.erf";
  request.output_filename = "logs";
  request.mpi_args = "-x 'A=b c'";
  request.tcp_only = true;
  request.command = {"python", "train it.py"};
  CHECK(made(request) == words{"jsrun", "--erf_input", "/tmp/ranks.erf", "--stdio_stderr", "logs",
                               "--stdio_stdout", "logs", "--smpiargs", "-tcp -x 'A=b c'", "python",
                               "train it.py"});
}

TEST_CASE("options that were not given to jsrun add no word, and binding arguments replace the rank file") {
  jsrun_request request;
  request.rank_file = "f";
  request.command = {"true"};
  CHECK(made(request) == words{"jsrun", "--erf_input", "f", "true"});
  request.mpi_args = "-gpu";
  CHECK(made(request) == words{"jsrun", "--erf_input", "f", "--smpiargs", "-gpu", "true"});
  request.mpi_args.clear();
  request.tcp_only = true;
  CHECK(made(request) == words{"jsrun", "--erf_input", "f", "--smpiargs", "-tcp", "true"});
  request.tcp_only = false;
  request.binding_args = "-n 2 --bind 'packed:4'";
  CHECK(made(request) == words{"jsrun", "-n", "2", "--bind", "packed:4", "true"});
  request.binding_args = "-n '";
  const auto refused = make_jsrun_command(request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == error_kind::invalid_argument);
  CHECK_THAT(refused.error().text, Catch::StartsWith("--binding-args='-n '' cannot be split into words: "));
}

TEST_CASE("jsrun refuses timestamps") {
  jsrun_request request;
  request.command = {"true"};
  request.timestamps = true;
  const auto refused = make_jsrun_command(request);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == error_kind::invalid_argument);
  CHECK_THAT(refused.error().text, Catch::Contains("leave out --prefix-output-with-timestamp"));
}

TEST_CASE("a rank file gives each rank the next CPUs of its host") {
  const auto content = jsrun_rank_file({{"h1", 3}, {"spare", 0}, {"h2", 2}, {"h3", 1}}, 5, 10);
  REQUIRE(content);
  CHECK(*content == "overlapping_rs: allow\n"
                    "cpu_index_using: logical\n"
                    "\n"
                    "rank: 0: { hostname: h1; cpu: {0-2} ; gpu: * ; mem: * }\n"
                    "rank: 1: { hostname: h1; cpu: {3-5} ; gpu: * ; mem: * }\n"
                    "rank: 2: { hostname: h1; cpu: {6-8} ; gpu: * ; mem: * }\n"
                    "\n"
                    "rank: 3: { hostname: h2; cpu: {0-4} ; gpu: * ; mem: * }\n"
                    "rank: 4: { hostname: h2; cpu: {5-9} ; gpu: * ; mem: * }\n");
}

TEST_CASE("a rank with a single CPU has a range of one") {
  const auto content = jsrun_rank_file({{"h", 2}}, 1, 2);
  REQUIRE(content);
  CHECK_THAT(*content, Catch::EndsWith("\n\nrank: 0: { hostname: h; cpu: {0-0} ; gpu: * ; mem: * }\n"));
}

TEST_CASE("fewer slots than ranks, or fewer CPUs than slots, are refused with both numbers") {
  const auto slots = jsrun_rank_file({{"a", 1}, {"b", 2}}, 4, 8);
  REQUIRE_FALSE(slots);
  CHECK_THAT(slots.error().text, Catch::Contains("4 processes") && Catch::Contains("3 slots"));
  const auto cpus = jsrun_rank_file({{"a", 4}, {"b", 5}}, 5, 4);
  REQUIRE_FALSE(cpus);
  CHECK(cpus.error().kind == error_kind::invalid_argument);
  CHECK_THAT(cpus.error().text, Catch::StartsWith("host 'b' has 5 slots, but only 4 CPUs"));
}
