#include "tools/farandole/commands.hpp"

#include <catch2/catch.hpp>

#include <algorithm>

#include "tools/farandole/command_line.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

const command_description& command(const std::vector<command_description>& table, const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.name == name; });
  REQUIRE(found != table.end());
  return *found;
}

const option_description& option(const command_description& command, const std::string& name) {
  for (const auto& entry : command.options)
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end())
      return entry;
  FAIL(name << " is no option of " << command.name);
  return command.options.front();
}

} // namespace

TEST_CASE("the overview has a line for each command, and a misspelled command has a suggestion",
          "[commands]") {
  for (const auto& command : command_table())
    CHECK_THAT(overview(), Contains("\n  " + command.name + " ") && Contains(" " + command.summary + "\n"));
  CHECK_THAT(nearest_command("drian"), Contains("drain"));
}

TEST_CASE("the options of the launcher have their aliases, choices and numbers of values", "[commands]") {
  const auto table = command_table();
  const auto& run = command(table, "run");
  CHECK(run.starts_program);
  CHECK(option(run, "-np").names.front() == "--num-proc");
  CHECK(option(run, "-hostfile").value == "FILE");
  CHECK(option(run, "-prefix-timestamp").values == 0);
  CHECK(option(run, "--log-level").choices.size() == 6);
  CHECK(option(run, "--blacklist-cooldown-range").values == 2);
  CHECK(option(run, "--network-interface").values == 1);
  for (const auto& entry : run.options)
    CHECK(std::find(entry.names.begin(), entry.names.end(), "--no-autotune") == entry.names.end());
}

TEST_CASE("the smaller commands describe their own options", "[commands]") {
  const auto table = command_table();
  CHECK(option(command(table, "rendezvous"), "--secret-file").values == 1);
  CHECK(option(command(table, "rendezvous"), "-np").value == "INT");
  CHECK(option(command(table, "drain"), "--no-wait").values == 0);
  CHECK(option(command(table, "chaos"), "--seed").values == 1);
  CHECK(command(table, "chaos").starts_program);
  CHECK(option(command(table, "run"), "--stdin").value == "RANK");
  CHECK(option(command(table, "rsh"), "--job").values == 1);
  CHECK(command(table, "completion").words == std::vector<std::string>{"bash", "zsh", "fish"});
}
