#include "tools/farandole/cli/option_description.hpp"

#include <CLI/CLI.hpp>
#include <catch2/catch.hpp>

using namespace farandole;
using words = std::vector<std::string>;

TEST_CASE("options are described as the help shows them", "[option description]") {
  CLI::App app("An example.", "example");
  int count = 0;
  std::string file;
  bool fast = false;
  app.add_option("worker", file, "a positional");
  app.add_option("--size,--num-proc", count, "number of workers")->check(CLI::Range(1, 100));
  app.add_option("-r,--range", file, "two numbers")->type_name("LOW HIGH")->expected(2)->group("Limits");
  app.add_option("--address", file, "where")->type_name("IP:PORT");
  app.add_flag("--fast", fast, "hurries");
  app.add_flag("--old", fast, "no longer listed")->group("");
  const auto options = describe_options(app);
  REQUIRE(options.size() == 5);
  CHECK(options[0].names == words{"--help", "-h"});
  CHECK(options[1].names == words{"--size", "--num-proc", "-np"});
  CHECK(options[1].doc == "number of workers");
  CHECK(options[1].value == "INT");
  CHECK(options[1].values == 1);
  CHECK(options[1].heading == "Options");
  CHECK(options[2].names == words{"--range", "-r"});
  CHECK(options[2].value == "LOW HIGH");
  CHECK(options[2].values == 2);
  CHECK(options[2].heading == "Limits");
  CHECK(options[3].value == "IP:PORT");
  CHECK(options[4].names == words{"--fast"});
  CHECK(options[4].value.empty());
  CHECK(options[4].values == 0);
}
